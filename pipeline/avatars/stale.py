"""The error for an avatar that other weights than the running ones made."""

from __future__ import annotations

from kernels.errors import LiveAnchorError


class StaleAvatarError(LiveAnchorError):
    """The avatar was registered with other weights than the renderer runs.

    Args:
        avatar_id: Which.
        made_with: Version of its features.
        running: Version of the extractors that this renderer works with.
    """

    code = "stale_avatar"

    def __init__(self, avatar_id: str, made_with: str, running: str) -> None:
        super().__init__(avatar_id, made_with, running)
        self.avatar_id = avatar_id
        self.made_with = made_with
        self.running = running

    def __str__(self) -> str:
        """Say in one line: what does not fit and what to do."""
        return f"avatar {self.avatar_id} was made with weights {self.made_with}, these are {self.running}: register it again"
