"""`GET /v1/videos/{id}/content`: the finished file, whole or in ranges, or one picture of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from deployments.video_jobs.commands import GetJob
from deployments.video_jobs.errors import VideoNotReadyError, VideoStateError
from deployments.video_jobs.job import ENDED, JobResult, VideoJob
from kernels.errors import InvalidInputError
from pipeline.media.thumbnail import thumbnail
from serve_app.http.body.fields import as_it_came
from serve_app.http.files.byte_range import names_tag
from serve_app.http.files.results import answer_result
from serve_app.http.openapi import problems, video_answer
from serve_app.http.services import Services
from serve_app.http.videos.owner import owner_of

VARIANTS: Final = ("video", "thumbnail")
_VARIANT: Final[dict[str, Any]] = {
    "name": "variant",
    "in": "query",
    "description": "`thumbnail`: the first picture, as a JPEG of at most 512 pixels a side.",
    "schema": {"type": "string", "enum": list(VARIANTS), "default": VARIANTS[0]},
}


def content_routes(services: Services, wall_clock: Callable[[], float] = time.time) -> APIRouter:
    """The route of a video's content."""
    router = APIRouter(prefix="/v1/videos", tags=["videos"])

    @router.head("/{video_id}/content", include_in_schema=False)
    @router.get(
        "/{video_id}/content",
        response_class=Response,
        summary="The file of a video",
        responses=video_answer(ranges=True)
        | problems("video_not_found", "video_not_ready", 410, 416, 422, 500, "jobs_unavailable"),
        openapi_extra={"parameters": [_VARIANT]},
    )
    async def content(video_id: str, request: Request) -> Response:
        """The mp4, or one byte range of it: 409 until it is completed, 410 after `expires_at`."""
        variant = request.query_params.get("variant", VARIANTS[0])
        if variant not in VARIANTS:
            raise InvalidInputError("variant", as_it_came(variant), ", ".join(VARIANTS))
        result = _result_of(await services.jobs.handle(GetJob(video_id, owner_of(request))))
        if variant == "thumbnail":
            return await _picture(services, result.result_id, request)
        return await answer_result(services, result.result_id, request, wall_clock(), f"{video_id}.mp4")

    return router


def _result_of(job: VideoJob) -> JobResult:
    if job.result is not None:
        return job.result
    kind = VideoStateError if job.state in ENDED else VideoNotReadyError
    raise kind("id", f"a video that is {job.state}", "a video that is completed")


async def _picture(services: Services, result_id: str, request: Request) -> Response:
    stored = await asyncio.to_thread(services.results.find, result_id)
    headers = {"ETag": f'"{result_id}-thumbnail"', "Cache-Control": "private, max-age=3600"}
    if names_tag(request.headers.get("if-none-match"), headers["ETag"]):
        return Response(status_code=304, headers=headers)

    def made() -> bytes:
        with services.results.reaching(), services.results.open_file(stored.result_id) as file:
            return thumbnail(file)

    return Response(await asyncio.to_thread(made), headers=headers, media_type="image/jpeg")
