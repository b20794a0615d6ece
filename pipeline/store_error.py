"""The error of a shared store that does not answer."""

from __future__ import annotations

from kernels.errors import LiveAnchorError


class StoreUnreachableError(LiveAnchorError):
    """A shared store of avatars or results does not answer.

    Args:
        uri: Which store.
        reason: What it said.
    """

    code = "store_unreachable"
    retryable = True

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(uri, reason)
        self.uri = uri
        self.reason = reason

    def __str__(self) -> str:
        """One line with the store and its answer."""
        return f"the store {self.uri} does not answer: {self.reason}"
