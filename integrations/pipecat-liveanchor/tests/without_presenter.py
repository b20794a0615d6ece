"""A pipeline whose presenter cannot be had: prints one JSON object with what came through and what was told."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from end_to_end import FakeTTS
from loguru import logger
from pipecat.frames.frames import EndFrame, Frame, TTSAudioRawFrame, TTSSpeakFrame, TTSStoppedFrame
from pipecat.pipeline.pipeline import Pipeline
from pipecat.pipeline.worker import PipelineWorker
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.workers.runner import WorkerRunner

from pipecat_liveanchor.video import LiveAnchorVideoService


class Through(FrameProcessor):
    """Counts what the service lets through."""

    def __init__(self) -> None:
        super().__init__()
        self.samples, self.stops = 0, asyncio.Event()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            self.samples += len(frame.audio) // 2
        elif isinstance(frame, TTSStoppedFrame):
            self.stops.set()
        await self.push_frame(frame, direction)


async def run(url: str, avatar_id: str | None = None) -> dict[str, Any]:
    through, told = Through(), list[str]()
    service = LiveAnchorVideoService(base_url=url, avatar_id=avatar_id)
    worker = PipelineWorker(Pipeline([FakeTTS(), service, through]), cancel_on_idle_timeout=False)

    @worker.event_handler("on_pipeline_error")
    async def failed(_: Any, frame: Any) -> None:
        told.append(frame.error)

    runner = WorkerRunner(handle_sigint=False)
    await runner.add_workers(worker)
    running = asyncio.create_task(runner.run())
    await worker.queue_frame(TTSSpeakFrame("new"))
    async with asyncio.timeout(30):
        await through.stops.wait()
    await worker.queue_frame(EndFrame())
    async with asyncio.timeout(30):
        await running
    return {"samples": through.samples, "errors": told, "usable": service.is_usable}


if __name__ == "__main__":
    logger.remove()
    print(json.dumps(asyncio.run(run(*sys.argv[1:]))))
