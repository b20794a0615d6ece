"""`Host` over the handle of the deployment `SessionHost`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

import ray
from ray.serve.handle import DeploymentHandle

from deployments.graph.calls import StageStats
from deployments.graph.errors import (
    DeadlineExceededError,
    NotReadyError,
    ReplicaGoneError,
    StageLostError,
    StageOverloadedError,
)
from deployments.graph.handle_calls import answer_of, answers_of_all, give_up, translated
from deployments.host.avatar_commands import AvatarCommand
from deployments.host.command import Answer
from deployments.host.jobs import FileJob, HostStats, JobBytes, JobEvent, JobProgress

STAGE: Final = "session_host"
READY_S: Final = 5.0


class RayHost:
    """Implements `serve_app.http.host.Host`: errors come out of Ray's wrappers, work is cancelled when nobody waits.

    Args:
        handle: Of `SessionHost`.
        put: Puts a job where both attempts find it, so that this process need not hold the upload.
    """

    def __init__(self, handle: DeploymentHandle[Any], put: Callable[[FileJob], object] = ray.put) -> None:
        self._handle = handle
        self._put = put

    async def generate(self, job: FileJob) -> AsyncGenerator[JobEvent, None]:
        """All events of a job, in order.

        A job whose host replica dies is started once more on another replica; it is a function of its inputs, so nobody can tell.
        A second `JobStarted` says so: pieces of a finished file that came before it are void. A streamed file is started again
        only while no byte of it was handed on. Leaving the iterator early cancels the job.

        Raises:
            StageLostError: The host replica died, twice or after bytes of a streamed file were handed on.
            StageOverloadedError: All hosts are full.
            NotReadyError: No host runs.
            LiveAnchorError: What the job answered.
        """
        method: Any = self._handle.options(method_name="generate_stream", stream=True)
        handed_on = False
        stored = await asyncio.to_thread(self._put, job)
        job.audio.release()
        for attempt in (1, 2):
            events = method.remote(stored)
            try:
                with translated(STAGE, attempt=attempt):
                    async for event in events:
                        handed_on = handed_on or (job.stream and isinstance(event, JobBytes))
                        yield event
                return
            except ReplicaGoneError:
                if attempt == 2 or handed_on:
                    raise
            finally:
                give_up(events)

    async def progress(self, job_id: str) -> JobProgress | None:
        """See `Host`."""
        try:
            stats = await self._host_stats()
        except DeadlineExceededError as error:
            raise NotReadyError("a session host does not answer") from error
        return next((one.active_jobs[job_id] for one in stats if job_id in one.active_jobs), None)

    async def handle(self, command: AvatarCommand[Answer]) -> Answer:
        """Hand a command to any host."""
        answer: Answer = await self._call("handle", command)
        return answer

    async def ready(self) -> None:
        """See `Host`."""
        try:
            async with asyncio.timeout(READY_S):
                await self._call("ready")
        except (TimeoutError, StageLostError) as error:
            raise NotReadyError("the session host or a stage does not answer yet") from error

    async def host_stats(self) -> list[HostStats]:
        """Counters of every host replica; those that drain or die are left out, and all where one does not answer in time."""
        try:
            return await self._host_stats()
        except (DeadlineExceededError, NotReadyError):
            return []

    async def stage_stats(self) -> list[StageStats]:
        """See `Host`; none where no host answers."""
        try:
            async with asyncio.timeout(READY_S):
                found: list[StageStats] = await self._call("stage_stats")
        except (TimeoutError, StageLostError, StageOverloadedError, NotReadyError):
            return []
        return found

    async def _host_stats(self) -> list[HostStats]:
        found: list[HostStats] = await answers_of_all(STAGE, self._handle, "stats", READY_S)
        return found

    async def _call(self, name: str, *args: object) -> Any:
        method: Any = self._handle.options(method_name=name)
        return await answer_of(STAGE, method.remote(*args))
