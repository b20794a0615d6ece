"""Errors of the distributed part. Every argument reaches `super().__init__`, so they survive the way between processes."""

from __future__ import annotations

from kernels.errors import LiveAnchorError


class DeadlineExceededError(LiveAnchorError):
    """A stage call was not answered in the time it was given.

    Args:
        stage: Which stage.
        budget_ms: What it was given.
    """

    code = "deadline_exceeded"
    retryable = True

    def __init__(self, stage: str, budget_ms: float) -> None:
        super().__init__(stage, budget_ms)
        self.stage = stage
        self.budget_ms = budget_ms

    def __str__(self) -> str:
        """Say it in one line, with the budget."""
        return f"{self.stage} did not answer within {self.budget_ms:.0f} ms"


class StageOverloadedError(LiveAnchorError):
    """A stage has as much work queued as it takes.

    Args:
        stage: Which stage.
        queued: Calls that wait.
    """

    code = "overloaded"
    retryable = True

    def __init__(self, stage: str, queued: int) -> None:
        super().__init__(stage, queued)
        self.stage = stage
        self.queued = queued

    def __str__(self) -> str:
        """Say it in one line, with the queue length."""
        return f"{self.stage} already has {self.queued} calls waiting; try again later"


class StaleEpochError(LiveAnchorError):
    """Work of a session that was interrupted since; its result is not wanted.

    Args:
        session_id: Session that the work belongs to.
        epoch: Epoch of the work.
        current: Epoch of the session now.
    """

    code = "stale_epoch"

    def __init__(self, session_id: str, epoch: int, current: int) -> None:
        super().__init__(session_id, epoch, current)
        self.session_id = session_id
        self.epoch = epoch
        self.current = current

    def __str__(self) -> str:
        """Say it in one line, with both epochs."""
        return f"work of epoch {self.epoch} was dropped, the session is at epoch {self.current}"


class StageFailedError(LiveAnchorError):
    """A stage broke in a way that is our fault: the batch function returned nonsense or raised an untyped error.

    Args:
        stage: Which stage.
        reason: What happened.
    """

    code = "stage_failed"

    def __init__(self, stage: str, reason: str) -> None:
        super().__init__(stage, reason)
        self.stage = stage
        self.reason = reason

    def __str__(self) -> str:
        """Say it in one line, with the reason."""
        return f"{self.stage} failed: {self.reason}"


class StageLostError(LiveAnchorError):
    """The replicas that were asked died, the retry included.

    Args:
        stage: Which stage.
        attempts: Calls made.
    """

    code = "stage_lost"
    retryable = True

    def __init__(self, stage: str, attempts: int) -> None:
        super().__init__(stage, attempts)
        self.stage = stage
        self.attempts = attempts

    def __str__(self) -> str:
        """Say it in one line, with the number of attempts."""
        return f"{self.stage} lost its replica in {self.attempts} attempts; try again"


class ReplicaGoneError(StageLostError):
    """The replica that this process has called is gone, so another one may be asked.

    Other processes get it as a `StageLostError`: the replica that they have called is still there.
    """

    def __reduce__(self) -> tuple[type[StageLostError], tuple[str, int]]:
        """Leave this process as a `StageLostError`."""
        return StageLostError, (self.stage, self.attempts)


class NotReadyError(LiveAnchorError):
    """The graph has not started, or a part of it does not answer.

    Args:
        part: What is missing.
    """

    code = "not_ready"
    retryable = True

    def __init__(self, part: str) -> None:
        super().__init__(part)
        self.part = part

    def __str__(self) -> str:
        """Say it in one line, with the missing part."""
        return f"not ready: {self.part}"


def plain(error: LiveAnchorError) -> LiveAnchorError:
    """The error itself, out of the wrappers that Ray puts around what other processes raised (their text is a traceback).

    There are two where the argument of a call was the un-awaited answer of another one.
    """
    cause = getattr(error, "cause", None)
    while isinstance(cause, LiveAnchorError) and cause is not error:
        error, cause = cause, getattr(cause, "cause", None)
    return error
