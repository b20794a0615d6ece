"""Runs the stages of any family in this process: in two threads, and `rife` in a third."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from kernels.arrays import F32
from pipeline.rife.local import LocalCrops, LocalRife
from pipeline.stages import Carry, CropsInWork, RenderRequest, RifeRequest, StageInfo
from pipeline.types import CropBatch, FeatureRows, MotionChunk, Nv12RectBatch

T = TypeVar("T")
MotionStep = Callable[[FeatureRows, Any], "tuple[MotionChunk, Carry]"]
"""One hop of the family's motion stage, with a carry of its own kind, or what stands in for it where it has none."""


class SpeechEncoderStage(Protocol):
    """Stage `audio_features` of a family."""

    def window(self, samples: F32, first_row: int, /) -> FeatureRows:
        """Feature rows of one window of samples, float32 (n,) at 16 kHz; `first_row` is the index of the first one."""
        ...


class PictureStage(Protocol):
    """Stage `renderer` of a family."""

    def render(self, request: RenderRequest, /) -> Nv12RectBatch:
        """Finished rectangles of a chunk."""
        ...

    def crops(self, request: RenderRequest, /) -> CropBatch:
        """Face crops of a chunk, which `rife` goes on with."""
        ...


class StageThreads:
    """`pipeline.stages.Stages` over two threads: one for features and motion, one for pictures.

    Args:
        info: What sessions must know of the family.
        audio: The speech encoder's stage.
        motion: The motion stage's step.
        renderer: The renderer.
        rife: The interpolator's stage.

    Attributes:
        info: What sessions must know of the family.
    """

    def __init__(
        self,
        info: StageInfo,
        audio: SpeechEncoderStage,
        motion: MotionStep,
        renderer: PictureStage,
        rife: LocalRife,
    ) -> None:
        self.info = info
        self._encoder_stage = audio
        self._motion_step = motion
        self._renderer_stage = renderer
        self._rife = rife
        self._speech_thread = ThreadPoolExecutor(1, thread_name_prefix="speech")
        self._picture_thread = ThreadPoolExecutor(1, thread_name_prefix="picture")

    async def audio_features(self, window: F32, first_row: int) -> FeatureRows:
        """Encode one window of speech in the speech thread; part of the protocol `Stages`."""
        return await self._run(self._speech_thread, lambda: self._encoder_stage.window(window, first_row))

    async def motion_diffusion(self, rows: FeatureRows, carry: Carry) -> tuple[MotionChunk, Carry]:
        """Make the motion of one hop in the speech thread; a call without rows does a session's set-up, where there is one."""
        return await self._run(self._speech_thread, lambda: self._motion_step(rows, carry))

    async def renderer(self, request: RenderRequest) -> Nv12RectBatch:
        """Draw the finished rectangles of a chunk in the picture thread; part of the protocol `Stages`."""
        return await self._run(self._picture_thread, lambda: self._renderer_stage.render(request))

    def crops(self, request: RenderRequest) -> LocalCrops:
        """Begin to draw the crops of a chunk in the picture thread, without waiting; part of the protocol `Stages`."""
        return LocalCrops(self._run(self._picture_thread, lambda: self._renderer_stage.crops(request)))

    async def rife(self, request: RifeRequest, crops: CropsInWork, before: CropsInWork | None) -> Nv12RectBatch:
        """Interpolate crops to the video's frame rate and composite them; part of the protocol `Stages`."""
        return await self._rife.run(request, crops, before)

    def check_rate(self, fps: float) -> None:
        """Refuse a frame rate that `rife` cannot make here, with the error of `LocalRife.check`."""
        self._rife.check(fps)

    def close(self) -> None:
        """End the threads; work that has begun is finished first."""
        self._rife.close()
        self._speech_thread.shutdown()
        self._picture_thread.shutdown()

    async def _run(self, thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(thread, work)
