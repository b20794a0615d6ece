"""What a stage replica tells the token pool about its set, every two seconds."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

import ray
import structlog
from ray import serve
from ray.exceptions import RayError

from deployments.graph.calls import Distribution, StageStats
from deployments.graph.handle_calls import translated
from deployments.graph.placement import in_replica
from deployments.graph.session_cost import MeasuredCost, StageCost
from deployments.host.app_actors import pool_of
from deployments.host.stage_set import StageReport
from kernels.errors import LiveAnchorError, first_line

_log = structlog.get_logger(__name__)

REPORT_S: Final = 2.0
MEASURED_OVER_S: Final = 30.0
BUSY: Final = 0.3
"""Below this share of its time a stage says nothing new about its cost: batches are small, and clocks of GPUs are low."""
FRAMES_PER_SECOND: Final = 25.0
PERCENTILE: Final = 0.95
SAMPLED_S: Final = 0.5
SAMPLED_AGAIN_S: Final = 0.2
"""A first call that comes just then waits for so long at most."""
SAMPLE_AGAIN_AFTER_S: Final = (20.0, 40.0, 80.0)
"""A replica's start is measured while its neighbours on the GPU still load (on an H200 the renderer took 4.2 ms a frame then, 2.3
later), so it is measured again after these many seconds, once no call is in work."""
SAMPLE_SESSIONS: Final = 4
"""Sessions whose windows share a batch where a GPU is well used; the cost of a lone window would keep half of them out."""


WhenIdle = Callable[[Callable[[], float]], Awaitable[float | None]]


class SetReports:
    """Turns a replica's counters into reports. Pure but for its clock.

    Args:
        set_id: Ray node of the replica.
        stage: Name of the stage.
        first_ms: Milliseconds of its thread per frame of 40 ms, measured before the first call. The least that was ever measured
            with no call in work is what the GPU itself needs: under load, others' turns on it are part of every call's time.
        on_gpu: Whether those are milliseconds of a GPU.
        doubles: Whether it draws frames above 25 per second; the renderer's.
        most: Sessions that the operator allows on a set; None for as many as fit.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        set_id: str,
        stage: str,
        first_ms: float,
        on_gpu: bool,
        doubles: bool = False,
        most: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._set_id = set_id
        self._stage = stage
        self._cost = MeasuredCost(first_ms * FRAMES_PER_SECOND)
        self._alone_ms = first_ms * FRAMES_PER_SECOND
        self._on_gpu = on_gpu
        self._doubles = doubles
        self._most = most
        self._clock = clock
        self._began_at = clock()
        self._sampled = 0
        self._measured: tuple[float, StageStats] | None = None
        self._waits = Distribution()

    def stale(self) -> bool:
        """Whether the stage should be measured again, as soon as no call is in work: its neighbours may have been loading."""
        due = SAMPLE_AGAIN_AFTER_S[self._sampled] if self._sampled < len(SAMPLE_AGAIN_AFTER_S) else math.inf
        return self._on_gpu and self._clock() - self._began_at >= due

    def sampled_again(self, ms: float | None) -> None:
        """Take in milliseconds per frame of 40 ms that were measured again; None where a call came first."""
        self._sampled += 1
        if ms is not None:
            self._cost.guessed_again(ms * FRAMES_PER_SECOND)
            self._alone_ms = min(self._alone_ms, ms * FRAMES_PER_SECOND)

    def next(self, stats: StageStats) -> StageReport:
        """The report for counters as they are now."""
        now = self._clock()
        if self._measured is None:
            self._measured = (now, stats)
        since, before = self._measured
        if now - since >= MEASURED_OVER_S:
            busy_ms, frames = stats.batch_ms.total - before.batch_ms.total, stats.frames - before.frames
            if frames > 0 and busy_ms >= BUSY * 1000 * (now - since):
                self._cost.measured(busy_ms / frames * FRAMES_PER_SECOND, now - since)
            self._measured = (now, stats)
        wait_ms, self._waits = percentile_between(self._waits, stats.wait_ms), stats.wait_ms
        return StageReport(
            self._set_id,
            StageCost(self._stage, self._cost.value, min(self._cost.value, self._alone_ms) if self._on_gpu else 0.0),
            wait_ms,
            frozenset(stats.warm),
            self._doubles,
            self._most,
        )


def percentile_between(before: Distribution, after: Distribution, share: float = PERCENTILE) -> float:
    """Upper end of the range that holds a percentile of the values counted between two moments; 0 where there are none.

    Args:
        before: Counts at the first moment; none where it was never counted.
        after: Counts at the second moment.
        share: Which percentile, 0 to 1.
    """
    old = before.counts if len(before.counts) == len(after.counts) else (0,) * len(after.counts)
    counts = [new - was for new, was in zip(after.counts, old, strict=True)]
    wanted, seen = share * sum(counts), 0
    if wanted <= 0:
        return 0.0
    for count, end in zip(counts, (*after.boundaries, float("inf")), strict=True):
        seen += count
        if seen >= wanted:
            return end
    return 0.0


def own_set_id() -> str:
    """The Ray node that this replica runs on."""
    return str(ray.get_runtime_context().get_node_id())


def ms_per_frame(
    sample: Callable[[], int], clock: Callable[[], float] = time.monotonic, least_s: float = SAMPLED_S
) -> float:
    """Milliseconds per frame of 40 ms that a stage needs.

    Args:
        sample: Makes some frames, as many calls at once would ask for them, and says how many.
        clock: Monotonic seconds.
        least_s: Seconds to measure for, at least.
    """
    sample()  # the first one may still allocate
    began, frames = clock(), 0
    while clock() - began < least_s or not frames:
        frames += sample()
    return (clock() - began) * 1000 / frames


def start_reports(
    stage: str,
    stats: Callable[[], StageStats],
    sample: Callable[[], int],
    on_gpu: bool,
    doubles: bool = False,
    most: int | None = None,
    when_idle: WhenIdle | None = None,
) -> asyncio.Task[None] | None:
    """Measure a stage and begin to tell the token pool about it; None outside a replica. Keep the task.

    Args:
        stage: Name of the stage.
        stats: Gives the replica's counters.
        sample: As for `ms_per_frame`; not called on a CPU, where the measured headroom of the hosts decides.
        on_gpu: Whether the stage runs on a GPU.
        doubles: Whether it draws frames above 25 per second; the renderer's.
        most: Sessions that the operator allows on a set; None for as many as fit.
        when_idle: Runs a measurement in the stage's thread, where no call is in work; None measures at the start only.
    """
    if not in_replica():
        return None
    first_ms = ms_per_frame(sample) if on_gpu else 0.0
    _log.info("stage_measured", stage=stage, ms_per_frame=round(first_ms, 3), on_gpu=on_gpu)
    reports = SetReports(own_set_id(), stage, first_ms, on_gpu, doubles, most)
    return asyncio.create_task(_tell_the_pool(reports, stats, sample, when_idle), name=f"set-reports-{stage}")


async def _tell_the_pool(
    reports: SetReports,
    stats: Callable[[], StageStats],
    sample: Callable[[], int],
    when_idle: WhenIdle | None,
) -> None:
    """Report for as long as this replica lives; a pool that is away learns everything from the next report."""
    app = str(serve.get_replica_context().app_name)
    actor: Any = None
    while True:
        if when_idle is not None and reports.stale():
            measuring = when_idle(lambda: ms_per_frame(sample, least_s=SAMPLED_AGAIN_S))
            [ms] = await asyncio.gather(measuring, return_exceptions=True)
            if isinstance(ms, BaseException):
                _log.warning("stage_not_measured_again", reason=first_line(ms, named=True))
            reports.sampled_again(ms if isinstance(ms, float) else None)
        try:
            with translated("token_pool"):
                actor = actor or pool_of(app)
                await actor.report.remote(reports.next(stats()))
        except (LiveAnchorError, RayError) as error:  # of any kind: a set that stopped reporting would be lost for good
            _log.warning("token_pool_away", reason=first_line(error.__cause__ or error, named=True))
            actor = None
        await asyncio.sleep(REPORT_S)
