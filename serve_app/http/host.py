"""What the HTTP application needs of whoever does the work: `SessionHost` across a cluster, or the same in one process."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from deployments.graph.calls import StageStats
from deployments.host.jobs import FileJob, HostStats, JobEvent, JobProgress
from pipeline.avatars.store import AvatarSummary


class Host(Protocol):
    """Jobs and presenters. Every call may raise LiveAnchorError; a call that is cancelled leaves no work behind."""

    def generate(self, job: FileJob) -> AsyncGenerator[JobEvent, None]:
        """A job's events, in order; closing the iterator cancels the job. A second `JobStarted` voids all that came before it."""
        ...

    async def progress(self, job_id: str) -> JobProgress | None:
        """Pictures done and in all; None for a job that nobody works on."""
        ...

    async def register_avatar(
        self, data: bytes, name: str, rename: bool = True, temporary: bool = False
    ) -> AvatarSummary:
        """Make a presenter of a portrait or a short video; with `rename` False a presenter that has a name keeps it."""
        ...

    async def list_avatars(self) -> list[AvatarSummary]:
        """All presenters that have not expired."""
        ...

    async def get_avatar(self, avatar_id: str) -> AvatarSummary:
        """One presenter; the default presenter for an empty id."""
        ...

    async def avatar_preview(self, avatar_id: str) -> bytes:
        """A JPEG of at most 512 pixels a side."""
        ...

    async def delete_avatar(self, avatar_id: str) -> None:
        """Remove a presenter."""
        ...

    async def make_room(self, unused: list[AvatarSummary]) -> None:
        """Remove temporary presenters, but none that was used since it was listed."""
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
