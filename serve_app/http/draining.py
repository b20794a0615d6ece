"""The end of a service that is told to end: it takes nothing new that it could not finish, and finishes what it has."""

from __future__ import annotations

from typing import Final

from kernels.errors import LiveAnchorError

_STARTS: Final = frozenset({"/generate", "/api/generate", "/stream/webrtc/offer", "/stream/livekit"})
"""What begins work that ends with this process. A video in the background does not: it is taken, and made after the next start."""
_READY: Final = "/readyz"


class DrainingError(LiveAnchorError):
    """The service is about to end."""

    code = "draining"
    retryable = True

    def __str__(self) -> str:
        """Say it in one line."""
        return "this service is about to end; another one, or this one after its next start, takes it"


class Draining:
    """Whether this process drains."""

    def __init__(self) -> None:
        self._begun = False

    def begin(self) -> None:
        """Take nothing new from now on."""
        self._begun = True

    def check(self, method: str, path: str) -> None:
        """Let a request pass, or refuse it.

        Args:
            method: HTTP method.
            path: Address below the application's root.

        Raises:
            DrainingError: It would begin work, or asks whether the service takes some.
        """
        if self._begun and (path == _READY or (method == "POST" and path in _STARTS)):
            raise DrainingError
