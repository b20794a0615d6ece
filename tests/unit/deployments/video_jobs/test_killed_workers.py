"""Workers are killed with SIGKILL in the middle of jobs: each job ends once, with the file of an undisturbed run."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.video_jobs.commands import AddJob, CountJobs, ListJobs
from deployments.video_jobs.job import JobSpec, JobState
from deployments.video_jobs.uploads import AUDIO, JobUploads
from tests.support.http_server import wait_for
from tests.support.job_process import file_of, results_of, store_of
from tests.support.paths import ROOT

JOBS = 20
KILLS = 12


class Workers:
    """Two processes; a killed one is replaced at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._running = [self._started() for _ in range(2)]

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.support.job_process", str(self._folder)]
        return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})

    def kill_one(self, index: int) -> None:
        self._running[index].kill()
        self._running[index].wait()
        self._running[index] = self._started()

    def end(self) -> None:
        for one in self._running:
            one.kill()
            one.wait()


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    found = Workers(tmp_path)
    yield found
    found.end()


def test_every_job_ends_once_with_the_same_bytes(tmp_path: Path, workers: Workers) -> None:
    store, uploads, draw = store_of(tmp_path), JobUploads(str(tmp_path / "uploads")), random.Random(5)
    speech = {f"video_{number:04x}": draw.randbytes(20_000) for number in range(JOBS)}
    for seed, (job_id, data) in enumerate(speech.items()):
        uploads.write(job_id, AUDIO, data)
        store.handle(AddJob(job_id, "", JobSpec(None, False, 25.0, 8, seed=seed), 600.0))

    def completed() -> int:
        return store.handle(CountJobs()).get(JobState.COMPLETED, 0)

    def under_way() -> bool:
        return any(job.done for job in store.handle(ListJobs(None, JOBS)).jobs if job.state is JobState.RUNNING)

    killed = 0
    while killed < KILLS:
        before = completed()
        wait_for(lambda: completed() > before and under_way())  # noqa: B023  # called in this turn only
        workers.kill_one(killed % 2)
        killed += 1
    wait_for(lambda: completed() == JOBS)

    jobs = store.handle(ListJobs(None, JOBS, newest_first=False)).jobs
    assert sum(job.attempt for job in jobs) > JOBS, "some were begun again"
    results = results_of(tmp_path)
    for job in jobs:
        assert job.result is not None
        made = b"".join(results.read(job.result.result_id, 0, job.result.size_bytes))
        assert made == file_of(speech[job.job_id], job.spec.seed)
    ends = Counter(line.split()[0] for line in (tmp_path / "ends").read_text().splitlines())
    assert set(ends.values()) <= {1} and JOBS - KILLS <= len(ends) <= JOBS
    assert len({job.result.result_id for job in jobs if job.result}) == JOBS
