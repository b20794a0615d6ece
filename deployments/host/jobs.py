"""File jobs as they travel from the ingress to `SessionHost`, and the events that come back."""

from __future__ import annotations

from dataclasses import dataclass

from deployments.graph.payload import Payload
from pipeline.config import SessionSettings

PIECE_BYTES = 256 * 1024
"""Largest piece of a file in one event: small enough for any transport, large enough to be cheap."""


@dataclass(frozen=True)
class FileJob:
    """One talking mp4 to be made.

    Attributes:
        job_id: What progress can be asked for by; should be unique.
        audio: The uploaded file as it came, any container; let go of once it is decoded.
        avatar_id: A registered presenter; None for the default presenter.
        settings: Chunking, frame rate, colour.
        seed: Head motion and blinks are a function of it.
        stream: True: a fragmented mp4, playable while it is made. False: a finished file (index in front).
        normalise: Bring the voice to -23 LUFS; otherwise its level stays what it was.
    """

    job_id: str
    audio: Payload
    avatar_id: str | None
    settings: SessionSettings
    seed: int = 0
    stream: bool = False
    normalise: bool = False


@dataclass(frozen=True)
class JobStarted:
    """The first event: what the file will be.

    Attributes:
        job_id: Of the job.
        avatar_id: The presenter, the default one resolved.
        frames: Pictures in the file.
        fps: Pictures per second.
        width: Of the picture.
        height: Of the picture.
        duration_s: Length of the speech.
    """

    job_id: str
    avatar_id: str
    frames: int
    fps: float
    width: int
    height: int
    duration_s: float


@dataclass(frozen=True)
class JobProgress:
    """Pictures done so far, out of how many."""

    done: int
    total: int


@dataclass(frozen=True)
class JobBytes:
    """A piece of the file and where in the file it belongs.

    Pieces of a streamed file come in order. Those of a finished file come while it is made too, so that its bytes pile up nowhere
    on the way, but its front comes last: the file is worth nothing before `JobDone`.
    """

    data: bytes
    offset: int


@dataclass(frozen=True)
class JobDone:
    """The last event.

    Attributes:
        size_bytes: Of the file.
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
        replica_id: Which replica.
        active_jobs: Jobs in work now, id -> what is done.
        finished: Jobs that ended with a file.
        cancelled: Jobs whose caller went away.
        failed: Jobs that ended with an error.
        retries: Stage calls made again, per stage.
        pid: Process of the replica.
    """

    replica_id: str
    active_jobs: dict[str, JobProgress]
    finished: int
    cancelled: int
    failed: int
    retries: dict[str, int]
    pid: int = 0
