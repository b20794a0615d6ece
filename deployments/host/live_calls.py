"""Live sessions as they travel between the ingress and `SessionHost`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deployments.host.token_pool import Lease
from pipeline.live.contracts import Drive


@dataclass(frozen=True)
class LiveOffer:
    """A client that wants a session.

    Attributes:
        session_id: Unguessable; made by the ingress.
        sdp: The client's offer. Never logged.
        avatar_id: A registered presenter; None for the default one.
        fps: 25 or 50.
        drive: Whose voice drives the face.
        echo: Whether the voice goes back with the picture.
        seed: Head motion and blinks are a function of it.
        last_try: Whether the caller asks no other host when there is no room.
        lease: Tokens that the session holds, and the set of stages that serves it; None outside a cluster.
    """

    session_id: str
    sdp: str
    avatar_id: str | None
    fps: int
    drive: Drive
    echo: bool
    seed: int = 0
    last_try: bool = True
    lease: Lease | None = None


@dataclass(frozen=True)
class LiveAnswer:
    """The first item of a session's stream.

    Attributes:
        session_id: Of the session.
        sdp: Our answer, every candidate in it. Never logged.
        avatar_id: The presenter, the default one resolved.
        width: Of the picture.
        height: Of the picture.
        fps: Pictures per second.
    """

    session_id: str
    sdp: str
    avatar_id: str
    width: int
    height: int
    fps: int


@dataclass(frozen=True)
class LiveEnded:
    """The last item of a session's stream: why it ended."""

    session_id: str
    reason: str


@dataclass(frozen=True)
class Spoken:
    """Speech that was taken in.

    Attributes:
        utterance_id: Named by the events that belong to it.
        duration_s: Its length.
        queued_s: Speech that waits before it.
    """

    utterance_id: str
    duration_s: float
    queued_s: float


@dataclass(frozen=True)
class Interrupted:
    """What an interruption cut off.

    Attributes:
        epoch: Of the session since.
        position_s: Seconds of the utterance that were sent; 0 where nobody spoke.
        utterance_id: Which utterance; None where nobody spoke.
    """

    epoch: int
    position_s: float
    utterance_id: str | None


@dataclass(frozen=True)
class ViewerAnswer:
    """A viewer that has come.

    Attributes:
        viewer_id: Names the viewer in the session.
        sdp: Our answer to its offer. Never logged.
    """

    viewer_id: str
    sdp: str


@dataclass(frozen=True)
class NumberedEvent:
    """An event of a session and its place in the order of all of its events, from 1."""

    number: int
    name: str
    data: dict[str, Any]


@dataclass(frozen=True)
class LiveHostStats:
    """Live sessions of one `SessionHost` replica.

    Attributes:
        replica_id: Which replica.
        capacity: Sessions that fit there by its measured headroom.
        sessions: One entry per session, as `GET /stream/webrtc/stats` shows it.
        ended: Sessions that are over, by reason.
        refused: Offers that found no room.
        first_frames_ms: From connected to the first picture sent, of the sessions here and the last ones that ended.
    """

    replica_id: str
    capacity: int
    sessions: list[dict[str, Any]] = field(default_factory=list)
    ended: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    first_frames_ms: tuple[float, ...] = ()
