"""A video job as the store keeps it: what was asked for, how far it is, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class JobState(StrEnum):
    """Where a job stands. Only `running` has an attempt under way; the last three are final."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED: Final = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED})


@dataclass(frozen=True)
class JobSpec:
    """What was asked for; the bytes of the speech and of the portrait lie in the store of uploads.

    Attributes:
        avatar_id: Id of the presenter; None for the default one, or where a portrait came.
        has_portrait: Whether a portrait came, which becomes a temporary presenter.
        fps: Frames per second of the file.
        chunk_frames: Frames in one piece of work.
        seed: Head motion and blinks are a function of it.
        normalise: Whether the voice is brought to -23 LUFS.
        stream: Whether the file is a fragmented mp4.
        prompt: Text that is spoken; empty where speech came.
        webhook_url: Where it is told how the job ended; empty for nowhere.
        looks: What the face expresses, as `pipeline.expression.words.write_timeline` writes it.
    """

    avatar_id: str | None
    has_portrait: bool
    fps: float
    chunk_frames: int
    seed: int = 0
    normalise: bool = False
    stream: bool = False
    prompt: str = ""
    webhook_url: str = ""
    looks: str = ""


@dataclass(frozen=True)
class JobResult:
    """The finished file.

    Attributes:
        result_id: Its id in the store of results.
        expires_at: Second since the epoch until which it is kept.
        size_bytes: Size of the file in bytes.
        avatar_id: Id of the presenter.
        frames: Pictures in the file.
        fps: Pictures per second.
        width: Width of the picture in pixels.
        height: Height of the picture in pixels.
        duration_s: Length of the speech in seconds.
        captions: WebVTT of what is said; empty where speech came.
    """

    result_id: str
    expires_at: float
    size_bytes: int
    avatar_id: str
    frames: int
    fps: float
    width: int
    height: int
    duration_s: float
    captions: str = ""


@dataclass(frozen=True)
class JobFailure:
    """Why a job has no file, as the error that ended it said.

    Attributes:
        code: Code of the error.
        detail: The error's own words.
        field: Field at fault; empty where no input is.
        got: What came in that field.
        allowed: What the field takes.
    """

    code: str
    detail: str
    field: str = ""
    got: str = ""
    allowed: str = ""


@dataclass(frozen=True)
class VideoJob:
    """One job at one moment.

    Attributes:
        job_id: Its id, `video_` and characters that cannot be guessed.
        owner: Who made it; empty for nobody.
        state: Where it stands.
        spec: What was asked for.
        metadata: Pairs of text that the caller attached.
        keep_s: Seconds for which the finished file is to be kept.
        created_at: Second since the epoch at which it was accepted.
        started_at: Second since the epoch at which work on it first began; None before.
        ended_at: Second since the epoch at which it ended; None before.
        attempt: Number of the attempt that may write about it; 0 before the first.
        done: Pictures that are made.
        total: Pictures in all; 0 while unknown.
        place: Place in the queue, from 1; 0 unless it is queued.
        result: The file; None unless it is completed.
        failure: Why there is no file; None unless it has failed.
    """

    job_id: str
    owner: str
    state: JobState
    spec: JobSpec
    metadata: Mapping[str, str] = field(default_factory=dict)
    keep_s: float = 0.0
    created_at: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    attempt: int = 0
    done: int = 0
    total: int = 0
    place: int = 0
    result: JobResult | None = None
    failure: JobFailure | None = None
