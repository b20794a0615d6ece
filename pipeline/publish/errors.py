"""What can go wrong with an ingest."""

from __future__ import annotations

from kernels.errors import InvalidInputError, LiveAnchorError


class IngestRefusedError(InvalidInputError):
    """The ingest says no, and would say so again."""

    code = "ingest_refused"


class IngestUnreachableError(LiveAnchorError):
    """The ingest does not answer, or cannot take the session now.

    Args:
        reason: What happened, for people; names no secrets.
        retry_after_s: Seconds that the ingest asks to wait; 0 where it asks for none.
    """

    code = "ingest_unreachable"
    retryable = True

    def __init__(self, reason: str, retry_after_s: float = 0.0) -> None:
        super().__init__(reason, retry_after_s)
        self.reason = reason
        self.retry_after_s = retry_after_s

    def __str__(self) -> str:
        """Say in one line what happened."""
        return self.reason


class TooManyPublicationsError(LiveAnchorError):
    """The session is published to as many ingests as it may be.

    Args:
        most: How many that are.
    """

    code = "too_many_publications"

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.most = most

    def __str__(self) -> str:
        """Say in one line which bound was reached."""
        return f"this session is published to {self.most} ingests, as many as it may be; end one first"
