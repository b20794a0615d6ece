"""The processes of a service without Ray: what keeps videos, what makes them, and what takes them in and sends messages.

Everything is real but the pictures: stores, uploads, results, the worker, the HTTP application. A file is a function of speech and
seed.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections.abc import AsyncGenerator
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Final

import structlog
import uvicorn

from deployments.host.command import Answer
from deployments.host.jobs import FileJob, JobBytes, JobDone, JobEvent, JobProgress, JobStarted
from deployments.stores import StoreSettings
from deployments.video_jobs.commands import FinishJob, JobCommand, Standing
from deployments.video_jobs.errors import JobStoreError
from deployments.video_jobs.job import JobResult
from deployments.video_jobs.settings import VideoJobSettings
from deployments.video_jobs.sqlite_store import SqliteJobStore
from deployments.video_jobs.store import JobStore
from deployments.video_jobs.uploads import JobUploads
from deployments.video_jobs.worker import JobTools, JobWorker
from kernels.errors import LiveAnchorError, first_line
from pipeline.config import SessionSettings
from pipeline.fetch.settings import FetchSettings
from pipeline.media.results.store import ResultsStore
from serve_app.http.api import create_api
from serve_app.http.settings import ApiSettings

STEPS: Final = 10
STEP_S: Final = 0.05
PIECE: Final = 40_000
WORKERS: Final = 2
SETTINGS: Final = VideoJobSettings(lease_s=2.0, beat_s=0.1)
_SOCKET: Final = "store.sock"


def file_of(speech: bytes, seed: int) -> bytes:
    """The file that a video becomes."""
    return hashlib.shake_256(speech + str(seed).encode()).digest(STEPS * PIECE)


def results_of(folder: Path) -> ResultsStore:
    """Where finished files are."""
    return ResultsStore(str(folder / "results"), 2**30, 3600.0)


def serve_store(folder: Path) -> None:
    """The process that has the SQLite file open, as the actor on Ray's head node has."""
    store, address = SqliteJobStore(folder / "jobs.sqlite3"), folder / _SOCKET
    address.unlink(missing_ok=True)
    with Listener(str(address), "AF_UNIX", backlog=64) as listener:
        while True:
            threading.Thread(target=_answer, args=(store, listener.accept()), daemon=True).start()


def _answer(store: JobStore, asker: Connection[Any, Any]) -> None:
    with asker:
        command = asker.recv()
        try:
            asker.send((True, store.handle(command)))
        except LiveAnchorError as error:
            asker.send((False, error))


class ServedStore:
    """The store of that process, for all others.

    Args:
        folder: Folder of the service.
    """

    def __init__(self, folder: Path) -> None:
        self._address = str(folder / _SOCKET)

    def handle(self, command: JobCommand[Answer]) -> Answer:
        """Do what a command asks.

        Raises:
            JobStoreError: The process is away, or died on the way.
            LiveAnchorError: As the command says.
        """
        try:
            with Client(self._address, "AF_UNIX") as there:
                there.send(command)
                fine, answer = there.recv()
        except (OSError, EOFError) as error:
            raise JobStoreError("of this benchmark", first_line(error, named=True)) from error
        if not fine:
            raise answer
        found: Answer = answer
        return found


def store_of(folder: Path, redis_url: str) -> JobStore:
    """The store of a service: a Redis server where there is one, else the process that has the file."""
    if not redis_url:
        return ServedStore(folder)
    from deployments.video_jobs.redis_store import RedisJobStore  # its package is an extra

    return RedisJobStore(redis_url)


class ToldJobs:
    """The store, on an event loop. Every end that it has taken is noted in a file that all processes share."""

    def __init__(self, store: JobStore, ends: Path) -> None:
        self._store = store
        self._ends = ends

    async def handle(self, command: JobCommand[Answer]) -> Answer:
        """Do what a command asks; errors are those of the store."""
        answer = await asyncio.to_thread(self._store.handle, command)
        if isinstance(command, FinishJob) and isinstance(command.outcome, JobResult) and answer is Standing.HELD:
            with self._ends.open("a") as ends:
                ends.write(f"{command.job_id} {command.attempt}\n")
        return answer

    async def wake(self) -> None:
        """Do nothing: hosts look by themselves."""
        return


async def generate(job: FileJob) -> AsyncGenerator[JobEvent, None]:
    """Make a file in steps, its front last, as the real ones come."""
    data = file_of(bytes(job.audio.view), job.seed)
    yield JobStarted(job.job_id, "a" * 32, STEPS, 25.0, 64, 64, 0.4)
    for step in range(1, STEPS + 1):
        await asyncio.sleep(STEP_S)
        yield JobProgress(step, STEPS)
        start = (step % STEPS) * PIECE
        yield JobBytes(data[start : start + PIECE], start)
    yield JobDone(len(data), "none", {}, {})


def make_videos(folder: Path, redis_url: str) -> None:
    """A host: two videos at a time."""
    _be_quiet()
    asyncio.run(_make_videos(folder, redis_url))


async def _make_videos(folder: Path, redis_url: str) -> None:
    async def register(data: bytes, owner: str) -> str:
        return "a" * 32

    uploads = JobUploads(str(folder / "uploads"))
    tools = JobTools(generate, register, uploads, results_of(folder), SessionSettings())
    worker = JobWorker(ToldJobs(store_of(folder, redis_url), folder / "ends"), tools, SETTINGS, "process")

    async def go_on() -> None:
        while True:
            try:
                if await worker.work():
                    continue
            except LiveAnchorError:  # the store is away: look again
                pass
            await asyncio.sleep(0.05)

    await asyncio.gather(*(go_on() for _ in range(WORKERS)))


def take_videos(folder: Path, redis_url: str, port: int, receiver_port: int) -> None:
    """The HTTP application, which sends messages as well."""
    _be_quiet()
    settings = ApiSettings(
        stores=StoreSettings(results=str(folder / "results"), uploads=str(folder / "uploads")),
        jobs=SETTINGS,
        fetch=FetchSettings(networks=("127.0.0.1/32",), ports=(receiver_port,)),
    )
    nothing: Any = None  # no request here asks a host or a live session
    api = create_api(nothing, nothing, settings, jobs=ToldJobs(store_of(folder, redis_url), folder / "ends"))
    uvicorn.run(api, port=port, log_level="critical", access_log=False)


def _be_quiet() -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
