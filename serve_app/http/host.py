"""What the HTTP application needs of whoever does the work: `SessionHost` across a cluster, or the same in one process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from deployments.graph.calls import StageStats
from deployments.host.avatar_commands import AvatarCommand
from deployments.host.command import Answer
from deployments.host.jobs import FileJob, HostStats, JobEvent, JobProgress


class Host(Protocol):
    """Jobs and presenters. Every call may raise LiveAnchorError; a call that is cancelled leaves no work behind."""

    def generate(self, job: FileJob) -> AsyncGenerator[JobEvent, None]:
        """A job's events, in order; closing the iterator cancels the job. A second `JobStarted` voids all that came before it."""
        ...

    async def progress(self, job_id: str) -> JobProgress | None:
        """Pictures done and in all; None for a job that nobody works on."""
        ...

    async def handle(self, command: AvatarCommand[Answer]) -> Answer:
        """Do what a command asks of the presenters. Raises LiveAnchorError, as the command says."""
        ...

    async def ready(self) -> None:
        """Return when everything answers, raise NotReadyError otherwise."""
        ...

    async def host_stats(self) -> list[HostStats]:
        """Counters of every host."""
        ...

    async def stage_stats(self) -> list[StageStats]:
        """Counters of every replica of every stage."""
        ...
