"""A process that makes video jobs until it is killed: `python -m tests.support.job_process FOLDER`.

Everything is real but the pictures: the store, the uploads, the results and the worker. A file is a function of speech and seed.
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from deployments.host.command import Answer
from deployments.host.jobs import FileJob, JobBytes, JobDone, JobEvent, JobProgress, JobStarted
from deployments.video_jobs.commands import FinishJob, JobCommand, Standing
from deployments.video_jobs.job import JobResult
from deployments.video_jobs.settings import VideoJobSettings
from deployments.video_jobs.sqlite_store import SqliteJobStore
from deployments.video_jobs.uploads import JobUploads
from deployments.video_jobs.worker import JobTools, JobWorker
from pipeline.config import SessionSettings
from pipeline.media.results_store import ResultsStore

STEPS = 10
STEP_S = 0.01
PIECE = 40_000
SETTINGS = VideoJobSettings(lease_s=0.6, beat_s=0.02)


def file_of(speech: bytes, seed: int) -> bytes:
    """The file that a job becomes."""
    return hashlib.shake_256(speech + str(seed).encode()).digest(STEPS * PIECE)


def store_of(folder: Path) -> SqliteJobStore:
    return SqliteJobStore(folder / "jobs.sqlite3")


def results_of(folder: Path) -> ResultsStore:
    return ResultsStore(str(folder / "results"), 2**30, 3600.0)


async def generate(job: FileJob) -> AsyncGenerator[JobEvent, None]:
    data = file_of(bytes(job.audio.view), job.seed)
    yield JobStarted(job.job_id, "a" * 32, STEPS, 25.0, 64, 64, 0.4)
    for step in range(1, STEPS + 1):
        await asyncio.sleep(STEP_S)
        yield JobProgress(step, STEPS)
        start = (step % STEPS) * PIECE  # the front comes last
        yield JobBytes(data[start : start + PIECE], start)
    yield JobDone(len(data), "none", {}, {})


class ToldJobs:
    """The store; every end that it has taken is noted in a file that all processes share."""

    def __init__(self, folder: Path) -> None:
        self._store = store_of(folder)
        self._ends = folder / "ends"

    async def handle(self, command: JobCommand[Answer]) -> Answer:
        answer = await asyncio.to_thread(self._store.handle, command)
        if isinstance(command, FinishJob) and isinstance(command.outcome, JobResult) and answer is Standing.HELD:
            with self._ends.open("a") as ends:
                ends.write(f"{command.job_id} {command.attempt}\n")
        return answer

    async def wake(self) -> None:
        return


async def work(folder: Path) -> None:
    async def register(data: bytes, owner: str) -> str:
        return "a" * 32

    tools = JobTools(generate, register, JobUploads(str(folder / "uploads")), results_of(folder), SessionSettings())
    worker = JobWorker(ToldJobs(folder), tools, SETTINGS, "process")
    while True:
        if not await worker.work():
            await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1])))
