"""The HTTP application, as a plain FastAPI object over one handle."""

from __future__ import annotations

import asyncio
import re
import uuid
from importlib import metadata
from typing import Annotated, Any

from fastapi import FastAPI, File, Form, Request, UploadFile
from fastapi.responses import JSONResponse, StreamingResponse
from ray.exceptions import RayActorError
from ray.serve.handle import DeploymentHandle

from deployments.errors import NotReadyError, plain
from deployments.jobs import FileJob, HostStats, JobProgress
from kernels.errors import InvalidInputError, LiveAnchorError
from serve_app.http.jobs import started_job
from serve_app.http.settings import ApiSettings

READY_S = 5.0
_JOB_ID = re.compile(r"[A-Za-z0-9-]{8,64}")


def create_api(host: DeploymentHandle[Any], settings: ApiSettings) -> FastAPI:
    """Build the application.

    Args:
        host: `SessionHost`.
        settings: What callers may ask for.
    """
    api = FastAPI(title="LiveAnchor", version=metadata.version("liveanchor"))

    @api.exception_handler(LiveAnchorError)
    async def _problem(request: Request, raised: LiveAnchorError) -> JSONResponse:
        error = plain(raised)
        status = 422 if isinstance(error, InvalidInputError) else 503 if error.retryable else 500
        headers = {"Retry-After": f"{settings.retry_after_s:.0f}"} if status == 503 else {}
        body = {"type": f"/problems/{error.code}", "title": error.code, "status": status, "detail": str(error)}
        return JSONResponse(body, status, headers, media_type="application/problem+json")

    @api.get("/healthz")
    async def healthz() -> dict[str, str]:
        """This process answers."""
        return {"status": "ok"}

    @api.get("/readyz")
    async def readyz() -> dict[str, str]:
        """The whole graph answers; 503 otherwise."""
        try:
            async with asyncio.timeout(READY_S):
                await host.ready.remote()
        except (TimeoutError, RayActorError) as error:
            raise NotReadyError("the session host or a stage does not answer yet") from error
        return {"status": "ready"}

    @api.get("/version")
    async def version() -> dict[str, str]:
        """What runs here."""
        return {"name": "liveanchor", "version": metadata.version("liveanchor")}

    @api.get("/jobs/{job_id}")
    async def job_progress(job_id: str) -> dict[str, int]:
        """Pictures done of a running job, and in all; zeros for one that is not running (any more)."""
        stats: list[HostStats] = await host.broadcast("stats").results_async(timeout_s=READY_S)
        found = next((one.active_jobs[job_id] for one in stats if job_id in one.active_jobs), JobProgress(0, 0))
        return {"frames_done": found.done, "frames": found.total}

    @api.post("/generate")
    async def generate(
        request: Request,
        audio: Annotated[UploadFile, File()],
        avatar_id: Annotated[str, Form()] = "",
        portrait: Annotated[UploadFile | None, File()] = None,
        fps: Annotated[int, Form()] = settings.session.fps,
        chunk_frames: Annotated[int, Form()] = settings.session.chunk_frames,
        seed: Annotated[int, Form(ge=0, lt=2**63)] = 0,
        stream: Annotated[bool, Form()] = False,
    ) -> StreamingResponse:
        """A talking mp4: finished, or fragmented and sent while it is made (`stream=true`)."""
        wanted_id = request.headers.get("x-request-id", "")
        job_id = wanted_id if _JOB_ID.fullmatch(wanted_id) else uuid.uuid4().hex
        presenter = avatar_id or None
        if portrait is not None:
            presenter = (await host.register_avatar.remote(await portrait.read(), "")).avatar_id
        session = settings.session.model_validate(
            settings.session.model_dump() | {"fps": fps, "chunk_frames": chunk_frames}
        )
        job = FileJob(job_id, await audio.read(), presenter, session, seed, stream)
        started, pieces = await started_job(host, job)
        headers = {
            "X-Request-Id": job_id,
            "X-Frames": str(started.frames),
            "X-Avatar-Id": started.avatar_id,
            "X-Duration-S": f"{started.duration_s:.3f}",
        }
        return StreamingResponse(pieces, media_type="video/mp4", headers=headers)

    return api
