"""`GET /v1/videos/{id}/events`: every change of a video as server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from deployments.video_jobs.commands import GetJob
from deployments.video_jobs.job import ENDED
from kernels.errors import LiveAnchorError
from serve_app.http.files.streamed import StreamedResponse
from serve_app.http.live.events import EVENT_STREAM, HEARTBEAT_S
from serve_app.http.openapi import problems
from serve_app.http.problems.translate import code_of
from serve_app.http.services import Services
from serve_app.http.videos.answers import video_answer_of
from serve_app.http.videos.owner import owner_of

LOOK_S: Final = 0.2
"""Seconds between looks at the video: so much later than its end a follower may hear of it; a look is one call of the store."""


def video_event_routes(services: Services) -> APIRouter:
    """The route of a video's events."""
    router = APIRouter(prefix="/v1/videos", tags=["videos"])

    @router.get(
        "/{video_id}/events",
        response_class=Response,
        summary="Changes of a video, as they come",
        responses=_answer() | problems("video_not_found", 500, "jobs_unavailable"),
    )
    async def events(video_id: str, request: Request) -> Response:
        """Server-sent events, named by `status`, each with the whole video as `data`. The stream ends with the work on it."""
        asked = GetJob(video_id, owner_of(request))
        await services.jobs.handle(asked)  # so that an unknown video is a 404 and not a broken stream
        return StreamedResponse(
            changes(services, asked),
            AsyncExitStack(),
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
            media_type=EVENT_STREAM,
            stall_s=services.settings.limits.stall_s,
        )

    return router


async def changes(
    services: Services, asked: GetJob, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> AsyncGenerator[bytes, None]:
    """Write a video now and whenever it has changed, and comments while nothing happens; ends once the video has.

    Args:
        services: Parts of the application.
        asked: Which video.
        sleep: Waits so many seconds.
    """
    before, silent_s = "", 0.0
    try:
        while True:
            job = await services.jobs.handle(asked)
            shown = video_answer_of(job, services.settings.family)
            data = shown.model_dump_json()
            if data != before:
                before, silent_s = data, 0.0
                yield f"event: {shown.status}\ndata: {data}\n\n".encode()
            elif silent_s >= HEARTBEAT_S:
                silent_s = 0.0
                yield b": still here\n\n"
            if job.state in ENDED:
                return
            await sleep(LOOK_S)
            silent_s += LOOK_S
    except LiveAnchorError as error:  # the status was sent already, so the stream itself carries the error
        yield f"event: error\ndata: {json.dumps({'code': code_of(error), 'detail': str(error)})}\n\n".encode()


def _answer() -> dict[int | str, dict[str, Any]]:
    example = 'event: in_progress\ndata: {"id": "video_...", "status": "in_progress", "progress": 40, ...}\n\n'
    content = {EVENT_STREAM: {"schema": {"type": "string"}, "example": example}}
    return {200: {"description": "Server-sent events.", "content": content}}
