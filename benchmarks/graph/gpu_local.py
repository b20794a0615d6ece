"""The same jobs and live sessions in one process: what the graph is compared with."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks.graph.run import CHUNK_FRAMES, Job, first_picture_s
from deployments.config import SessionHostSettings
from deployments.graph.payload import Payload
from deployments.host.file_job import prepare_job, run_job
from deployments.host.jobs import FileJob, JobBytes
from deployments.host.live_calls import LiveOffer
from deployments.host.live_sessions import LiveSessions
from pipeline.config import EncoderSettings, SessionSettings
from pipeline.families import find_family
from pipeline.live.contracts import Drive
from pipeline.session.local_job import LocalPipeline
from pipeline.session.stage_threads import StageThreads
from pipeline.stage_meter import StageMeter
from pipeline.types import Avatar
from serve_app.cluster.own import free_port


class OneProcess:
    """A family's stages, the default presenter and file jobs, without Ray.

    Args:
        family: Name of the family.
        weights: Folder with its weights.
        device: Device on which all stages run.
    """

    def __init__(self, family: str, weights: Path | None, device: str) -> None:
        pipeline = LocalPipeline(family=family, weights=weights)
        began = time.monotonic()
        self.avatar: Avatar = pipeline.avatar()
        self.stages = find_family(family).local_stages(pipeline.store.get, weights, device)
        self.load_s = time.monotonic() - began

    def job(self, wav: bytes, *, stream: bool = False) -> Job:
        """Run a job such as `benchmarks.graph.run.run_job` sends."""
        return asyncio.run(self._job(wav, stream))

    async def _job(self, wav: bytes, stream: bool) -> Job:
        began = time.perf_counter()
        parts: list[tuple[float, bytes]] = []
        settings = SessionSettings.model_validate({"chunk_frames": CHUNK_FRAMES})
        job = FileJob("local", Payload(wav), None, settings, stream=stream)
        prepared = await asyncio.to_thread(prepare_job, job, lambda _: self.avatar, SessionHostSettings())
        async for event in run_job(prepared, StageMeter(self.stages), EncoderSettings(), {}):
            if isinstance(event, JobBytes):
                parts.append((time.perf_counter() - began, event.data))
        seconds = time.perf_counter() - began
        return Job(seconds, first_picture_s(parts) if stream else 0.0, sum(len(data) for _, data in parts))

    def close(self) -> None:
        """End the stage threads."""
        self.stages.close()


class Offer(BaseModel):
    """What the product's offer begins with; further fields are ignored."""

    sdp: str
    type: str = "offer"


@contextmanager
def live_server(process: OneProcess) -> Iterator[str]:
    """Live sessions over these stages, in a thread of this process: the address that clients offer to."""
    sessions: list[LiveSessions] = []

    async def same(session_id: str) -> StageThreads:
        return process.stages

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        sessions.append(LiveSessions(SessionHostSettings(), same, lambda _: process.avatar, process.stages))
        yield
        await sessions[0].close()

    app = FastAPI(lifespan=lifespan)

    @app.post("/stream/webrtc/offer")
    async def offer(offer: Offer) -> dict[str, Any]:
        answer = await sessions[0].open(LiveOffer(uuid.uuid4().hex, offer.sdp, None, 25, Drive.MIC, True))
        return {"sdp": answer.sdp, "type": "answer", "session_id": answer.session_id}

    @app.get("/stream/webrtc/stats")
    async def stats() -> dict[str, Any]:
        return {"sessions": sessions[0].all_stats()}

    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, name="live-server", daemon=True)
    thread.start()
    pause = threading.Event()
    while not server.started and thread.is_alive():
        pause.wait(0.05)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(30)
