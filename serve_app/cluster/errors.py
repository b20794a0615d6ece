"""What can go wrong between a command and the Ray cluster it runs on."""

from __future__ import annotations

from kernels.errors import LiveAnchorError


class ServiceFailedError(LiveAnchorError):
    """The service did not come up, or went away.

    Args:
        reason: What Ray Serve said.
    """

    code = "service_failed"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        """Say it in one line, with the reason."""
        return f"the service is not running: {self.reason}"
