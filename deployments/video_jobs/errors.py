"""Errors of video jobs."""

from __future__ import annotations

from kernels.errors import InvalidInputError, LiveAnchorError


class VideoNotFoundError(InvalidInputError):
    """The caller has no video of this id."""

    code = "video_not_found"


class VideoStateError(InvalidInputError):
    """The video is in a state in which this cannot be done."""

    code = "video_state"


class VideoNotReadyError(VideoStateError):
    """The video is not made yet, so there is no file."""

    code = "video_not_ready"


class IdempotencyMismatchError(InvalidInputError):
    """A request came with the idempotency key of another one."""

    code = "idempotency_mismatch"


class TooManyVideosError(LiveAnchorError):
    """As many jobs wait as the operator allows.

    Args:
        waiting: Number of jobs that wait.
    """

    code = "too_many_videos"
    retryable = True

    def __init__(self, waiting: int) -> None:
        super().__init__(waiting)
        self.waiting = waiting

    def __str__(self) -> str:
        """Say in one line how many wait."""
        return f"{self.waiting} videos wait already, the most that are taken; try again later"


class TooManyOwnVideosError(LiveAnchorError):
    """As many jobs of one owner wait as one owner may have.

    Args:
        waiting: Number of its jobs that wait.
    """

    code = "too_many_videos"
    retryable = True

    def __init__(self, waiting: int) -> None:
        super().__init__(waiting)
        self.waiting = waiting

    def __str__(self) -> str:
        """Say in one line how many wait."""
        return f"{self.waiting} videos of this key wait already, the most that are taken; try again later"


class JobStoreError(LiveAnchorError):
    """The store of jobs does not answer, has no room, or is not the one that it was.

    Args:
        place: Where it is.
        reason: What it said.
    """

    code = "jobs_unavailable"
    retryable = True

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(place, reason)
        self.place = place
        self.reason = reason

    def __str__(self) -> str:
        """Say it in one line, with the place and the reason."""
        return f"the store of jobs {self.place} cannot be used: {self.reason}"
