"""Session tokens: what a browser holds in place of a key. They are signed, not kept; they end soon, and with their key."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from serve_app.access.caller import Caller
from serve_app.access.key_file import KeyFile, KeyFileError
from serve_app.access.keys import SCOPES, TOKEN_PREFIX, Scope

_MAX_CHARS: Final = 512


@dataclass(frozen=True)
class SessionToken:
    """A token that was given out.

    Attributes:
        text: What the caller sends from now on.
        scopes: What it allows.
        expires_at: Second since the epoch from which it is refused.
    """

    text: str
    scopes: tuple[Scope, ...]
    expires_at: float


class SessionTokens:
    """Gives tokens out and reads them. Every process that has the file of keys reads the tokens of all others.

    Args:
        keys: The file of keys, which holds the secret that signs, and says which keys are valid.
        ttl_s: Seconds for which a token is valid.
        session_s: Seconds after the key was shown in which a token can be exchanged for a newer one.
        wall_clock: Gives seconds since the epoch.
    """

    def __init__(
        self, keys: KeyFile, ttl_s: float, session_s: float, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._keys = keys
        self._ttl_s = ttl_s
        self._session_s = session_s
        self._wall_clock = wall_clock

    def give(self, caller: Caller, scopes: tuple[Scope, ...], ttl_s: float | None = None) -> SessionToken:
        """Give a token out.

        Args:
            caller: Who asks, with a key or an older token.
            scopes: What it shall allow; scopes that the caller lacks are left out.
            ttl_s: Seconds until it ends, at most the usual time; None for that.

        Raises:
            KeyFileError: The file of keys cannot be read, or is gone.
        """
        now = self._wall_clock()
        born_at = now if caller.born_at is None else caller.born_at
        expires_at = min(now + min(ttl_s or self._ttl_s, self._ttl_s), born_at + self._session_s)
        allowed = tuple(scope for scope in scopes if caller.may(scope))
        payload = json.dumps({"k": caller.owner, "s": allowed, "e": expires_at, "b": born_at}, separators=(",", ":"))
        body = _text(payload.encode("ascii"))
        return SessionToken(f"{TOKEN_PREFIX}{body}.{_text(self._signature(body))}", allowed, expires_at)

    def read(self, text: str) -> Caller | None:
        """Return who holds a token; None where it is forged or over, or its key is not valid any more.

        Raises:
            KeyFileError: The file of keys cannot be read.
        """
        if not text.startswith(TOKEN_PREFIX) or len(text) > _MAX_CHARS or not text.isascii():
            return None
        body, _, signature = text.removeprefix(TOKEN_PREFIX).partition(".")
        if self._keys.signing_secret() is None:
            return None
        if not hmac.compare_digest(_text(self._signature(body)), signature):
            return None
        try:
            found = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
            owner, scopes, expires_at, born_at = str(found["k"]), found["s"], float(found["e"]), float(found["b"])
        except (binascii.Error, ValueError, LookupError, TypeError):  # signed by another version of this service
            return None
        key = self._keys.valid(owner)
        if key is None or self._wall_clock() >= expires_at:
            return None
        allowed = frozenset(
            scope for scope in SCOPES if scope in scopes and (scope in key.scopes or "admin" in key.scopes)
        )
        return Caller(owner, allowed, owner, born_at)

    def _signature(self, body: str) -> bytes:
        secret = self._keys.signing_secret()
        if secret is None:
            raise KeyFileError(str(self._keys.path), "is gone")
        return hmac.digest(secret, body.encode("ascii"), "sha256")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
