"""`/v1/videos`: make a video in the background, look after it, list, cancel, delete."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import structlog
from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from deployments.video_jobs.commands import Added, AddJob, CancelJob, GetJob, RetryJob
from deployments.video_jobs.errors import TooManyOwnVideosError, TooManyVideosError, VideoStateError
from deployments.video_jobs.job import ENDED, JobState, VideoJob
from deployments.video_jobs.uploads import AUDIO, PORTRAIT, JobUploads
from kernels.errors import InvalidInputError
from serve_app.access.caller import Caller
from serve_app.http.access.access import caller_of
from serve_app.http.access.quotas import VIDEOS
from serve_app.http.body.disconnect import until_disconnect
from serve_app.http.capacity import Hold
from serve_app.http.context import request_id_of
from serve_app.http.openapi import problems
from serve_app.http.problems.errors import QuotaExceededError
from serve_app.http.services import Services
from serve_app.http.videos.answers import DeletedVideo, VideoAnswer, VideoList, video_answer_of
from serve_app.http.videos.deletion import delete_video
from serve_app.http.videos.fields import VideoForm, idempotency_key, list_query, read_video_form, video_body
from serve_app.http.videos.owner import owner_of

POLL_S: Final = 2
"""Seconds after which it is worth asking again."""
WAIT_S: Final = 30
"""Seconds after which one of a key's videos that wait may have begun."""
REPLAYED: Final = "Idempotent-Replayed"
_PAGE: Final[list[dict[str, Any]]] = [
    {"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20}},
    {
        "name": "after",
        "in": "query",
        "schema": {"type": "string"},
        "description": "Id of the last video of the page before.",
    },
    {"name": "order", "in": "query", "schema": {"type": "string", "enum": ["asc", "desc"], "default": "desc"}},
]


def video_routes(services: Services) -> APIRouter:
    """The routes of videos but for their content."""
    router = APIRouter(prefix="/v1/videos", tags=["videos"])
    settings, jobs = services.settings, services.jobs
    log = structlog.get_logger("liveanchor.http")

    def answer(job: VideoJob, status: int = 200, **headers: str) -> Response:
        shown = video_answer_of(job, settings.family).model_dump(mode="json")
        if job.state not in ENDED:
            headers["Retry-After"] = str(POLL_S)
        return JSONResponse(shown, status, headers)

    @router.post(
        "",
        status_code=202,
        response_model=VideoAnswer,
        summary="Make a video in the background",
        responses=problems(400, 404, 408, 413, 415, 422, 500, "too_many_videos"),
        openapi_extra=video_body(settings),
    )
    async def create(request: Request) -> Response:
        """Accepts the fields of `POST /generate`, and answers at once: 202, with the video's address in `Location`.

        What was accepted is made, whatever happens to the processes of this service meanwhile. Ask for the address until
        `status` is `completed` or `failed`, then fetch `/content`. With `Idempotency-Key`, a request can be repeated safely.
        """
        key = idempotency_key(request)
        caller = caller_of(request.scope)
        with services.receiving(now=False) as hold:
            with services.intake.place(caller):
                form = await read_video_form(request, settings, hold)
            services.metrics.uploaded(hold.held)
            form = await _whole(services, request, form, hold)
            with _within_quota(services, caller) as most:
                added = await _added(services, form, caller.owner, key, most)
        log.info("video_accepted", request_id=request_id_of(request.scope), job_id=added.job.job_id, new=added.created)
        await jobs.wake()
        headers = {"Location": f"/v1/videos/{added.job.job_id}"} | ({} if added.created else {REPLAYED: "true"})
        return answer(added.job, 202, **headers)

    @router.head("", include_in_schema=False)
    @router.get(
        "",
        summary="Videos, a page at a time",
        responses=problems(422, 500, "jobs_unavailable"),
        openapi_extra={"parameters": _PAGE},
    )
    async def videos(request: Request) -> VideoList:
        """The newest first, unless `order` is `asc`."""
        page = await jobs.handle(list_query(request, owner_of(request)))
        data = [video_answer_of(job, settings.family) for job in page.jobs]
        first, last = (data[0].id, data[-1].id) if data else (None, None)
        return VideoList(data=data, has_more=page.has_more, first_id=first, last_id=last)

    @router.head("/{video_id}", include_in_schema=False)
    @router.get(
        "/{video_id}",
        response_model=VideoAnswer,
        summary="How far a video is",
        responses=problems("video_not_found", 500, "jobs_unavailable"),
    )
    async def video(video_id: str, request: Request) -> Response:
        """With its place in the queue while it waits, `Retry-After` until it has ended, and why it failed where it did."""
        return answer(await jobs.handle(GetJob(video_id, owner_of(request))))

    @router.post(
        "/{video_id}/cancel",
        response_model=VideoAnswer,
        summary="Stop a video",
        responses=problems("video_not_found", "video_state", 500, "jobs_unavailable"),
    )
    async def cancel(video_id: str, request: Request) -> Response:
        """It stays in the list, as `failed` with `error.code` `cancelled`. Work on it stops within some seconds."""
        return answer(await jobs.handle(CancelJob(video_id, owner_of(request))))

    @router.post(
        "/{video_id}/retry",
        status_code=202,
        response_model=VideoAnswer,
        summary="Make a failed or cancelled video after all",
        responses=problems("video_not_found", "video_state", 500, "jobs_unavailable"),
    )
    async def retry(video_id: str, request: Request) -> Response:
        """From the upload that came with it, with the same seed; 409 where that is not kept any more."""
        owner, caller = owner_of(request), caller_of(request.scope)
        found = await jobs.handle(GetJob(video_id, owner))
        await asyncio.to_thread(_check_kept, services.uploads, found)
        with _within_quota(services, caller) as most:
            own = most if found.owner == caller.owner else 0  # an operator's quota says nothing about another's videos
            job = await jobs.handle(RetryJob(video_id, owner, settings.jobs.max_waiting, own))
        await jobs.wake()
        return answer(job, 202)

    @router.delete(
        "/{video_id}",
        summary="Forget a video and its file",
        responses=problems("video_not_found", 500, "jobs_unavailable", "store_unreachable"),
    )
    async def delete(video_id: str, request: Request) -> DeletedVideo:
        """In any state: what is being made is stopped."""
        job = await delete_video(services, video_id, owner_of(request))
        return DeletedVideo(id=job.job_id)

    return router


async def _whole(services: Services, request: Request, form: VideoForm, hold: Hold) -> VideoForm:
    """Check what a form names, and fetch the files that it names by their addresses."""
    if form.webhook_url:
        services.fetcher.check(form.webhook_url, "webhook_url")
    avatar_id = await services.presenter(form.job.avatar_id, caller_of(request.scope), there=True)
    form = replace(form, job=replace(form.job, avatar_id=avatar_id))
    if not form.job.audio_url and not form.job.portrait_url:
        return form
    return replace(form, job=await until_disconnect(request.receive, services.fetched(form.job, hold)))


def _check_kept(uploads: JobUploads, job: VideoJob) -> None:
    """Refuse to repeat a failed job whose files have made room for others."""
    if job.state not in (JobState.FAILED, JobState.CANCELLED):
        return
    for kind, came in ((AUDIO, not job.spec.prompt), (PORTRAIT, job.spec.has_portrait)):
        if came and not uploads.has(job.job_id, kind):
            raise VideoStateError("id", f"a video whose {kind} is not kept any more", "a new request with the files")


@contextmanager
def _within_quota(services: Services, caller: Caller) -> Iterator[int]:
    """Give the number of videos of a caller that may wait, 0 for any; refuse one more where the store finds as many."""
    most = services.quotas.videos_waiting(caller)
    try:
        yield most
    except TooManyOwnVideosError as error:
        raise QuotaExceededError(VIDEOS, most, "that wait", WAIT_S) from error


async def _added(services: Services, form: VideoForm, owner: str, key: str, most: int) -> Added:
    """Keep the files, then the job: a job that can be claimed has its files."""
    job_id, uploads = f"video_{secrets.token_hex(16)}", services.uploads
    command = AddJob(
        job_id=job_id,
        owner=owner,
        spec=form.spec(),
        keep_s=form.keep_s,
        metadata=form.metadata,
        idempotency_key=key,
        fingerprint=form.fingerprint,
        max_queued=services.settings.jobs.max_waiting,
        max_own=most,
    )
    needed = False
    try:
        if not form.job.prompt:
            await asyncio.to_thread(uploads.write, job_id, AUDIO, form.job.audio)
        if form.job.portrait is not None:
            await asyncio.to_thread(uploads.write, job_id, PORTRAIT, form.job.portrait)
        needed = True  # from here on it may be added, even where no answer comes; what no job needs goes later
        added = await services.jobs.handle(command)
        needed = added.created
    except (InvalidInputError, TooManyVideosError, TooManyOwnVideosError):
        needed = False
        raise
    finally:
        if not needed:
            await asyncio.to_thread(uploads.remove, job_id)
    return added
