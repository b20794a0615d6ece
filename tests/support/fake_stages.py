"""Stages that answer at once with recognisable values, for tests of the session's own logic."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import numpy as np

from engines.motion_layout import MOTION_DIM
from kernels.arrays import F32
from pipeline.clock import frames_before
from pipeline.mini.motion_diffusion import MotionCarry
from pipeline.session.slots import fill_slots
from pipeline.stages import CropsInWork, RenderRequest, RifeRequest, StageInfo
from pipeline.types import CropBatch, FaceRect, FeatureRows, MotionChunk, Nv12RectBatch

HOP = 8
SPOKEN = 0.5


@dataclass
class FakeCrops:
    """Crops that are there at once."""

    batch: CropBatch
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class FakeStages:
    """Spoken motion is `SPOKEN` everywhere; a drawn frame carries its motion's first value times 100 as luma.

    Attributes:
        windows: Every feature window that was asked for, by first row.
        requests: Every render request.
        render_gate: When set, render calls wait for it.
        announced: Set once `announce_at` render calls are in flight.
        drawn: Every batch of crops.
        in_flight: Render calls that have begun and not ended; `peak` is the most there ever were.
    """

    info: StageInfo = StageInfo("fake", HOP, 640, 1920, 25, True)
    windows: dict[int, F32] = field(default_factory=dict)
    requests: list[RenderRequest] = field(default_factory=list)
    render_gate: asyncio.Event | None = None
    announce_at: int = 1
    announced: asyncio.Event = field(default_factory=asyncio.Event)
    in_flight: int = 0
    peak: int = 0
    drawn: list[FakeCrops] = field(default_factory=list)

    async def audio_features(self, window: F32, first_row: int) -> FeatureRows:
        assert window.shape == (self.info.context_samples + HOP * 640 + self.info.lookahead_samples,)
        self.windows[first_row] = window
        return FeatureRows(np.zeros((2 * HOP, 4), np.float32), 50, first_row)

    async def motion_diffusion(self, rows: FeatureRows, carry: MotionCarry) -> tuple[MotionChunk, MotionCarry]:
        return MotionChunk(np.full((HOP, MOTION_DIM), SPOKEN, np.float32), rows.first_row // 2), carry

    async def renderer(self, request: RenderRequest) -> Nv12RectBatch:
        self.requests.append(request)
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        if self.in_flight >= self.announce_at:
            self.announced.set()
        try:
            if self.render_gate is not None:
                await self.render_gate.wait()
            first, n = request.motion.first_frame, len(request.motion.motion)
            count = frames_before(first + n, request.fps) - frames_before(first, request.fps)
            return Nv12RectBatch(
                FaceRect(0, 0, 4, 2), np.zeros((count, 2, 4), np.uint8), np.zeros((count, 1, 4), np.uint8)
            )
        finally:
            self.in_flight -= 1

    def crops(self, request: RenderRequest) -> FakeCrops:
        self.requests.append(request)
        made = FakeCrops(
            CropBatch(
                np.zeros((len(request.motion.motion), 1, 1, 3), np.uint8),
                request.motion.holds,
                request.avatar_id,
                request.motion.first_frame,
                request.epoch,
            )
        )
        self.drawn.append(made)
        return made

    async def rife(self, request: RifeRequest, crops: CropsInWork, before: CropsInWork | None) -> Nv12RectBatch:
        """Luma says which crop is shown: its frame, plus how far the picture is from it to the next, times 10."""
        assert isinstance(crops, FakeCrops) and isinstance(before, FakeCrops | None)
        if self.render_gate is not None:
            self.announced.set()
            await self.render_gate.wait()
        slots = fill_slots(crops.batch, None if before is None else before.batch, request.fps)
        shown = [float(10 * (crops.batch.first_frame + slot.left + slot.share)) for slot in slots]
        luma = np.array(shown, np.uint8)[:, None, None].repeat(2, axis=1).repeat(4, axis=2)
        return Nv12RectBatch(FaceRect(0, 0, 4, 2), luma, np.zeros((len(luma), 1, 4), np.uint8))
