"""What a client asks of a live session, as values: a command names its session, and its type says what the answer is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deployments.host.command import Answer, Command
from deployments.host.live_calls import Interrupted, Spoken, ViewerAnswer
from kernels.arrays import F32
from pipeline.expression.looks import Looks
from pipeline.publish.publication_stats import PublicationStats
from pipeline.publish.target import PublishTarget


@dataclass(frozen=True)
class LiveCommand(Command[Answer]):
    """Base of all commands.

    Every command may raise `SessionNotFoundError`, `SessionEndedError` or `SessionLostError`.

    Attributes:
        session_id: Names the session.
    """

    session_id: str


@dataclass(frozen=True)
class AddCandidates(LiveCommand[None]):
    """Add ICE candidates of the client. Raises IceRestartError.

    Attributes:
        candidates: Each with `candidate`, `sdpMid`, `sdpMLineIndex` and `usernameFragment`; none at all says that no more come.
    """

    candidates: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class End(LiveCommand[None]):
    """End the session. The answer comes when everything that it held is free."""


@dataclass(frozen=True)
class Speak(LiveCommand[Spoken]):
    """Queue an audio file behind everything that was pushed before. Raises WrongDriveError and what `decode_audio` raises.

    Attributes:
        audio: Bytes of the file, any container.
    """

    audio: bytes


@dataclass(frozen=True)
class SpeakText(LiveCommand[Spoken]):
    """Queue a text behind everything that was pushed before; it is spoken sentence by sentence.

    Raises WrongDriveError, QueueFullError, VoiceMissingError.
    What the voice cannot do is told by an event `error` that names the utterance.

    Attributes:
        text: Words, as `pipeline.voices.sentences.spoken_text` gives them.
    """

    text: str


@dataclass(frozen=True)
class OpenAudio(LiveCommand[str]):
    """Become the connection that pushes PCM; the answer is the token of that place. Raises WrongDriveError, AudioInUseError."""


@dataclass(frozen=True, eq=False)
class PushAudio(LiveCommand[float]):
    """Add PCM to the open utterance, or begin one; the answer is how many seconds of speech wait. Raises AudioInUseError.

    Attributes:
        token: Answer of `OpenAudio`.
        pcm: float32 (n,), 16 kHz, mono; n may be 0.
        ends: Whether the utterance ends with it.
    """

    token: str
    pcm: F32
    ends: bool


@dataclass(frozen=True)
class CloseAudio(LiveCommand[None]):
    """Give the place of `OpenAudio` up. What was pushed is still spoken.

    Attributes:
        token: Answer of `OpenAudio`.
    """

    token: str


@dataclass(frozen=True)
class Interrupt(LiveCommand[Interrupted]):
    """Stop speaking at once and drop what waits."""


@dataclass(frozen=True)
class Express(LiveCommand[float]):
    """Let the face express something else as soon as it can be drawn. Raises InvalidInputError where its family cannot.

    The answer is the second of the session at which the change begins.

    Attributes:
        looks: What it expresses; their times count from the change on.
    """

    looks: Looks


@dataclass(frozen=True)
class ReadStats(LiveCommand[dict[str, Any]]):
    """Tell the session's numbers, as `GET /stream/webrtc/{id}/stats` shows them."""


@dataclass(frozen=True)
class AddViewer(LiveCommand[ViewerAnswer]):
    """Let one more client watch. Raises TooManyViewersError, InvalidInputError (`sdp`).

    Attributes:
        sdp: The viewer's offer. Never logged.
    """

    sdp: str


@dataclass(frozen=True)
class RemoveViewer(LiveCommand[None]):
    """Let a viewer go; one that is gone already is no error.

    Attributes:
        viewer_id: Id of the viewer, from `ViewerAnswer`.
    """

    viewer_id: str


@dataclass(frozen=True)
class AddViewerCandidates(LiveCommand[None]):
    """Add ICE candidates of a viewer. Raises UnknownViewerError, IceRestartError.

    Attributes:
        viewer_id: Id of the viewer, from `ViewerAnswer`.
        candidates: Candidates as in `AddCandidates`.
    """

    viewer_id: str
    candidates: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Publish(LiveCommand[PublicationStats]):
    """Send the session to an ingest as well. The answer comes when the first attempt has ended, or after 8 s.

    Raises TooManyPublicationsError, UrlRefusedError, IngestRefusedError.

    Attributes:
        target: The ingest.
    """

    target: PublishTarget


@dataclass(frozen=True)
class Unpublish(LiveCommand[None]):
    """Send the session to an ingest no longer; one that is gone already is no error.

    Attributes:
        publication_id: Id of the publication, from `PublicationStats`.
    """

    publication_id: str


@dataclass(frozen=True)
class ReadPublications(LiveCommand[list[PublicationStats]]):
    """Tell to which ingests the session goes, and how."""
