"""What a live session and a transport know of each other."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from kernels.arrays import F32
from pipeline.types import Nv12Rect

MICROPHONE_RATE_HZ: Final = 48_000
"""Rate at which a transport hands over its client's voice."""


class Drive(StrEnum):
    """Names the voice that drives the face: the client's microphone, or speech that is pushed.

    `TALK` is pushed speech as well: the client's microphone is listened to, and what answers is pushed.
    """

    MIC = "mic"
    PUSH = "push"
    TALK = "talk"


class LiveState(StrEnum):
    """Where a session is in its life."""

    CONNECTING = "connecting"
    IDLE = "idle"
    SPEAKING = "speaking"
    ENDED = "ended"


class EndReason(StrEnum):
    """Why a session ended."""

    DELETED = "deleted"
    PEER_CLOSED = "peer_closed"
    PEER_LOST = "peer_lost"
    CONNECT_TIMEOUT = "connect_timeout"
    IDLE_TTL = "idle_ttl"
    MAX_DURATION = "max_duration"
    FAILED = "failed"
    DRAINED = "drained"


@dataclass(frozen=True)
class VideoTick:
    """One frame that is due now.

    Attributes:
        index: Number of frames since the session's first one, at the session's frame rate; grows by one per tick.
        pts_s: Presentation time on the media clock in seconds, `index / fps` as an exact multiple of 1/90000 s.
        rect: The part of the canvas that changes; None repeats the picture before.
        late: True where a new picture was due and had not come.
    """

    index: int
    pts_s: float
    rect: Nv12Rect | None
    late: bool = False


@dataclass(frozen=True)
class VoiceTick:
    """The voice that belongs to one frame.

    Attributes:
        pcm: float32 (n,), mono, 16 kHz; digital silence where there is no speech.
        pts_samples: Index of the first sample on the media clock, 16 kHz; sample 0 is heard with frame 0.
        speech: Whether the samples hold any speech.
    """

    pcm: F32
    pts_samples: int
    speech: bool


@dataclass(frozen=True)
class LiveEvent:
    """Something that a client may want to know.

    Attributes:
        name: `speaking_started`, `speaking_finished`, `interrupted`, `connected`, `quality`, `draining`, `ended`, `error`; in
            conversations `turn_started`, `turn_finished` (the client's own speech), `heard` and `reply`, too.
        session_id: Id of the session that it happened in.
        epoch: Epoch of the session when it happened.
        at_s: Position on the media clock in seconds.
        position_s: Seconds of the utterance that were sent, for `speaking_finished`; None for other events.
        interrupted: Whether the utterance was cut short, for `speaking_finished`; None for other events.
        utterance_id: Id of the utterance that the event is about; None where it is about none.
        detail: Explanation for people; of `quality`, `reduced` or `full`; of `draining`, seconds until the session ends; of `heard`
            and `reply`, the words.
    """

    name: str
    session_id: str
    epoch: int
    at_s: float
    position_s: float | None = None
    interrupted: bool | None = None
    utterance_id: str | None = None
    detail: str = ""


class LiveSink(Protocol):
    """Takes what a session makes, on the session's event loop. No call may block: late work is dropped, never queued."""

    def video(self, tick: VideoTick) -> None:
        """Show a frame now."""
        ...

    def voice(self, tick: VoiceTick) -> None:
        """Play the voice of one frame now."""
        ...

    def event(self, event: LiveEvent) -> None:
        """Tell the client of an event."""
        ...


class LiveClock(Protocol):
    """Gives a session its time, and lets it wait."""

    def now(self) -> float:
        """Monotonic seconds."""
        ...

    async def sleep_until(self, when: float) -> None:
        """Return at `when` or, where that is past, at once."""
        ...
