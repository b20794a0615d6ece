"""One meter for the stage calls of a session or a job: how many, how long, and what share of its time a picture took.

Live sessions read from it how long lips take and whether a stage is alive, file jobs what they called, admission the shares.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import numpy as np

from kernels.arrays import F32
from kernels.errors import LiveAnchorError
from pipeline.sliding_quantile import SlidingQuantile
from pipeline.stages import Carry, CropsInWork, RenderRequest, RifeRequest, StageInfo, Stages
from pipeline.types import MOTION_FPS, FeatureRows, MotionChunk, Nv12RectBatch

T = TypeVar("T")
OnPictures = Callable[[float, float], None]
"""Called with the seconds that pictures took, from the request to their return, and the seconds for which they are shown."""
_KEPT: Final = 256
_SERIES_GAP_S: Final = 10.0
"""Seconds between two failures above which they do not belong to one series."""
_ASKED_AGAIN_S: Final = 1.0
"""Seconds after a call without an answer within which a session that speaks has asked again."""
_RECENT: Final = 24
_CHAIN: Final = ("audio_features", "motion_diffusion", "renderer", "rife")


class CallTimes:
    """How long the last calls of every stage took, in seconds.

    Args:
        all_sessions: Times of all sessions of the process, which stand in until this one has spoken; None: only its own count.
    """

    def __init__(self, all_sessions: CallTimes | None = None) -> None:
        self._all_sessions = all_sessions
        self._times: dict[str, deque[float]] = {}
        self._recent: dict[str, SlidingQuantile] = {}
        self._chain_s: float | None = None

    def add(self, stage: str, seconds: float) -> None:
        """A call has answered."""
        if stage not in self._times:
            self._times[stage], self._recent[stage] = deque(maxlen=_KEPT), SlidingQuantile(_RECENT)
        self._times[stage].append(seconds)
        self._recent[stage].add(seconds)
        self._chain_s = None
        if self._all_sessions is not None:
            self._all_sessions.add(stage, seconds)

    @property
    def known(self) -> bool:
        """Whether anything was spoken yet: what `chain_s` says is measured then."""
        return self._spoke or (self._all_sessions is not None and self._all_sessions.known)

    @property
    def _spoke(self) -> bool:
        return _CHAIN[0] in self._times

    def chain_s(self) -> float:
        """Seconds from samples to pictures: the slow quarter of recent calls, summed over the stages; 0 before the first.

        One stall says nothing.
        """
        if not self._spoke and self._all_sessions is not None:
            return self._all_sessions.chain_s()
        if self._chain_s is None:
            self._chain_s = sum(recent.at(0.75) for stage in _CHAIN if (recent := self._recent.get(stage)))
        return self._chain_s

    def percentiles_ms(self) -> dict[str, tuple[float, float]]:
        """p50 and p95 per stage in milliseconds."""
        return {
            stage: (float(np.percentile(times, 50)) * 1000, float(np.percentile(times, 95)) * 1000)
            for stage, times in self._times.items()
        }


class StageMeter:
    """`Stages` that remember how they did.

    Args:
        stages: Do the work.
        clock: Monotonic seconds.
        on_pictures: Told of all pictures that came; for admission.
        all_sessions: As in `CallTimes`.

    Attributes:
        calls: Calls per stage so far.
        failures: Calls per stage that failed.
        times: How long they took.
    """

    def __init__(
        self,
        stages: Stages,
        clock: Callable[[], float] = time.monotonic,
        on_pictures: OnPictures = lambda took_s, lasts_s: None,
        all_sessions: CallTimes | None = None,
    ) -> None:
        self._stages = stages
        self._clock = clock
        self._on_pictures = on_pictures
        self._running: dict[tuple[str, object], float] = {}
        self._unanswered: dict[str, float] = {}
        self._over_at: dict[str, float] = {}
        self._failing: dict[str, tuple[float, float]] = {}
        self.calls: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.times = CallTimes(all_sessions)

    @property
    def info(self) -> StageInfo:
        """Facts about the family."""
        return self._stages.info

    async def audio_features(self, window: F32, first_row: int) -> FeatureRows:
        """Rows of a window, as `Stages` says."""
        rows, _ = await self._timed("audio_features", self._stages.audio_features(window, first_row))
        return rows

    async def motion_diffusion(self, rows: FeatureRows, carry: Carry) -> tuple[MotionChunk, Carry]:
        """A hop of motion, as `Stages` says; no call, and not counted, where the family has no such stage."""
        if self.info.passes_rows_on:
            return await self._stages.motion_diffusion(rows, carry)
        answer, _ = await self._timed("motion_diffusion", self._stages.motion_diffusion(rows, carry))
        return answer

    async def renderer(self, request: RenderRequest) -> Nv12RectBatch:
        """Pictures, as `Stages` says."""
        batch, took_s = await self._timed("renderer", self._stages.renderer(request))
        self._on_pictures(took_s, len(request.motion.motion) / MOTION_FPS)
        return batch

    def crops(self, request: RenderRequest) -> CropsInWork:
        """Crops in work, as `Stages` says; they are counted and not timed, because `rife` waits for them."""
        self.calls["renderer"] += 1
        return self._stages.crops(request)

    async def rife(self, request: RifeRequest, crops: CropsInWork, before: CropsInWork | None) -> Nv12RectBatch:
        """Pictures of crops, as `Stages` says; the time includes waiting for crops that are still being drawn."""
        batch, took_s = await self._timed("rife", self._stages.rife(request, crops, before))
        self._on_pictures(took_s, len(batch) / request.fps)
        return batch

    @property
    def waiting_s(self) -> float:
        """How long the oldest call has been running."""
        return self._clock() - min(self._running.values()) if self._running else 0.0

    @property
    def failing_s(self) -> float:
        """Over how long a stage has answered every call with an error, the longest of all stages."""
        return max((last - first for first, last in self._failing.values()), default=0.0)

    @property
    def away_s(self) -> float:
        """For how long what is asked of a stage has had no answer, whatever became of single calls; the longest of all stages."""
        now, running = self._clock(), {stage for stage, _ in self._running}
        asked = [
            now - since
            for stage, since in self._unanswered.items()
            if stage in running or now - self._over_at.get(stage, now) <= _ASKED_AGAIN_S
        ]
        return max(asked, default=0.0)

    def failed(self, stage: str) -> None:
        """A call failed, or was given up."""
        now = self._clock()
        self.failures[stage] += 1
        first, last = self._failing.get(stage, (now, now))
        self._failing[stage] = (now if now - last > _SERIES_GAP_S else first, now)

    async def _timed(self, stage: str, answer: Awaitable[T]) -> tuple[T, float]:
        call, begun = (stage, object()), self._clock()
        self.calls[stage] += 1
        self._running[call] = begun
        self._unanswered.setdefault(stage, begun)
        try:
            result = await answer
        except LiveAnchorError:
            self.failed(stage)
            raise
        finally:
            del self._running[call]
            self._over_at[stage] = self._clock()
        took_s = self._over_at[stage] - begun
        self._failing.pop(stage, None)
        self._unanswered.pop(stage, None)
        if any(of == stage for of, _ in self._running):  # what else was asked of it waits from now on
            self._unanswered[stage] = self._over_at[stage]
        self.times.add(stage, took_s)
        return result, took_s
