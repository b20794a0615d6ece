"""How many videos the store alone carries from their claim to their end, in several processes that share its file."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.core.record import BenchmarkRecord, make_record
from benchmarks.core.run_info import RunInfo
from deployments.video_jobs.commands import AddJob, BeatJob, ClaimJob, CountJobs, FinishJob
from deployments.video_jobs.job import JobResult, JobSpec, JobState
from deployments.video_jobs.sqlite_store import SqliteJobStore
from kernels.errors import LiveAnchorError

RUNS: Final = 7
JOBS: Final = 400
PROCESSES: Final = 3
LEASE_S: Final = 30.0
SPEC: Final = JobSpec(None, False, 25.0, 8, seed=7)
RESULT: Final = JobResult("r" * 32, 2e9, 812_345, "a" * 32, 100, 25.0, 720, 1280, 4.0)


def work(path: Path, ready: Any, go: Any) -> None:
    """Claim, beat and finish until nothing waits; what one process does."""
    store = SqliteJobStore(path)
    store.handle(CountJobs())
    ready.release()
    go.wait()
    while (job := store.handle(ClaimJob("benchmark", LEASE_S))) is not None:
        store.handle(BeatJob(job.job_id, job.attempt, LEASE_S, 50, 100))
        store.handle(FinishJob(job.job_id, job.attempt, RESULT))


def cycles_per_s(path: Path, processes: int, jobs: int = JOBS) -> float:
    """Jobs that so many processes bring from claim to end, per second of wall time, the files synced as in the service.

    Raises:
        LiveAnchorError: Not every job ended.
    """
    store = SqliteJobStore(path)
    for number in range(jobs):
        store.handle(AddJob(f"video_{number:06x}", "", SPEC, 3600.0, max_queued=jobs))
    spawned = multiprocessing.get_context("spawn")
    ready, go = spawned.Semaphore(0), spawned.Event()
    workers = [spawned.Process(target=work, args=(path, ready, go)) for _ in range(processes)]
    for one in workers:
        one.start()
    for _ in workers:
        ready.acquire()
    began = time.perf_counter()
    go.set()
    for one in workers:
        one.join()
    seconds = time.perf_counter() - began
    ended = store.handle(CountJobs())
    store.close()
    if ended != {JobState.COMPLETED: jobs}:
        raise LiveAnchorError(f"{ended} of {jobs} jobs ended")
    return jobs / seconds


def store_records(run: RunInfo, suite: str) -> list[BenchmarkRecord]:
    """Measure the store: several processes against one."""
    together, alone = [], []
    with TemporaryDirectory() as folder:
        for turn in range(RUNS):
            together.append(cycles_per_s(Path(folder) / f"together-{turn}.sqlite3", PROCESSES))
            alone.append(cycles_per_s(Path(folder) / f"alone-{turn}.sqlite3", 1))
    return [
        make_record(
            run,
            suite=suite,
            case="jobs_cycles_per_s",
            unit="1/s",
            samples=together,
            higher_is_better=True,
            baseline="one process instead of three",
            baseline_value=sorted(alone)[len(alone) // 2],
        )
    ]
