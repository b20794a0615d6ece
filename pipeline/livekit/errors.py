"""Why a session cannot be in a LiveKit room."""

from __future__ import annotations

from kernels.errors import LiveAnchorError


class LiveKitMissingError(LiveAnchorError):
    """The package `livekit` is not installed."""

    code = "livekit_missing"

    def __str__(self) -> str:
        """Say in one line what to install."""
        return "LiveKit's rooms need the package livekit, which is not installed: pip install 'liveanchor[livekit]'"


class RoomUnreachableError(LiveAnchorError):
    """The LiveKit server does not answer, or not in time.

    Args:
        host: Host of the server.
        reason: What happened, without the token.
    """

    code = "room_unreachable"
    retryable = True

    def __init__(self, host: str, reason: str) -> None:
        super().__init__(host, reason)
        self.host = host
        self.reason = reason

    def __str__(self) -> str:
        """Say in one line who did not answer."""
        return f"the LiveKit server {self.host} cannot be reached: {self.reason}"
