"""Tells who makes a request, and refuses what its key does not allow."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from starlette.types import Scope as AsgiScope

from serve_app.access.caller import Caller, anybody
from serve_app.access.key_file import KeyFile
from serve_app.access.keys import TOKEN_PREFIX, Scope
from serve_app.access.settings import KeySettings
from serve_app.access.tokens import SessionToken, SessionTokens
from serve_app.http.access.bearer import credential_of
from serve_app.http.access.rules import scopes_for
from serve_app.http.access.sessions import check_session
from serve_app.http.problems.errors import KeyInvalidError, KeyMissingError, ScopeMissingError

_CALLER: Final = "caller"


class Access:
    """Knows the keys of one application.

    Args:
        settings: When keys are needed, and where they are.
        listens_elsewhere: Whether other machines reach the service.
        wall_clock: Gives seconds since the epoch.

    Attributes:
        needed: Whether callers need a key.
        longest_s: Seconds for which a session token is valid at most.
    """

    def __init__(
        self, settings: KeySettings, listens_elsewhere: bool, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self.needed = settings.required == "always" or (settings.required == "auto" and listens_elsewhere)
        self._open_metrics = settings.open_metrics
        self._keys = KeyFile(settings.path(), wall_clock)
        self._tokens = SessionTokens(self._keys, settings.token_ttl_s, settings.session_s, wall_clock)
        self._wall_clock = wall_clock
        self.longest_s = settings.token_ttl_s

    def admit(self, scope: AsgiScope) -> Caller:
        """Return who makes a request that may be made, and note it in the request.

        Args:
            scope: An HTTP request, or a WebSocket before it is accepted.

        Raises:
            KeyMissingError: A key is needed and none is shown.
            KeyInvalidError: What is shown is no valid key or token.
            ScopeMissingError: The key does not allow this.
            SessionNotFoundError: The address names a live session of another owner.
            KeyFileError: Keys cannot be checked.
        """
        caller = self._caller(scope)
        scope.setdefault("state", {})[_CALLER] = caller
        return caller

    def give(self, caller: Caller, scopes: tuple[Scope, ...], ttl_s: float | None = None) -> SessionToken:
        """Give a session token out; arguments and errors are those of `SessionTokens.give`."""
        return self._tokens.give(caller, scopes, ttl_s)

    def seconds_to(self, moment: float) -> int:
        """Whole seconds until a second since the epoch, at least 0."""
        return max(0, round(moment - self._wall_clock()))

    def _caller(self, scope: AsgiScope) -> Caller:
        stranger = anybody(address_of(scope))
        if not self.needed:
            return stranger
        path = path_of(scope)
        wanted = scopes_for(path, scope.get("method", "GET"), self._open_metrics)
        if not wanted:
            return Caller(stranger.owner, frozenset(), stranger.client)
        shown = credential_of(scope)
        if shown is None:
            raise KeyMissingError()
        caller = self._holder(shown)
        if caller is None:
            raise KeyInvalidError()
        if not any(caller.may(one) for one in wanted):
            raise ScopeMissingError(wanted[0])
        check_session(path, caller)
        return caller

    def _holder(self, text: str) -> Caller | None:
        if text.startswith(TOKEN_PREFIX):
            return self._tokens.read(text)
        key = self._keys.find(text)
        return None if key is None else Caller(key.key_id, frozenset(key.scopes), key.key_id)


def caller_of(scope: AsgiScope) -> Caller:
    """Return who makes a request: `caller_of(request.scope)`. Its `owner` is what the things that it makes are marked with.

    Only for requests that came through `AccessGuard`, as all of an application do.
    """
    found: Caller = scope["state"][_CALLER]
    return found


def path_of(scope: AsgiScope) -> str:
    """Path of a request's address, decoded, below the application's root."""
    path: str = scope["path"]
    return path.removeprefix(scope.get("root_path", ""))


def address_of(scope: AsgiScope) -> str:
    """IP address of the client, or of the proxy in front; `unknown` where the server does not tell."""
    client = scope.get("client")
    return str(client[0]) if client else "unknown"
