"""`Host` over a cluster: every call goes to a replica of the deployment `SessionHost`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
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
from deployments.host.avatar_commands import AvatarCommand, Left
from deployments.host.command import Answer
from deployments.host.jobs import FileJob, HostStats, JobBytes, JobEvent, JobProgress
from deployments.host.node_copies import DROP_S, Dropped, drop_on_nodes

STAGE: Final = "session_host"
READY_S: Final = 5.0


class RayHost:
    """Implements `serve_app.http.host.Host`: unwraps Ray's errors, and cancels work that no caller waits for.

    Args:
        handle: Handle of the deployment `SessionHost`.
        put: Puts a job where both attempts find it, so that this process need not hold the upload.
        avatars_uri: Place of the presenters.
    """

    def __init__(
        self, handle: DeploymentHandle[Any], put: Callable[[FileJob], object] = ray.put, *, avatars_uri: str = ""
    ) -> None:
        self._handle = handle
        self._avatars_uri = avatars_uri
        self._put = put

    async def generate(self, job: FileJob) -> AsyncGenerator[JobEvent, None]:
        """Run a job and yield its events in order.

        A job whose host replica dies is started once more on another replica. A job is a function of its inputs, so the file is
        the same. A second `JobStarted` says that it was started again: pieces of a finished file that came before it are void. A
        streamed file is started again only while no byte of it was handed on. Leaving the iterator early cancels the job.

        Raises:
            StageLostError: The host replica died, twice or after bytes of a streamed file were handed on.
            StageOverloadedError: All hosts are full.
            NotReadyError: No host runs.
            LiveAnchorError: The job failed with this error.
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
        """Ask all hosts how many pictures of a job are done; None for a job that no host works on.

        Raises:
            NotReadyError: A host does not answer, so nothing is known.
        """
        try:
            stats = await self._host_stats()
        except DeadlineExceededError as error:
            raise NotReadyError("a session host does not answer") from error
        return next((one.active_jobs[job_id] for one in stats if job_id in one.active_jobs), None)

    async def handle(self, command: AvatarCommand[Answer]) -> Answer:
        """Hand a command to any host; errors are those of the command."""
        answer: Answer = await self._call("handle", command)
        return answer

    async def drop_avatars(self, avatar_ids: Sequence[str]) -> Dropped:
        """Implement `Host`: disks first, since a process that is asked for the avatar meanwhile may read it there.

        Hosts that drain are not asked; what they keep ends with them.
        """
        ids = list(avatar_ids)
        disks = await drop_on_nodes(self._avatars_uri, ids)
        hosts, left = [], list(disks.left)
        try:
            hosts = await answers_of_all(STAGE, self._handle, "drop_avatars", DROP_S, ids)
        except (DeadlineExceededError, NotReadyError) as error:
            left.append(Left("copies", STAGE, str(error)))
        stages: Dropped = await self._call("drop_in_stages", ids)
        return Dropped((*disks.places, *hosts, *stages.places), (*left, *stages.left))

    async def ready(self) -> None:
        """Return when a host and its stages answer, raise NotReadyError otherwise."""
        try:
            async with asyncio.timeout(READY_S):
                await self._call("ready")
        except (TimeoutError, StageLostError) as error:
            raise NotReadyError("the session host or a stage does not answer yet") from error

    async def host_stats(self) -> list[HostStats]:
        """Read the counters of every host that takes new work; the list is empty where one does not answer in time."""
        try:
            return await self._host_stats()
        except (DeadlineExceededError, NotReadyError):
            return []

    async def stage_stats(self) -> list[StageStats]:
        """Read the counters of every replica of every stage; the list is empty where no host answers."""
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
