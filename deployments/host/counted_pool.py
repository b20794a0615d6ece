"""A token pool that exports what it holds: tokens and their use by set, and the offers that found none."""

from __future__ import annotations

from collections.abc import Iterable

from ray.serve import metrics

from deployments.host.live_errors import NoCapacityError
from deployments.host.token_pool import Lease, TokenPool


class CountedPool(TokenPool):
    """See `TokenPool`. It lives in an actor of its own, which Ray Serve knows nothing of, so it tags its metrics itself.

    Args:
        app: Name of the application.
    """

    def __init__(self, app: str) -> None:
        super().__init__()
        self._app = app
        both = ("application", "set")
        self._there = metrics.Gauge("liveanchor_set_tokens", description="Tokens of a set of stages.", tag_keys=both)  # type: ignore[arg-type]  # ray's annotation says one key, it takes any number
        self._taken = metrics.Gauge("liveanchor_set_tokens_used", description="Tokens that are taken.", tag_keys=both)  # type: ignore[arg-type]  # as above
        self._refusals = metrics.Counter(
            "liveanchor_set_offers_refused",
            description="Offers that came while a set's tokens were taken.",
            tag_keys=both,  # type: ignore[arg-type]  # as above
        )
        self._shown: set[str] = set()

    def acquire(self, session_id: str, fps: float, avatar_id: str = "") -> Lease:
        """See `TokenPool.acquire`."""
        try:
            return super().acquire(session_id, fps, avatar_id)
        except NoCapacityError:
            for name in self.stats().tokens:  # each of them was too full
                self._refusals.inc(tags=self._tags(name))
            raise

    def renew(self, leases: Iterable[Lease]) -> list[Lease]:
        """See `TokenPool.renew`."""
        renewed = super().renew(leases)
        self._show()
        return renewed

    def _show(self) -> None:
        """Export every set; one that is gone has no tokens any more."""
        found = self.stats()
        for name in self._shown | set(found.tokens):
            self._there.set(found.tokens.get(name, 0.0), tags=self._tags(name))
            self._taken.set(found.used.get(name, 0.0), tags=self._tags(name))
        self._shown = set(found.tokens)

    def _tags(self, name: str) -> dict[str, str]:
        return {"application": self._app, "set": name}
