"""The cases of `benchmarks.capacity`, each measured on a running service and made into its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.core.record import BenchmarkRecord, make_record
from benchmarks.core.run_info import RunInfo
from benchmarks.core.time_budget import OutOfTimeError, TimeBudget
from benchmarks.graph import gpu_service as graph
from benchmarks.graph.capacity_run import Sessions, Steady, Wanted, as_json, beside, bound, most
from benchmarks.graph.run import Job, run_job, speech, wav_16
from benchmarks.live.rig import cpu_seconds, replica_pids
from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.families import find_family

SUITE: Final = "capacity"
JOB_S: Final = 10.0
SESSIONS_PER_HOST: Final = 6
SETTLE_S: Final = 60.0
COUNT_S: Final = 20.0
BESIDE: Final = 8
"""Speaking sessions beside which first pictures are looked at."""
MOST_SETS: Final = 4
COME_AND_GO_S: Final = 25.0
"""Seconds in which sessions connect and end, beside those in which they settle and are counted."""
Measured = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """Says how much is measured.

    Attributes:
        family: Family whose stages are measured.
        gpus: Number of GPUs of the run.
        counts: Numbers of sessions that are tried, ascending.
        settle_s: Seconds that sessions run before they count.
        count_s: Seconds for which sessions are counted.
        jobs: Number of files at once.
        kills: Number of kills of each kind of process.
        small: Whether this is a dry run.
        sets: Sets of stages that share each GPU, every one in a Ray node of its own; more than one is for kills alone.
    """

    family: str
    gpus: int
    counts: tuple[int, ...]
    settle_s: float
    count_s: float
    jobs: tuple[int, ...]
    kills: int
    small: bool
    sets: int = 1

    @property
    def nodes(self) -> int:
        """Number of Ray nodes."""
        return self.gpus * self.sets

    @property
    def viewers(self) -> int:
        """Number of viewers under whom processes die."""
        return 1 if self.small else 6

    @property
    def hosts(self) -> int:
        """Session hosts that there are at least: another one where one dies."""
        return 2 * self.nodes if not self.small else max(2, self.nodes)

    @property
    def job_s(self) -> float:
        """Length of a file in seconds."""
        return 0.4 if self.small else JOB_S


def plan_of(
    family: str,
    gpus: int,
    *,
    small: bool,
    settle_s: float,
    count_s: float,
    counts: Sequence[int],
    kills: int = 5,
    alone: bool = True,
    sets: int = 1,
) -> Plan:
    """The plan of a run; `alone` says whether one session alone is looked at first, which the bound is made of.

    Raises:
        InvalidInputError: Counts that do not ascend, no kill, no set, or too short a time.
    """
    if count_s < 4.0:
        raise InvalidInputError("--count-s", f"{count_s:g}", "at least 4 seconds")
    if list(counts) != sorted(set(counts)) or any(one < 1 for one in counts):
        raise InvalidInputError("--counts", " ".join(map(str, counts)), "ascending numbers of sessions, from 1 on")
    if kills < 1:
        raise InvalidInputError("--kills", str(kills), "at least 1")
    if not 1 <= sets <= MOST_SETS:
        raise InvalidInputError("--sets", str(sets), f"1 to {MOST_SETS}")
    chosen = tuple(counts) or ((1,) if small else tuple(gpus * one for one in (8, 10, 12, 14, 16, 18, 20)))
    jobs = (2,) if small else (16 * gpus,)
    tried = (1, *(one for one in chosen if one > 1)) if alone else chosen
    return Plan(family, gpus, tried, settle_s, count_s, jobs, kills, small, sets)


class Case:
    """Measures cases on a running service, and makes their rows.

    Args:
        run: Facts that all records of this run share.
        plan: How much is measured.
        url: Address of the service.
        speech: Path of a speech file that lasts for any case.
        raw: Filled in with everything that was measured.
        budget: How much time is left; None where nothing bounds it.

    Attributes:
        cut: Why the last case stopped short of its end; empty where it did not.
    """

    def __init__(
        self, run: RunInfo, plan: Plan, url: str, speech: Path, raw: Measured, budget: TimeBudget | None = None
    ) -> None:
        self._run, self._plan, self._url, self._raw, self._speech = run, plan, url, raw, speech
        self._budget = budget or TimeBudget()
        self.cut = ""
        self._seen: dict[tuple[int, int], Steady] = {}
        self._best: dict[int, int] = {}

    def files(self) -> list[BenchmarkRecord]:
        """Frames per second of files at once, after one that is not counted."""
        wav = wav_16(speech(self._plan.job_s))
        run_job(self._url, wav)
        rates = []
        for count in self._plan.jobs:
            seconds, jobs = graph.jobs_at_once(self._url, wav, count)
            done = [one for one in jobs if isinstance(one, Job)]
            self._raw["files"] = {"seconds": seconds, "jobs": count, "completed": len(done)}
            if len(done) == count:
                rates.append(count * self._plan.job_s * 25.0 / seconds)
        return (
            [self.row(f"{self._plan.family}_files_fps_{self._plan.gpus}gpu", "frame/s", [max(rates)], True)]
            if rates
            else []
        )

    def sessions(self, fps: int = 25) -> list[BenchmarkRecord]:
        """Most sessions, what the hosts spent on them, and the bound by stage times."""
        plan, runner = self._plan, self._runner(fps)

        def run(count: int) -> Steady:
            self._budget.need(plan.settle_s + plan.count_s + COME_AND_GO_S, f"{count} sessions at {fps} frames/s")
            return runner.run(count)

        try:
            best = most(plan.counts, run, lambda count, found: self._keep(fps, count, found))
        except OutOfTimeError as error:
            best = max((count for (of, count), found in self._seen.items() if of == fps and found.counts), default=0)
            if not best:
                raise
            self.cut = f"at least {best} sessions count; {error}"
        self._best[fps] = best
        alone, loaded = self._seen.get((fps, 1)), self._seen.get((fps, max(best, 1)))
        most_of = bound(alone, loaded, plan.gpus) if alone and loaded and fps == 25 else None
        case = f"{plan.family}_sessions_{'50fps_' if fps == 50 else ''}{plan.gpus}gpu"
        rows = [self.row(case, "sessions", [float(best)], True, floor=most_of)]
        if best and loaded and fps == 25:
            rows.append(self.row("host_cpu_per_session", "core", [loaded.host_cpu_s / loaded.seconds / best], False))
        return rows

    def overload(self) -> list[BenchmarkRecord]:
        """Three times as many offers at once as sessions fit; needs the case `sessions`."""
        best = self._best.get(25, 0)
        if not best:
            raise LiveAnchorError("how many sessions fit is not known: measure the case sessions in the same run")
        found = self._runner(25).run(3 * best)
        self._keep(25, 3 * best, found)
        late = sum(found.late) / len(found.late) if found.late else 1.0
        rows = [self.row("overload_late_share", "1", [late], False, n=max(len(found.late), 1))]
        return [*rows, self.row("overload_admitted_share", "1", [found.admitted / best], True)]

    def first_frame(self) -> list[BenchmarkRecord]:
        """First picture of a streamed file on an idle service, and of sessions while others speak."""
        wav = wav_16(speech(self._plan.job_s))
        idle = [1e3 * run_job(self._url, wav, stream=True).first_frame_s for _ in range(1 if self._plan.small else 5)]
        return [self.row(f"{self._plan.family}_first_frame_ms", "ms", idle, False)]

    def first_frame_beside(self) -> list[BenchmarkRecord]:
        """First picture of a streamed file while eight sessions speak, the slowest twentieth of twenty."""
        wav, count = wav_16(speech(self._plan.job_s)), 1 if self._plan.small else BESIDE
        files = 2 if self._plan.small else 20
        with beside(self._url, count, self._speech):
            times = [1e3 * run_job(self._url, wav, stream=True).first_frame_s for _ in range(files)]
        self._raw["first_frame_beside"] = times
        slowest = float(np.percentile(times, 95))
        return [self.row(f"{self._plan.family}_first_frame_p95_ms", "ms", [slowest], False, n=files)]

    def row(
        self,
        case: str,
        unit: str,
        samples: list[float],
        higher: bool,
        floor: float | None = None,
        n: int | None = None,
        base: tuple[str, float] | None = None,
    ) -> BenchmarkRecord:
        """Make the record of one case."""
        return make_record(
            self._run,
            suite=SUITE,
            case=case,
            unit=unit,
            samples=samples,
            higher_is_better=higher,
            floor_value=floor,
            n=n,
            baseline=base[0] if base else None,
            baseline_value=base[1] if base else None,
        )

    def _runner(self, fps: int) -> Sessions:
        plan = self._plan
        wanted = Wanted(plan.settle_s, plan.count_s, self._speech, fps)
        stages = find_family(plan.family).stages
        return Sessions(self._url, wanted, lambda: sum(map(cpu_seconds, replica_pids("SessionHost"))), stages=stages)

    def _keep(self, fps: int, count: int, found: Steady) -> None:
        self._seen[fps, count] = found
        self._raw.setdefault("sessions", {}).setdefault(str(fps), {}).setdefault(str(count), []).append(as_json(found))
        late, p99 = max(found.late, default=1.0), max(found.interval_p99_ms, default=float("inf"))
        print(f"  {count} sessions at {fps}: {found.admitted} in, worst late {late:.3f}, p99 {p99:.0f} ms", flush=True)
