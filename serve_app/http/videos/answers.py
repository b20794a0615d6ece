"""A video as it is answered: the shape of OpenAI's videos, and what we know beyond it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from deployments.video_jobs.job import JobFailure, JobState, VideoJob
from kernels.errors import InvalidInputError, LiveAnchorError
from serve_app.http.problems.translate import Problem, problem_of

Status = Literal["queued", "in_progress", "completed", "failed"]
_STATUS: dict[JobState, Status] = {
    JobState.QUEUED: "queued",
    JobState.RUNNING: "in_progress",
    JobState.COMPLETED: "completed",
    JobState.FAILED: "failed",
    JobState.CANCELLED: "failed",
}
CANCELLED = "cancelled"
"""Code of the error of a video that was cancelled: clients know no such status."""


class VideoError(BaseModel):
    """Why there is no file."""

    code: str = Field(description="Kind of error; `cancelled`, or a code of /problems.", examples=["audio_unreadable"])
    message: str = Field(examples=["audio: got bytes that no audio format matches (allowed: an audio file ...)"])
    problem: Problem | None = Field(None, description="The whole problem document; its `request_id` is the video's id.")


class VideoAnswer(BaseModel):
    """One video."""

    id: str = Field(examples=["video_019ad0a3c2e0b1f2c3d4e5f60718293a"])
    object: Literal["video"] = "video"
    model: str = Field(description="Which family of models makes it.")
    status: Status = Field(description="A cancelled video is `failed`, with `error.code` `cancelled`.")
    state: JobState = Field(description="The same, with `running` for `in_progress`, and `cancelled`.")
    progress: int = Field(description="Percent of the pictures.", ge=0, le=100, examples=[40])
    place: int | None = Field(description="Place in the queue, from 1; null unless it is queued.", examples=[3])
    created_at: int = Field(description="Unix seconds, as all times.", examples=[1796000000])
    started_at: int | None = None
    completed_at: int | None = Field(None, description="When it ended, however it did.")
    expires_at: int | None = Field(None, description="Until then the file can be fetched.")
    seconds: str | None = Field(None, description="Length of the speech, once it is completed.", examples=["12.4"])
    size: str | None = Field(None, description="Pixels, once it is completed.", examples=["720x1280"])
    error: VideoError | None = None
    prompt: str | None = Field(None, description="The text that is spoken; null where speech came.")
    remixed_from_video_id: str | None = None
    metadata: dict[str, str] = Field(default_factory=dict, examples=[{"story": "4711"}])
    avatar_id: str | None = Field(
        None, description="Who speaks; null while that is the default presenter or a portrait."
    )
    seed: int = 0
    fps: float = Field(examples=[25])
    frames: int = Field(description="Pictures in all; 0 while unknown.", examples=[310])
    frames_done: int = Field(examples=[124])
    size_bytes: int | None = Field(None, description="Size of the file in bytes, once it is completed.")
    attempt: int = Field(description="How often it was begun; more than once after a failure of ours.", examples=[1])
    captions: str | None = Field(None, description="WebVTT of what is said, where text came.", examples=["WEBVTT\n"])
    webhook_url: str | None = Field(None, description="Where it is told how the video ended.")
    content_url: str | None = Field(None, description="Where the file is, relative to this server.")


class VideoList(BaseModel):
    """A page of videos."""

    object: Literal["list"] = "list"
    data: list[VideoAnswer]
    has_more: bool
    first_id: str | None
    last_id: str | None = Field(description="`after` of the next page.")


class DeletedVideo(BaseModel):
    """What is left of a video."""

    id: str
    object: Literal["video.deleted"] = "video.deleted"
    deleted: bool = True


def status_of(state: JobState) -> Status:
    """The word that OpenAI's clients know for a state."""
    return _STATUS[state]


def video_answer_of(job: VideoJob, family: str) -> VideoAnswer:
    """Show a job.

    Args:
        job: The job.
        family: Name of the family that the service runs.
    """
    result = job.result
    percent = 100 * job.done // job.total if job.total else 0
    return VideoAnswer(
        id=job.job_id,
        model=family,
        status=status_of(job.state),
        state=job.state,
        progress=100 if result else min(percent, 99),
        place=job.place or None,
        created_at=int(job.created_at),
        started_at=None if job.started_at is None else int(job.started_at),
        completed_at=None if job.ended_at is None else int(job.ended_at),
        expires_at=None if result is None else int(result.expires_at),
        seconds=None if result is None else f"{result.duration_s:.3f}".rstrip("0").rstrip("."),
        size=None if result is None else f"{result.width}x{result.height}",
        error=error_of(job.job_id, job.state, job.failure),
        prompt=job.spec.prompt or None,
        metadata=dict(job.metadata),
        avatar_id=job.spec.avatar_id if result is None else result.avatar_id,
        seed=job.spec.seed,
        fps=job.spec.fps,
        frames=job.total if result is None else result.frames,
        frames_done=job.done if result is None else result.frames,
        size_bytes=None if result is None else result.size_bytes,
        attempt=job.attempt,
        captions=(result.captions or None) if result else None,
        webhook_url=job.spec.webhook_url or None,
        content_url=None if result is None else f"/v1/videos/{job.job_id}/content",
    )


def error_of(job_id: str, state: JobState, failure: JobFailure | None) -> VideoError | None:
    """Show why a job has no file; None where it has one, or may get one."""
    if state is JobState.CANCELLED:
        return VideoError(code=CANCELLED, message="the video was cancelled")
    if failure is None:
        return None
    problem = problem_of(_raised(failure), job_id)
    return VideoError(code=problem.code, message=problem.detail, problem=problem)


def _raised(failure: JobFailure) -> LiveAnchorError:
    """The error that ended the job, as it would have been answered had the caller waited."""
    error = (
        InvalidInputError(failure.field, failure.got, failure.allowed, failure.detail)
        if failure.field
        else LiveAnchorError(failure.detail)
    )
    error.code = failure.code
    return error
