"""A session's stage calls, counted and timed on its own clock, and what that says about the health of the stages."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Awaitable
from typing import Final, TypeVar

import numpy as np

from kernels.arrays import F32
from kernels.errors import LiveAnchorError
from pipeline.live.contracts import LiveClock
from pipeline.stages import Carry, CropsInWork, RenderRequest, RifeRequest, StageInfo, Stages
from pipeline.types import FeatureRows, MotionChunk, Nv12RectBatch

T = TypeVar("T")
_KEPT: Final = 256
_SERIES_GAP_S: Final = 10.0
"""Failures further apart are not one series."""
_RECENT: Final = 24
_CHAIN: Final = ("audio_features", "motion_diffusion", "renderer", "rife")


class MeteredStages:
    """`Stages` that remember how they did.

    Args:
        stages: The real ones.
        clock: The session's.

    Attributes:
        calls: Calls per stage so far.
        failures: Calls per stage that failed.
    """

    def __init__(self, stages: Stages, clock: LiveClock) -> None:
        self._stages = stages
        self._clock = clock
        self._times: dict[str, deque[float]] = {}
        self._running: dict[int, float] = {}
        self._failing: dict[str, tuple[float, float]] = {}
        self._number = 0
        self._answers = self._chain_answers = 0
        self._chain_s = 0.0
        self.calls: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()

    @property
    def info(self) -> StageInfo:
        """Facts about the family."""
        return self._stages.info

    async def audio_features(self, window: F32, first_row: int) -> FeatureRows:
        """See `Stages`."""
        return await self._timed("audio_features", self._stages.audio_features(window, first_row))

    async def motion_diffusion(self, rows: FeatureRows, carry: Carry) -> tuple[MotionChunk, Carry]:
        """See `Stages`."""
        return await self._timed("motion_diffusion", self._stages.motion_diffusion(rows, carry))

    async def renderer(self, request: RenderRequest) -> Nv12RectBatch:
        """See `Stages`."""
        return await self._timed("renderer", self._stages.renderer(request))

    def crops(self, request: RenderRequest) -> CropsInWork:
        """See `Stages`; not timed, for nobody waits for it."""
        self.calls["renderer"] += 1
        return self._stages.crops(request)

    async def rife(self, request: RifeRequest, crops: CropsInWork, before: CropsInWork | None) -> Nv12RectBatch:
        """See `Stages`."""
        return await self._timed("rife", self._stages.rife(request, crops, before))

    @property
    def waiting_s(self) -> float:
        """How long the oldest call has been running."""
        return self._clock.now() - min(self._running.values()) if self._running else 0.0

    @property
    def failing_s(self) -> float:
        """Over how long a stage has answered every call with an error, the longest of all stages."""
        return max((last - first for first, last in self._failing.values()), default=0.0)

    def stalled(self, stage: str) -> None:
        """A call was given up."""
        self._failed(stage)

    def chain_s(self) -> float:
        """Seconds from samples to pictures: the slow quarter of recent calls, summed over the stages; 0 before the first.

        One stall says nothing.
        """
        if self._answers != self._chain_answers:
            self._chain_answers = self._answers
            recent = [list(times)[-_RECENT:] for stage in _CHAIN if (times := self._times.get(stage))]
            self._chain_s = float(sum(np.percentile(times, 75) for times in recent))
        return self._chain_s

    def percentiles_ms(self) -> dict[str, tuple[float, float]]:
        """p50 and p95 per stage in milliseconds, over the last calls."""
        return {
            stage: (float(np.percentile(times, 50)) * 1000, float(np.percentile(times, 95)) * 1000)
            for stage, times in self._times.items()
        }

    async def _timed(self, stage: str, answer: Awaitable[T]) -> T:
        self._number += 1
        number, begun = self._number, self._clock.now()
        self.calls[stage] += 1
        self._running[number] = begun
        try:
            result = await answer
        except LiveAnchorError:
            self._failed(stage)
            raise
        finally:
            del self._running[number]
        self._failing.pop(stage, None)
        self._answers += 1
        self._times.setdefault(stage, deque(maxlen=_KEPT)).append(self._clock.now() - begun)
        return result

    def _failed(self, stage: str) -> None:
        now = self._clock.now()
        self.failures[stage] += 1
        first, last = self._failing.get(stage, (now, now))
        self._failing[stage] = (now if now - last > _SERIES_GAP_S else first, now)
