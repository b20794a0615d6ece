"""Values that travel between the ingress and `SessionHost` for live sessions: offers, answers and numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from deployments.host.token_pool import Lease
from pipeline.expression.looks import NEUTRAL_FACE, Looks
from pipeline.live.contracts import Drive
from pipeline.livekit.invitation import RoomInvitation
from pipeline.publish.target import PublishTarget


@dataclass(frozen=True)
class LiveOffer:
    """A client that wants a session.

    Attributes:
        session_id: Id of the session; the ingress makes it so that it cannot be guessed.
        sdp: The client's offer. Never logged.
        avatar_id: A registered presenter; None for the default one.
        fps: 25 or 50.
        drive: The voice that drives the face: the client's microphone, or speech that is pushed.
        echo: Whether the voice goes back with the picture.
        seed: Head motion and blinks are a function of it.
        last_try: Whether the caller asks no other host when there is no room.
        publish: Ingests that the session is sent to from the start.
        room: Room of a LiveKit server that the session joins; None for a client of its own, whose offer is `sdp`.
        lease: Tokens that the session holds, and the set of stages that serves it; None outside a cluster.
        looks: What the face expresses, by seconds of the session.
        listens: Whether the client's microphone is heard, in a session that speaks what is pushed; always so with `Drive.TALK`.
    """

    session_id: str
    sdp: str
    avatar_id: str | None
    fps: int
    drive: Drive
    echo: bool
    seed: int = 0
    last_try: bool = True
    publish: tuple[PublishTarget, ...] = ()
    room: RoomInvitation | None = None
    lease: Lease | None = None
    looks: Looks = NEUTRAL_FACE
    listens: bool = False


@dataclass(frozen=True)
class LiveAnswer:
    """The first item of a session's stream.

    Attributes:
        session_id: Id of the session.
        sdp: Our answer with every candidate in it. Never logged.
        avatar_id: Id of the presenter, also where the default one was asked for.
        width: Width of the picture in pixels.
        height: Height of the picture in pixels.
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
        utterance_id: Id of the utterance; its events carry it.
        duration_s: Length of the speech in seconds; None for text, which is not spoken yet.
        queued_s: Seconds of speech that wait before it.
    """

    utterance_id: str
    duration_s: float | None
    queued_s: float


@dataclass(frozen=True)
class Interrupted:
    """What an interruption cut off.

    Attributes:
        epoch: Epoch of the session since the interruption.
        position_s: Seconds of the utterance that were sent; 0 where there was none.
        utterance_id: Id of the utterance that was cut; None where there was none.
    """

    epoch: int
    position_s: float
    utterance_id: str | None


@dataclass(frozen=True)
class ViewerAnswer:
    """A viewer that has come.

    Attributes:
        viewer_id: Id of the viewer within the session.
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
    """Describes the live sessions of one `SessionHost` replica.

    Attributes:
        replica_id: Id of the replica.
        capacity: Number of sessions that fit there by its measured headroom.
        sessions: One entry per session, as `GET /stream/webrtc/stats` shows it.
        ended: Sessions that are over, by reason.
        refused: Offers that found no room.
        first_frames_ms: Milliseconds from connected to the first picture sent, one entry for each session here and for the last
            ones that ended.
    """

    replica_id: str
    capacity: int
    sessions: list[dict[str, Any]] = field(default_factory=list)
    ended: dict[str, int] = field(default_factory=dict)
    refused: int = 0
    first_frames_ms: tuple[float, ...] = ()
