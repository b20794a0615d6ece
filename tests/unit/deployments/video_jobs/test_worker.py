"""One worker and its jobs: what becomes of them when the work, the store or the worker itself fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from deployments.graph.errors import StageLostError
from deployments.host.command import Answer
from deployments.host.jobs import FileJob, JobBytes, JobDone, JobEvent, JobProgress, JobStarted
from deployments.video_jobs.commands import (
    AddJob,
    BeatJob,
    CancelJob,
    ClaimJob,
    FinishJob,
    GetJob,
    JobCommand,
    RetryJob,
)
from deployments.video_jobs.errors import JobStoreError
from deployments.video_jobs.job import JobSpec, JobState, VideoJob
from deployments.video_jobs.settings import VideoJobSettings
from deployments.video_jobs.sqlite_store import SqliteJobStore
from deployments.video_jobs.uploads import AUDIO, PORTRAIT, JobUploads
from deployments.video_jobs.worker import JobTools, JobWorker
from kernels.errors import InvalidInputError
from pipeline.config import SessionSettings
from pipeline.media.results.store import ResultsStore
from tests.support.in_process_jobs import ThreadJobs

JOB = "video_0123456789abcdef"
SPEECH = b"speech " * 1000
Generate = Callable[[FileJob], AsyncGenerator[JobEvent, None]]


async def made(job: FileJob) -> AsyncGenerator[JobEvent, None]:
    """A file that is a function of the job, its front last, as the real ones come."""
    body = bytes(job.audio.view) + str((job.avatar_id, job.seed, job.settings.fps)).encode()
    yield JobStarted(job.job_id, job.avatar_id or "a" * 32, 2, job.settings.fps, 64, 64, 0.08)
    yield JobProgress(1, 2)
    yield JobBytes(body[10:], 10)
    yield JobBytes(body[:10], 0)
    yield JobDone(len(body), "none", {}, {})


class Jobs(ThreadJobs):
    """A store that may be away for some calls of a kind, or never answer a kind."""

    def __init__(self, folder: Path) -> None:
        super().__init__(SqliteJobStore(folder / "jobs.sqlite3"))
        self.away: dict[type[object], int] = {}
        self.silent: set[type[object]] = set()
        self.asked: list[JobCommand[object]] = []

    async def handle(self, command: JobCommand[Answer]) -> Answer:
        self.asked.append(command)  # type: ignore[arg-type]  # of any answer
        if type(command) in self.silent:
            await asyncio.Event().wait()
        if self.away.get(type(command), 0) > 0:
            self.away[type(command)] -= 1
            raise JobStoreError("here", "away")
        return await super().handle(command)


class Bench:
    """A worker with all that it needs."""

    def __init__(self, folder: Path, generate: Generate = made, beat_s: float = 5.0, lease_s: float = 30.0) -> None:
        self.jobs = Jobs(folder)
        self.uploads = JobUploads(str(folder / "uploads"))
        self.results = ResultsStore(str(folder / "results"), 2**20, 60.0)
        self.pauses: list[float] = []
        self.sleeping: Callable[[float], None] = lambda seconds: None

        async def register(data: bytes, owner: str) -> str:
            return data.decode() * 32

        async def sleep(seconds: float) -> None:
            self.pauses.append(seconds)
            self.sleeping(seconds)
            await asyncio.sleep(0.01)

        tools = JobTools(generate, register, self.uploads, self.results, SessionSettings())
        settings = VideoJobSettings(beat_s=beat_s, lease_s=lease_s)
        self.worker = JobWorker(self.jobs, tools, settings, "bench", sleep)

    def add(self, portrait: bytes = b"") -> None:
        self.uploads.write(JOB, AUDIO, SPEECH)
        if portrait:
            self.uploads.write(JOB, PORTRAIT, portrait)
        spec = JobSpec(None, bool(portrait), 50.0, 8, seed=7)
        self.jobs.store.handle(AddJob(JOB, "", spec, 600.0))

    def job(self) -> VideoJob:
        return self.jobs.store.handle(GetJob(JOB, None))

    def file(self) -> bytes:
        result = self.job().result
        assert result is not None
        return b"".join(self.results.read(result.result_id, 0, result.size_bytes))

    def kept(self, folder: Path) -> list[str]:
        return sorted(path.suffix for path in (folder / "results").glob("*"))


def work(bench: Bench) -> bool:
    return asyncio.run(bench.worker.work())


def test_a_job_becomes_its_file(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert not work(bench)
    bench.add()
    assert work(bench)
    job = bench.job()
    assert job.state is JobState.COMPLETED and job.result is not None
    assert bench.file() == SPEECH + b"(None, 7, 50.0)"
    assert (job.result.fps, job.result.frames, job.result.avatar_id) == (50.0, 2, "a" * 32)
    assert 500 < job.result.expires_at - job.created_at < 700
    assert bench.uploads.there() == {}, "what came with it is not kept longer than needed"


def test_a_portrait_becomes_the_presenter(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.add(portrait=b"p")
    assert work(bench) and bench.file().endswith(str(("p" * 32, 7, 50.0)).encode())


def failing(*errors: Exception) -> Generate:
    left = list(errors)

    async def generate(job: FileJob) -> AsyncGenerator[JobEvent, None]:
        async for event in made(job):
            yield event
            if left and isinstance(event, JobBytes):
                raise left.pop(0)

    return generate


def test_bad_input_is_told_and_never_tried_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, failing(InvalidInputError("audio", "noise", "speech", "nobody speaks")))
    bench.add()
    assert work(bench)
    job = bench.job()
    assert job.state is JobState.FAILED and job.failure is not None
    assert (job.failure.code, job.failure.field, job.failure.detail) == ("invalid_input", "audio", "nobody speaks")
    assert bench.kept(tmp_path) == [] and list(bench.uploads.there()) == [JOB], "a retry needs the upload"


@pytest.mark.parametrize("error", [StageLostError("renderer", 2), ValueError("unforeseen")])
def test_a_fault_of_ours_leaves_the_job_for_another_attempt(tmp_path: Path, error: Exception) -> None:
    bench = Bench(tmp_path, failing(error))
    bench.add()
    if isinstance(error, ValueError):
        with pytest.raises(ValueError, match="unforeseen"):
            work(bench)
    else:
        assert work(bench)
    job = bench.job()
    assert (job.state, job.attempt) == (JobState.QUEUED, 1) and bench.kept(tmp_path) == []


def test_an_upload_that_is_missing_is_a_fault_of_ours(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.add()
    bench.uploads.remove(JOB)
    assert work(bench) and bench.job().state is JobState.QUEUED


async def endless(job: FileJob) -> AsyncGenerator[JobEvent, None]:
    async for event in made(job):
        yield event
        if isinstance(event, JobProgress):
            await asyncio.Event().wait()


def test_progress_is_told_and_a_cancelled_job_stops(tmp_path: Path) -> None:
    bench = Bench(tmp_path, endless)
    bench.add()

    def sleeping(seconds: float) -> None:
        if len(bench.pauses) == 3:
            assert (bench.job().done, bench.job().total) == (1, 2)
            bench.jobs.store.handle(CancelJob(JOB, None))

    bench.sleeping = sleeping
    assert work(bench)
    assert bench.job().state is JobState.CANCELLED and bench.kept(tmp_path) == []
    assert set(bench.pauses) == {5.0}


def test_an_attempt_stops_before_its_lease_is_over_when_the_store_stays_away(tmp_path: Path) -> None:
    bench = Bench(tmp_path, endless)
    bench.add()
    bench.jobs.away = {BeatJob: 1000}
    assert work(bench)
    assert sum(bench.pauses) < VideoJobSettings().lease_s
    assert bench.job().state is JobState.RUNNING, "its lease runs out, then it is another's"


def test_the_time_that_a_store_takes_not_to_answer_counts(tmp_path: Path) -> None:
    bench = Bench(tmp_path, endless, beat_s=0.1, lease_s=0.45)
    bench.add()
    bench.jobs.silent = {BeatJob}
    assert work(bench)
    assert 1 <= sum(isinstance(one, BeatJob) for one in bench.jobs.asked) <= 2, "each takes 0.2 s"


def test_an_end_is_told_again_when_the_store_comes_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.add()
    bench.jobs.away = {FinishJob: 3}
    assert work(bench)
    assert bench.job().state is JobState.COMPLETED and bench.kept(tmp_path) == [".mp4"]


def test_the_file_of_an_attempt_that_lost_its_job_is_removed(tmp_path: Path) -> None:
    async def late(job: FileJob) -> AsyncGenerator[JobEvent, None]:
        async for event in made(job):
            yield event
        SqliteJobStore(tmp_path / "jobs.sqlite3").handle(CancelJob(JOB, None))

    bench = Bench(tmp_path, late)
    bench.add()
    assert work(bench)
    assert bench.job().state is JobState.CANCELLED and bench.kept(tmp_path) == []


def test_a_worker_that_is_stopped_gives_its_job_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path, endless)
    bench.add()

    async def stopped() -> None:
        task = asyncio.create_task(bench.worker.work())
        while bench.job().state is not JobState.RUNNING or not bench.pauses:  # noqa: ASYNC110  # the store has no events
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(stopped())
    job = bench.job()
    assert (job.state, job.attempt) == (JobState.QUEUED, 1) and bench.kept(tmp_path) == []


def test_a_worker_that_is_stopped_while_it_claims_gives_that_job_back(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.add()

    async def go() -> None:
        answers, handle = asyncio.Event(), bench.jobs.handle

        async def slow(command: Any) -> Any:
            answer = await handle(command)
            if isinstance(command, ClaimJob):
                await answers.wait()
            return answer

        bench.jobs.handle = slow  # type: ignore[method-assign]
        working = asyncio.create_task(bench.worker.work())
        while bench.job().state is not JobState.RUNNING:  # noqa: ASYNC110  # of a store, which has no events
            await asyncio.sleep(0.005)
        working.cancel()
        await asyncio.sleep(0)
        answers.set()
        with pytest.raises(asyncio.CancelledError):
            await working

    asyncio.run(go())
    assert bench.job().state is JobState.QUEUED


def test_the_same_job_gives_the_same_bytes_however_often_it_is_begun(tmp_path: Path) -> None:
    undisturbed, disturbed = Bench(tmp_path / "a"), Bench(tmp_path / "b", failing(StageLostError("renderer", 2)))
    for bench in (undisturbed, disturbed):
        bench.add()
        assert work(bench)
    disturbed.jobs.store.handle(CancelJob(JOB, None))
    disturbed.jobs.store.handle(RetryJob(JOB, None))
    assert work(disturbed)
    assert disturbed.job().attempt == 2 and disturbed.file() == undisturbed.file()
