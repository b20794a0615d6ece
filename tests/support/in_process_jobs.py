"""Video jobs without Ray: the store in a file, and one worker in the process of the HTTP application."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from deployments.host.avatar_commands import RegisterAvatar
from deployments.host.command import Answer
from deployments.video_jobs.commands import JobCommand
from deployments.video_jobs.errors import JobStoreError
from deployments.video_jobs.sqlite_store import SqliteJobStore
from deployments.video_jobs.store import JobStore
from deployments.video_jobs.uploads import JobUploads
from deployments.video_jobs.worker import JobTools, JobWorker
from pipeline.media.results.store import ResultsStore
from serve_app.http.host import Host
from serve_app.http.settings import ApiSettings


class ThreadJobs:
    """Implements `deployments.video_jobs.store.Jobs`: a store in this process, used in threads."""

    def __init__(self, store: JobStore) -> None:
        self.store = store

    async def handle(self, command: JobCommand[Answer]) -> Answer:
        return await asyncio.to_thread(self.store.handle, command)

    async def wake(self) -> None:
        return


class InProcessJobs(ThreadJobs):
    """Adds the worker.

    Attributes:
        resting: Nothing is begun while it is true.
    """

    def __init__(
        self, folder: Path, host: Host, settings: ApiSettings, wall_clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(SqliteJobStore(folder / "jobs.sqlite3", wall_clock))
        stores = settings.stores

        async def register(data: bytes, owner: str) -> str:
            return (await host.handle(RegisterAvatar(data, "", False, temporary=True, owner=owner))).avatar_id

        tools = JobTools(
            host.generate,
            register,
            JobUploads(stores.uploads, wall_clock),
            ResultsStore(stores.results, stores.results_max_bytes, stores.results_ttl_s, wall_clock),
            settings.session,
        )
        self.worker = JobWorker(self, tools, settings.jobs, "in-process")
        self.resting = False
        self._tasks: set[asyncio.Task[None]] = set()

    async def wake(self) -> None:
        task = asyncio.create_task(self._work())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        with suppress(JobStoreError):
            while not self.resting and await self.worker.work():
                pass

    def close(self) -> None:
        assert isinstance(self.store, SqliteJobStore)
        self.store.close()
