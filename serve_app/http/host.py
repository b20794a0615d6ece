"""The protocol through which the HTTP application has work done: by `SessionHost` in a cluster, or by the same in one process."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from deployments.graph.calls import StageStats
from deployments.host.avatar_commands import AvatarCommand
from deployments.host.command import Answer
from deployments.host.jobs import FileJob, HostStats, JobEvent, JobProgress
from deployments.host.node_copies import Dropped


class Host(Protocol):
    """Does jobs and keeps presenters. Every call may raise LiveAnchorError; a call that is cancelled leaves no work behind."""

    def generate(self, job: FileJob) -> AsyncGenerator[JobEvent, None]:
        """Run a job and yield its events in order; closing the iterator cancels the job.

        A second `JobStarted` says that the job was started again: everything that came before it is void.
        """
        ...

    async def progress(self, job_id: str) -> JobProgress | None:
        """Tell how many pictures of a job are done; None for a job that no host works on."""
        ...

    async def handle(self, command: AvatarCommand[Answer]) -> Answer:
        """Do what a command asks of the presenters. Raises LiveAnchorError, as the command says."""
        ...

    async def drop_avatars(self, avatar_ids: Sequence[str]) -> Dropped:
        """Drop all copies of presenters, on the disks of all nodes and in the memory of all processes."""
        ...

    async def ready(self) -> None:
        """Return when everything answers, raise NotReadyError otherwise."""
        ...

    async def host_stats(self) -> list[HostStats]:
        """Read the counters of every host."""
        ...

    async def stage_stats(self) -> list[StageStats]:
        """Read the counters of every replica of every stage."""
        ...
