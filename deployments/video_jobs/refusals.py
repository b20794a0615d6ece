"""What both stores say where they refuse a command."""

from __future__ import annotations

from typing import Final

from deployments.video_jobs.errors import (
    IdempotencyMismatchError,
    TooManyOwnVideosError,
    TooManyVideosError,
    VideoNotFoundError,
    VideoStateError,
)
from deployments.video_jobs.job import JobFailure
from deployments.video_jobs.store import MOST_LOST, MOST_MESSAGES
from kernels.errors import InvalidInputError

_ALLOWED: Final = "the id of a video of yours"
LOST: Final = JobFailure("stage_lost", f"its worker died without a word {MOST_LOST + 1} times")
"""Why a job is given up that is lost again and again."""


def not_found(job_id: str) -> VideoNotFoundError:
    """The owner has no job of this id."""
    return VideoNotFoundError("id", repr(job_id[:80]), _ALLOWED)


def bad_cursor(job_id: str) -> InvalidInputError:
    """The owner has no job of the id after which the page shall begin."""
    return InvalidInputError("after", repr(job_id[:80]), _ALLOWED)


def other_request() -> IdempotencyMismatchError:
    """The key came with another request before."""
    allowed = "a new key for each request, the same one to repeat it"
    return IdempotencyMismatchError("Idempotency-Key", "the key of another request", allowed)


def full(waiting: int) -> TooManyVideosError:
    """No more jobs may wait."""
    return TooManyVideosError(waiting)


def own_full(waiting: int) -> TooManyOwnVideosError:
    """No more jobs of this owner may wait."""
    return TooManyOwnVideosError(waiting)


def told_enough() -> VideoStateError:
    """The job has ended too often."""
    got = f"a video about which {MOST_MESSAGES} messages were written"
    return VideoStateError("id", got, "a video that was repeated less often; make a new one")


def cannot_cancel(state: str) -> VideoStateError:
    """The job has ended."""
    return VideoStateError("id", f"a video that is {state}", "a video that is queued or in progress")


def no_message() -> VideoStateError:
    """No message about the job was written."""
    allowed = "a video with webhook_url that has ended"
    return VideoStateError("id", "a video that no message was written about", allowed)


def cannot_retry(state: str) -> VideoStateError:
    """The job has not failed."""
    return VideoStateError("id", f"a video that is {state}", "a video that has failed or was cancelled")
