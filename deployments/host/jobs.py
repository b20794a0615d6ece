"""File jobs as they travel from the ingress to `SessionHost`, and the events that come back."""

from __future__ import annotations

from dataclasses import dataclass

from deployments.graph.payload import Payload
from pipeline.config import SessionSettings
from pipeline.expression.looks import NEUTRAL_FACE, Looks
from pipeline.voices.captions import Cue

PIECE_BYTES = 256 * 1024
"""Bytes of the largest piece of a file in one event: small enough for any transport, large enough to be cheap."""


@dataclass(frozen=True)
class FileJob:
    """Asks for one talking mp4.

    Attributes:
        job_id: Name by which progress can be asked for; should be unique.
        audio: The uploaded file as it came, any container; let go of once it is decoded. Empty where `prompt` is spoken.
        avatar_id: A registered presenter; None for the default presenter.
        settings: Chunking, frame rate, colour.
        seed: Head motion and blinks are a function of it.
        stream: True: a fragmented mp4, playable while it is made. False: a finished file (index in front).
        normalise: Bring the voice to -23 LUFS; otherwise its level stays what it was.
        prompt: Text that the host's voice speaks; empty where there is `audio`.
        looks: What the face expresses, by seconds of the speech.
    """

    job_id: str
    audio: Payload
    avatar_id: str | None
    settings: SessionSettings
    seed: int = 0
    stream: bool = False
    normalise: bool = False
    prompt: str = ""
    looks: Looks = NEUTRAL_FACE


@dataclass(frozen=True)
class JobStarted:
    """The first event: what the file will be.

    Attributes:
        job_id: Id of the job.
        avatar_id: Id of the presenter, also where the default one was asked for.
        frames: Pictures in the file.
        fps: Pictures per second.
        width: Width of the picture in pixels.
        height: Height of the picture in pixels.
        duration_s: Length of the speech in seconds.
        cues: Captions of a text; none where audio came.
    """

    job_id: str
    avatar_id: str
    frames: int
    fps: float
    width: int
    height: int
    duration_s: float
    cues: tuple[Cue, ...] = ()


@dataclass(frozen=True)
class JobProgress:
    """Says how many of all pictures are done so far."""

    done: int
    total: int


@dataclass(frozen=True)
class JobBytes:
    """A piece of the file and where in the file it belongs.

    Pieces of a streamed file come in order. Pieces of a finished file come while it is made too, so that its bytes pile up nowhere
    on the way, but its front comes last: the file cannot be played before `JobDone`.
    """

    data: bytes
    offset: int


@dataclass(frozen=True)
class JobDone:
    """The last event.

    Attributes:
        size_bytes: Size of the file in bytes.
        encoder: FFmpeg's name of the encoder that ran.
        stage_calls: Calls per stage.
        retries: Calls made again because a replica died, per stage.
    """

    size_bytes: int
    encoder: str
    stage_calls: dict[str, int]
    retries: dict[str, int]


JobEvent = JobStarted | JobProgress | JobBytes | JobDone


@dataclass(frozen=True)
class HostStats:
    """Counters of one `SessionHost` replica since it started, and of the stages as it sees them.

    Attributes:
        replica_id: Id of the replica.
        active_jobs: Jobs in work now, by id, and how far each one is.
        finished: Jobs that ended with a file.
        cancelled: Jobs whose caller went away.
        failed: Jobs that ended with an error.
        retries: Stage calls made again, per stage.
        pid: Id of the replica's process.
    """

    replica_id: str
    active_jobs: dict[str, JobProgress]
    finished: int
    cancelled: int
    failed: int
    retries: dict[str, int]
    pid: int = 0
