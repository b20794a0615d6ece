"""What the service answers, as frozen values. `raw` holds the whole answer, fields of newer services included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Generated:
    """Facts about a file that `generate` made.

    Attributes:
        frames: Number of pictures.
        captions: WebVTT of what is said; empty unless it was asked for.
    """

    frames: int
    captions: str = ""


@dataclass(frozen=True)
class Progress:
    """Progress of a file that is being made.

    Attributes:
        state: `arriving`, `working` or `unknown`.
        done: Pictures made.
        total: Pictures in all; 0 while unknown.
    """

    state: str
    done: int
    total: int


@dataclass(frozen=True)
class Presenter:
    """A presenter that this caller may use.

    Attributes:
        avatar_id: Names it in all other calls.
        name: For people.
    """

    avatar_id: str
    name: str


@dataclass(frozen=True)
class Video:
    """A video that is made in the background.

    Attributes:
        id: Names it.
        status: `queued`, `in_progress`, `completed` or `failed`.
        state: The same, with `running` for `in_progress`, and `cancelled`.
        progress: Percent of the pictures, 0 to 100.
        place: Place in the queue from 1; None unless it is queued.
        error_code: Kind of error; empty where there is none.
        error_message: The error for a person; empty where there is none.
        retry_after_s: Seconds after which it is worth asking again; 0 once it has ended.
        raw: The whole answer.
    """

    id: str
    status: str
    state: str
    progress: int
    place: int | None
    error_code: str
    error_message: str
    retry_after_s: float
    raw: Mapping[str, Any]

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.status in ("completed", "failed")


@dataclass(frozen=True)
class VideoPage:
    """A page of the list of videos.

    Attributes:
        videos: In the order that was asked for.
        has_more: Whether there is a page after it; `videos[-1].id` is its `after`.
        raw: The whole answer.
    """

    videos: tuple[Video, ...]
    has_more: bool
    raw: Mapping[str, Any]


@dataclass(frozen=True)
class LiveSession:
    """A live session that has begun.

    Attributes:
        session_id: Names it in all other calls.
        sdp: The SDP answer, to be given to the peer connection.
        avatar_id: Who speaks.
        fps: Pictures per second.
        width: Pixels.
        height: Pixels.
        audio_url: Address of the WebSocket that takes PCM, relative to the service; None for drive `mic`.
    """

    session_id: str
    sdp: str
    avatar_id: str
    fps: int
    width: int
    height: int
    audio_url: str | None


@dataclass(frozen=True)
class Spoken:
    """Speech that a session has taken.

    Attributes:
        utterance_id: Names it in events.
        duration_s: Its length in seconds; None for text, which is made while it is spoken.
        queued_s: Seconds of speech before it.
    """

    utterance_id: str
    duration_s: float | None
    queued_s: float


@dataclass(frozen=True)
class Interrupted:
    """Speech that an interruption cut off.

    Attributes:
        epoch: Epoch of the session from now on.
        position_s: Seconds of the utterance that were sent.
        utterance_id: None where nobody spoke.
    """

    epoch: int
    position_s: float
    utterance_id: str | None
