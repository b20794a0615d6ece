"""`POST /generate`: the talking mp4 itself. `POST /api/generate`: its address and what it is."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Literal

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field

from deployments.host.jobs import JobStarted
from pipeline.media.provenance import SOURCE_TYPE
from pipeline.media.results.store import StoredResult, keep
from pipeline.voices.captions import webvtt
from serve_app.access.owned_ids import owned_id
from serve_app.http.access.access import caller_of
from serve_app.http.body.disconnect import until_disconnect
from serve_app.http.context import request_id_of, route_of
from serve_app.http.files.fields import read_job_form
from serve_app.http.files.streamed import StreamedResponse
from serve_app.http.openapi import job_body, problems, video_answer
from serve_app.http.services import Services, StartedJob, new_job_id, start_job

JOB_PROBLEMS = (400, 404, 408, "stale_avatar", 413, 415, 422, 500, "voice_missing", "voice_failed", 503, 507)


class GenerateAnswer(BaseModel):
    """What `POST /api/generate` answers."""

    id: str = Field(description="Id of the result.", examples=["019ad0a3c2e0b1f2c3d4e5f60718293a"])
    url: str = Field(description="Where the mp4 is, relative to this server.", examples=["/results/019ad0a3c2e0..."])
    expires_at: datetime = Field(description="The file is kept until then (UTC).")
    frames: int = Field(description="Pictures in the file.", examples=[100])
    fps: int | float = Field(description="Pictures per second.", examples=[25])
    duration_s: float = Field(description="Length of the speech.", examples=[4.0])
    width: int = Field(description="Pixels.", examples=[720])
    height: int = Field(description="Pixels.", examples=[1280])
    size_bytes: int = Field(description="Size of the file in bytes.", examples=[812345])
    avatar_id: str = Field(description="Who speaks.")
    digital_source_type: str = Field(
        SOURCE_TYPE, description="IPTC's word for a computed picture; the file's metadata hold it, too."
    )
    captions: str | None = Field(
        None, description="WebVTT of what is said, where text came in `prompt`; null for audio.", examples=["WEBVTT\n"]
    )


class ProgressAnswer(BaseModel):
    """How far a job is."""

    state: Literal["arriving", "working", "unknown"] = Field(
        description="arriving: its upload or portrait is being taken in. working: pictures are made. unknown: it has ended, was "
        "never sent, or is arriving at another ingress replica; the numbers are zeros.",
        examples=["working"],
    )

    frames_done: int = Field(examples=[48])
    frames: int = Field(examples=[100])


def generate_routes(services: Services) -> APIRouter:
    """The routes that make files."""
    router = APIRouter(tags=["talking video"])
    settings = services.settings

    @router.post(
        "/generate",
        response_class=Response,
        summary="Speech in, the talking mp4 out",
        responses=video_answer() | problems(*JOB_PROBLEMS),
        openapi_extra=job_body(settings),
    )
    async def generate(request: Request) -> Response:
        """Answers the mp4 (H.264 + AAC) itself.

        By default the file is finished first (index in front, Content-Length known). With `stream=true` a fragmented mp4 is sent
        while it is made; it can be played at once. Closing the connection cancels the work.
        """
        async with AsyncExitStack() as stack:
            started = await _started(services, request, stack)
            route = route_of(request.scope)
            return StreamedResponse(
                started.pieces,
                stack.pop_all(),
                headers=_headers(started),
                on_cancelled=lambda: services.metrics.cancelled(route),
                stall_s=settings.limits.stall_s,
            )

    @router.post(
        "/api/generate",
        summary="Speech in, the address of the talking mp4 out",
        responses=problems(*JOB_PROBLEMS),
        openapi_extra=job_body(settings, kept=True),
    )
    async def api_generate(request: Request) -> GenerateAnswer:
        """Makes the mp4, keeps it for a while, and answers where it is.

        Takes the fields as multipart/form-data or as JSON with files in base64. Text in `prompt` takes the place of `audio`; it is
        spoken, and the answer has its captions. Closing the connection cancels the work.
        """
        async with AsyncExitStack() as stack:
            started = await _started(services, request, stack)
            stack.push_async_callback(started.pieces.aclose)
            owner, avatar_id = caller_of(request.scope).owner, started.facts.avatar_id
            keeping = keep(services.results, started.pieces, avatar_id=avatar_id, owner=owner)
            return _answer(started.facts, await until_disconnect(request.receive, keeping))

    @router.head("/jobs/{job_id}", include_in_schema=False)
    @router.get("/jobs/{job_id}", summary="How far a job is", responses=problems(500, 503))
    async def job_progress(job_id: str, request: Request) -> ProgressAnswer:
        """`job_id` is the X-Request-Id that the client gave the job."""
        job_id = owned_id(job_id, caller_of(request.scope).owner)
        found = await services.host.progress(job_id)
        if found is not None:
            return ProgressAnswer(state="working", frames_done=found.done, frames=found.total)
        return ProgressAnswer(state="arriving" if job_id in services.arrivals else "unknown", frames_done=0, frames=0)

    return router


async def _started(services: Services, request: Request, stack: AsyncExitStack) -> StartedJob:
    hold = stack.enter_context(services.receiving())
    caller = caller_of(request.scope)
    await stack.enter_async_context(services.own_job(caller))
    job_id = owned_id(new_job_id(request, request_id_of(request.scope)), caller.owner)
    with services.arriving(job_id):
        with services.intake.place(caller):
            form = await read_job_form(request, services.settings, hold)
        services.metrics.uploaded(hold.held)
        stack.enter_context(services.working())
        form = await until_disconnect(request.receive, services.fetched(form, hold))
        job = await until_disconnect(request.receive, services.job_of(form, job_id, caller))
        del form  # nothing but the job holds the upload from here on
        return await until_disconnect(request.receive, start_job(services.host, job))


def _headers(started: StartedJob) -> dict[str, str]:
    facts = started.facts
    headers = {
        "Content-Disposition": 'inline; filename="liveanchor.mp4"',
        "X-Frames": str(facts.frames),
        "X-Fps": str(facts.fps),
        "X-Duration-S": f"{facts.duration_s:.3f}",
        "X-Width": str(facts.width),
        "X-Height": str(facts.height),
        "X-Avatar-Id": facts.avatar_id,
        "X-Digital-Source-Type": SOURCE_TYPE,
        "X-Accel-Buffering": "no",
    }
    if started.size_bytes:
        headers["Content-Length"] = str(started.size_bytes)
    return headers


def _answer(facts: JobStarted, stored: StoredResult) -> GenerateAnswer:
    return GenerateAnswer(
        id=stored.result_id,
        url=f"/results/{stored.result_id}",
        expires_at=datetime.fromtimestamp(int(stored.expires_at), UTC),
        frames=facts.frames,
        fps=facts.fps,
        duration_s=round(facts.duration_s, 6),
        width=facts.width,
        height=facts.height,
        size_bytes=stored.size,
        avatar_id=facts.avatar_id,
        captions=webvtt(facts.cues) if facts.cues else None,
    )
