"""The part of a host that looks for videos, and its bound on those that it makes."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from ray.exceptions import RaySystemError

from deployments.graph.errors import NotReadyError
from deployments.host import job_runner
from deployments.host.command import Answer
from deployments.host.job_runner import NOTE_S, TIDY_S, UPLOAD_AGE_S, JobRunner
from deployments.video_jobs.commands import AddJob, CancelJob, ClaimJob, CountJobs, FinishJob, JobCommand, QueueFacts
from deployments.video_jobs.errors import JobStoreError
from deployments.video_jobs.job import JobResult, JobSpec, JobState
from deployments.video_jobs.settings import VideoJobSettings
from deployments.video_jobs.sqlite_store import SqliteJobStore
from deployments.video_jobs.uploads import AUDIO, JobUploads
from deployments.video_jobs.worker import JobTools, JobWorker
from pipeline.config import SessionSettings
from pipeline.media.results.store import ResultsStore
from tests.support.in_process_jobs import ThreadJobs
from tests.support.manual_clock import ManualClock

RESULT = JobResult("r" * 32, 5000.0, 1, "a" * 32, 1, 25.0, 64, 64, 0.04)


class Worker:
    """Claims and finishes; holds a job back while `held` is not set."""

    def __init__(self, jobs: ThreadJobs) -> None:
        self.jobs = jobs
        self.held = asyncio.Event()
        self.at_once = self.most = 0

    async def work(self) -> bool:
        job = await self.jobs.handle(ClaimJob("w", 30.0))
        if job is None:
            return False
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        await self.held.wait()
        self.at_once -= 1
        await self.jobs.handle(FinishJob(job.job_id, job.attempt, RESULT))
        return True


class Host:
    """A runner whose calls come back to itself, or fail."""

    def __init__(self, folder: Path, room: Callable[[], bool] = lambda: True) -> None:
        self.jobs = ThreadJobs(SqliteJobStore(folder / "jobs.sqlite3"))
        self.worker: Any = Worker(self.jobs)
        self.uploads = JobUploads(str(folder / "uploads"))
        self.clock = ManualClock()
        self.errors: list[Exception] = []
        self.calls = 0
        self.runner = JobRunner(self.jobs, self.worker, self.uploads, VideoJobSettings(), room, self._call, self.clock)

    async def _call(self) -> bool:
        self.calls += 1
        if self.errors:
            raise self.errors.pop()
        return await self.runner.work()

    def add(self, count: int) -> None:
        for number in range(count):
            self.jobs.store.handle(AddJob(f"video_{number:02x}", "", JobSpec(None, False, 25.0, 8), 60.0))

    def states(self) -> dict[JobState, int]:
        return self.jobs.store.handle(CountJobs())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110  # of a store, which has no events
            await asyncio.sleep(0.005)


def running(host: Host, then: Callable[[], Awaitable[None]]) -> None:
    async def go() -> None:
        host.worker.held = asyncio.Event()
        task = asyncio.create_task(host.runner.run())
        try:
            await then()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(go())


def test_all_that_waits_is_made_no_more_than_so_many_at_once(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.add(7)

    async def then() -> None:
        await until(lambda: host.worker.at_once == VideoJobSettings().per_host)
        host.worker.held.set()
        await until(lambda: host.states() == {JobState.COMPLETED: 7})

    running(host, then)
    assert host.worker.most == VideoJobSettings().per_host


def test_a_host_without_room_takes_none(tmp_path: Path) -> None:
    room = [False]
    host = Host(tmp_path, lambda: room[0])
    host.add(1)

    async def then() -> None:
        host.worker.held.set()
        await until(lambda: host.calls > 0)
        assert host.states() == {JobState.QUEUED: 1}
        room[0] = True
        host.runner.wake()
        await until(lambda: host.states() == {JobState.COMPLETED: 1})

    running(host, then)


def test_a_call_that_fails_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_runner, "LOOK_S", 0.01)
    host = Host(tmp_path)
    host.errors = [NotReadyError("no host runs"), NotReadyError("no host runs")]
    host.add(1)

    async def then() -> None:
        host.worker.held.set()
        await until(lambda: host.states() == {JobState.COMPLETED: 1})

    running(host, then)
    assert host.calls >= 3


def test_a_look_that_fails_is_not_the_last_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_runner, "LOOK_S", 0.01)
    host = Host(tmp_path)
    host.add(1)
    errors: list[Exception] = [JobStoreError("here", "away"), RaySystemError("the head node restarts"), KeyError("odd")]
    handle = host.jobs.handle

    async def failing(command: JobCommand[Answer]) -> Answer:
        if errors:
            raise errors.pop()
        return await handle(command)

    monkeypatch.setattr(host.jobs, "handle", failing)

    async def then() -> None:
        host.worker.held.set()
        await until(lambda: host.states() == {JobState.COMPLETED: 1})

    running(host, then)
    assert not errors


def test_forgotten_uploads_go(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.uploads = host.runner._uploads = JobUploads(str(tmp_path / "uploads"), lambda: 4e9)
    host.add(1)
    for job_id in ("video_00", "video_ff"):
        host.uploads.write(job_id, AUDIO, b"speech")
    assert all(one.age_s > UPLOAD_AGE_S for one in host.uploads.there().values()) and len(host.uploads.there()) == 2

    async def then() -> None:
        host.clock.now += TIDY_S
        host.runner.wake()
        await until(lambda: list(host.uploads.there()) == ["video_00"])

    running(host, then)


def test_what_failed_videos_keep_is_bounded(tmp_path: Path) -> None:
    host = Host(tmp_path, lambda: False)
    host.runner._settings = VideoJobSettings(max_kept_upload_bytes=250)
    host.add(5)
    for number in (0, 2, 1, 3):  # in the order in which they end; the last one waits
        host.uploads.write(f"video_{number:02x}", AUDIO, bytes(100))
        host.jobs.store.handle(CancelJob(f"video_{number:02x}", None))
    host.uploads.write("video_04", AUDIO, bytes(1000))
    host.uploads.write("video_ff", AUDIO, bytes(1000))  # of a request that is just being taken in

    async def then() -> None:
        host.clock.now += TIDY_S
        host.runner.wake()
        await until(lambda: len(host.uploads.there()) == 4)

    running(host, then)
    assert set(host.uploads.there()) == {"video_01", "video_03", "video_04", "video_ff"}


def test_a_host_that_rests_begins_nothing_and_lets_what_it_makes_finish(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.add(VideoJobSettings().per_host + 1)

    async def then() -> None:
        await until(lambda: host.worker.at_once == VideoJobSettings().per_host)
        host.runner.rest()
        host.worker.held.set()
        await until(lambda: host.states() == {JobState.COMPLETED: VideoJobSettings().per_host, JobState.QUEUED: 1})
        assert not await host.runner.work()

    running(host, then)
    assert host.states()[JobState.QUEUED] == 1


def test_what_does_not_finish_is_given_back_and_costs_no_attempt(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.add(1)
    folder = tmp_path / "results"

    async def never(job: Any) -> Any:
        await asyncio.Event().wait()
        yield job

    async def register(data: bytes, owner: str) -> str:
        raise AssertionError("no portrait came")

    results = ResultsStore(str(folder), 2**20, 60.0)
    tools = JobTools(never, register, host.uploads, results, SessionSettings())  # type: ignore[arg-type]
    host.uploads.write("video_00", AUDIO, b"speech")
    host.worker.work = JobWorker(host.jobs, tools, VideoJobSettings(), "w").work

    async def then() -> None:
        await until(lambda: host.states() == {JobState.RUNNING: 1})
        host.runner.rest()
        await host.runner.give_back()
        assert host.states() == {JobState.QUEUED: 1}

    running(host, then)
    again = host.jobs.store.handle(ClaimJob("another", 30.0))
    assert again is not None and again.job_id == "video_00"
    with sqlite3.connect(tmp_path / "jobs.sqlite3") as database:
        assert database.execute("SELECT failures, lost FROM jobs").fetchall() == [(0, 0)]
    assert host.uploads.has("video_00", AUDIO) and not list(folder.glob("*.mp4"))


def test_the_queue_s_length_and_age_are_told_now_and_then(tmp_path: Path) -> None:
    host = Host(tmp_path, lambda: False)
    host.add(3)
    noted: list[QueueFacts] = []
    runner = JobRunner(
        host.jobs,
        host.worker,
        host.uploads,
        VideoJobSettings(),
        lambda: False,
        host.runner.work,
        host.clock,
        noted.append,
    )

    async def looks() -> None:
        for _ in range(3):
            await runner._look()
        host.clock.now += NOTE_S
        await runner._look()

    asyncio.run(looks())
    assert [(one.waiting, one.running, one.messages) for one in noted] == [(3, 0, 0)] * 2
