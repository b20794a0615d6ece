"""Errors of live sessions and of the offers and commands to them."""

from __future__ import annotations

from kernels.errors import InvalidInputError, LiveAnchorError


class SessionNotFoundError(LiveAnchorError):
    """No session has this id.

    Args:
        session_id: The id that came.
    """

    code = "session_not_found"

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id

    def __str__(self) -> str:
        """Say in one line which id is not known."""
        return f"no live session has the id {self.session_id!r}"


class SessionEndedError(LiveAnchorError):
    """The session was there and is over.

    Args:
        session_id: Id of the session.
        reason: Why it ended, a value of `pipeline.live.contracts.EndReason`.
    """

    code = "session_ended"

    def __init__(self, session_id: str, reason: str) -> None:
        super().__init__(session_id, reason)
        self.session_id = session_id
        self.reason = reason

    def __str__(self) -> str:
        """Say in one line why the session ended and what to do."""
        return f"the live session has ended ({self.reason}); make a new offer"


class SessionLostError(LiveAnchorError):
    """The process that held the session died.

    Args:
        session_id: Id of the session.
    """

    code = "session_lost"

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id

    def __str__(self) -> str:
        """Say in one line that the process died and what to do."""
        return "the process that held this live session died; make a new offer"


class NoCapacityError(LiveAnchorError):
    """There is no room for one more live session.

    Args:
        active: Number of sessions now.
        capacity: Number of sessions that fit.
        reason: Names the bound that was reached.
    """

    code = "no_capacity"
    retryable = True

    def __init__(self, active: int, capacity: int, reason: str) -> None:
        super().__init__(active, capacity, reason)
        self.active = active
        self.capacity = capacity
        self.reason = reason

    def __str__(self) -> str:
        """Say in one line which bound was reached."""
        return f"{self.active} live sessions of {self.capacity}: {self.reason}; try again later"


class WrongDriveError(LiveAnchorError):
    """Speech was pushed into a session that listens to its client's microphone.

    Args:
        drive: What drives the session.
    """

    code = "wrong_drive"

    def __init__(self, drive: str) -> None:
        super().__init__(drive)
        self.drive = drive

    def __str__(self) -> str:
        """Say in one line what drives the session and how to push speech."""
        return f'the session is driven by {self.drive!r}; offer with "drive": "push" to push speech'


class AudioInUseError(LiveAnchorError):
    """Another connection is already pushing speech into the session, and two speakers never mix.

    Args:
        session_id: Id of the session.
    """

    code = "audio_in_use"

    def __init__(self, session_id: str) -> None:
        super().__init__(session_id)
        self.session_id = session_id

    def __str__(self) -> str:
        """Say in one line that the place is taken."""
        return "another connection is already pushing speech into this session"


class IceRestartError(InvalidInputError):
    """Candidates of another ICE session than the offer's: a restart, which is not possible."""

    code = "ice_restart"
