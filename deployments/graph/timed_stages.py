"""A session's stage calls, with the time that its pictures took, for admission."""

from __future__ import annotations

import time
from collections.abc import Callable

from kernels.arrays import F32
from pipeline.stages import Carry, CropsInWork, RenderRequest, RifeRequest, StageInfo, Stages
from pipeline.types import MOTION_FPS, FeatureRows, MotionChunk, Nv12RectBatch


class TimedStages:
    """Implements `pipeline.stages.Stages` over other ones.

    Args:
        stages: Do the work.
        on_pictures: Told the seconds that pictures took and the seconds for which they are shown.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        stages: Stages,
        on_pictures: Callable[[float, float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stages = stages
        self._on_pictures = on_pictures
        self._clock = clock

    @property
    def info(self) -> StageInfo:
        """Facts about the family."""
        return self._stages.info

    async def audio_features(self, window: F32, first_row: int) -> FeatureRows:
        """Implement `Stages`."""
        return await self._stages.audio_features(window, first_row)

    async def motion_diffusion(self, rows: FeatureRows, carry: Carry) -> tuple[MotionChunk, Carry]:
        """Implement `Stages`."""
        return await self._stages.motion_diffusion(rows, carry)

    async def renderer(self, request: RenderRequest) -> Nv12RectBatch:
        """Implement `Stages`."""
        began = self._clock()
        batch = await self._stages.renderer(request)
        self._on_pictures(self._clock() - began, len(request.motion.motion) / MOTION_FPS)
        return batch

    def crops(self, request: RenderRequest) -> CropsInWork:
        """Implement `Stages`."""
        return self._stages.crops(request)

    async def rife(self, request: RifeRequest, crops: CropsInWork, before: CropsInWork | None) -> Nv12RectBatch:
        """Implement `Stages`; crops that are still being drawn are waited for in it."""
        began = self._clock()
        batch = await self._stages.rife(request, crops, before)
        self._on_pictures(self._clock() - began, len(batch) / request.fps)
        return batch
