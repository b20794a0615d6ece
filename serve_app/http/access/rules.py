"""Which scope each address needs. What no rule names needs `admin`: a new route is shut until it has a line here."""

from __future__ import annotations

from typing import Final, NamedTuple

from serve_app.access.keys import Scope

TOKEN_PATH: Final = "/auth/token"  # noqa: S105  # an address
_READ: Final = frozenset({"GET", "HEAD"})


class Rule(NamedTuple):
    """What a group of addresses needs.

    Attributes:
        path: The address; with a slash at its end, everything below it.
        scopes: A caller needs one of them; empty for addresses that are open to everybody.
        methods: HTTP methods that the rule speaks of; all where empty.
    """

    path: str
    scopes: tuple[Scope, ...] = ()
    methods: frozenset[str] = frozenset()

    def fits(self, path: str, method: str) -> bool:
        """Whether the rule speaks of a request."""
        there = path.startswith(self.path) if self.path.endswith("/") and self.path != "/" else path == self.path
        return there and (not self.methods or method in self.methods)


_ANY: Final[tuple[Scope, ...]] = ("generate", "live", "avatars")
_PAGES: Final = (
    "/",
    "/live",
    "/talk",
    "/watch/",
    "/docs",
    "/favicon.ico",
    "/static/",
    "/openapi.json",
    "/problems",
    "/problems/",
)
_HEALTH: Final = ("/healthz", "/readyz", "/version")
METRICS: Final = "/metrics"
SHUT: Final[tuple[Scope, ...]] = ("admin",)
RULES: Final = (
    *(Rule(path, (), _READ) for path in (*_PAGES, *_HEALTH)),
    Rule(TOKEN_PATH, _ANY, frozenset({"POST"})),
    Rule("/avatars", _ANY, _READ),
    Rule("/avatars/", _ANY, _READ),
    Rule("/avatars", ("avatars",)),
    Rule("/avatars/", ("avatars",)),
    Rule("/generate", ("generate",)),
    Rule("/api/generate", ("generate",)),
    Rule("/jobs/", ("generate",)),
    Rule("/results/", ("generate",)),
    Rule("/v1/videos", ("generate",)),
    Rule("/v1/videos/", ("generate",)),
    Rule("/v1/webhooks/", ("generate",)),
    Rule("/stream/", ("live",)),
    Rule("/v1/forget", SHUT),
)


def scopes_for(path: str, method: str, open_metrics: bool = False) -> tuple[Scope, ...]:
    """Which scopes a request needs one of; none where everybody may make it.

    Args:
        path: Path of the address, decoded, below the application's root.
        method: HTTP method; `GET` for a WebSocket.
        open_metrics: Whether metrics are for everybody.
    """
    if method == "OPTIONS" or (open_metrics and path == METRICS and method in _READ):
        return ()
    return next((rule.scopes for rule in RULES if rule.fits(path, method)), SHUT)
