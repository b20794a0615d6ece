"""The seam between video jobs and where they are kept."""

from __future__ import annotations

from typing import Final, Protocol

from deployments.host.command import Answer
from deployments.video_jobs.commands import JobCommand

MOST_FAILURES: Final = 2
"""Attempts of one job that may fail through a fault of ours."""
MOST_LOST: Final = 5
"""Attempts of one job that may end without a word, as when their process is killed; such a job may be what kills it."""
RETRY_PAUSE_S: Final = 10.0
"""Seconds that a failed job waits before its next attempt."""
MOST_MESSAGES: Final = 20
"""Messages about one job: as often as that it may end, so that stopping and repeating it fills no store."""
KEY_S: Final = 24 * 3600.0
"""Seconds for which an idempotency key is remembered."""


class JobStore(Protocol):
    """Keeps jobs. Each command is one atomic operation that survives the end of any process once it has been answered.

    Every write about an attempt is fenced: it says which attempt it belongs to, and changes nothing once the job is another's.
    """

    def handle(self, command: JobCommand[Answer]) -> Answer:
        """Do what a command asks.

        Raises:
            JobStoreError: The store cannot be used just now.
            LiveAnchorError: As the command says.
        """
        ...


class Jobs(Protocol):
    """The same for code on an event loop, wherever the store is."""

    async def handle(self, command: JobCommand[Answer]) -> Answer:
        """Do what a command asks; errors are those of `JobStore.handle`."""
        ...

    async def wake(self) -> None:
        """Say that a job waits. Workers look by themselves too, so this only makes them sooner, and never fails."""
        ...
