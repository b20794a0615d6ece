"""`Jobs` over a cluster: the store is a named actor or a Redis server, and a host is told when a job waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException

from deployments.graph.errors import ReplicaGoneError
from deployments.graph.handle_calls import translated
from deployments.host.app_actors import video_jobs_of
from deployments.host.command import Answer
from deployments.video_jobs.commands import JobCommand
from deployments.video_jobs.errors import JobStoreError
from deployments.video_jobs.store import JobStore
from kernels.errors import LiveAnchorError, first_line

STORE: Final = "video_jobs"
"""Name of the actor in errors."""


class RayJobs:
    """Implements `deployments.video_jobs.store.Jobs`.

    Args:
        app: Name of the application.
        url: Address of a Redis server; empty for the file on the head node.
        wake: Tells any host that a job waits, and answers soon.
    """

    def __init__(self, app: str, url: str, wake: Callable[[], Awaitable[object]]) -> None:
        self._app = app
        self._redis = _redis_at(url) if url else None
        self._wake = wake
        self._actor: Any = None
        self._telling: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger("liveanchor.jobs")

    async def handle(self, command: JobCommand[Answer]) -> Answer:
        """Do what a command asks.

        Raises:
            JobStoreError: The actor or the server is away, or takes nothing in.
            LiveAnchorError: As the command says.
        """
        if self._redis is not None:
            return await asyncio.to_thread(self._redis.handle, command)
        try:
            with translated(STORE):
                self._actor = self._actor or video_jobs_of(self._app)
                answer: Answer = await self._actor.handle.remote(command)
        except ReplicaGoneError as error:
            self._actor = None
            raise JobStoreError("of this service", "its process died and is started again") from error
        return answer

    async def wake(self) -> None:
        """Say that a job waits, without waiting for the host to hear it."""
        telling = asyncio.create_task(self._tell())
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _tell(self) -> None:
        try:
            await self._wake()
        except (LiveAnchorError, RayError, RayServeException) as error:  # hosts look by themselves, too
            self._log.info("host_not_told", reason=first_line(error, named=True))


def _redis_at(url: str) -> JobStore:
    from deployments.video_jobs.redis_store import RedisJobStore  # its package is an extra

    return RedisJobStore(url)
