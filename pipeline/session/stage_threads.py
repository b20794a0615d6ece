"""What every family's stages in this process share: two threads, and `rife` behind a third."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from kernels.arrays import F32
from pipeline.rife.local import LocalCrops, LocalRife
from pipeline.stages import CropsInWork, RenderRequest, RifeRequest
from pipeline.types import CropBatch, FeatureRows, Nv12RectBatch

T = TypeVar("T")


class SpeechEncoderStage(Protocol):
    """A family's stage `audio_features`."""

    def window(self, samples: F32, first_row: int, /) -> FeatureRows:
        """Rows of one window."""
        ...


class RendererStage(Protocol):
    """A family's stage `renderer`."""

    def render(self, request: RenderRequest, /) -> Nv12RectBatch:
        """Pictures."""
        ...

    def crops(self, request: RenderRequest, /) -> CropBatch:
        """Face crops."""
        ...


class StageThreads:
    """One thread for features and motion, one for pictures: all of `pipeline.stages.Stages` but what depends on the family.

    Args:
        audio: The speech encoder's stage.
        renderer: The renderer.
        rife: The interpolator's stage.

    Attributes:
        calls: Calls per stage so far.
    """

    def __init__(self, audio: SpeechEncoderStage, renderer: RendererStage, rife: LocalRife) -> None:
        self._encoder_stage = audio
        self._renderer_stage = renderer
        self._rife = rife
        self._speech_thread = ThreadPoolExecutor(1, thread_name_prefix="speech")
        self._picture_thread = ThreadPoolExecutor(1, thread_name_prefix="picture")
        self.calls: Counter[str] = Counter()

    async def audio_features(self, window: F32, first_row: int) -> FeatureRows:
        """See `Stages`."""
        return await self._in_speech_thread("audio_features", lambda: self._encoder_stage.window(window, first_row))

    async def renderer(self, request: RenderRequest) -> Nv12RectBatch:
        """See `Stages`."""
        return await self._run("renderer", self._picture_thread, lambda: self._renderer_stage.render(request))

    def crops(self, request: RenderRequest) -> LocalCrops:
        """See `Stages`."""
        return LocalCrops(self._run("renderer", self._picture_thread, lambda: self._renderer_stage.crops(request)))

    async def rife(self, request: RifeRequest, crops: CropsInWork, before: CropsInWork | None) -> Nv12RectBatch:
        """See `Stages`."""
        self.calls["rife"] += 1
        return await self._rife.run(request, crops, before)

    def check_rate(self, fps: float) -> None:
        """Refuse a frame rate that `rife` would have to make, where it cannot; see `LocalRife.check`."""
        self._rife.check(fps)

    def close(self) -> None:
        """End the threads; work that has begun is finished first."""
        self._rife.close()
        self._speech_thread.shutdown()
        self._picture_thread.shutdown()

    async def _in_speech_thread(self, stage: str, work: Callable[[], T]) -> T:
        return await self._run(stage, self._speech_thread, work)

    async def _run(self, stage: str, thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        self.calls[stage] += 1
        return await asyncio.get_running_loop().run_in_executor(thread, work)
