"""Has video jobs made: each is one call to a host that Ray Serve chooses, so it scales, queues and drains like any other call."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import structlog
from ray.exceptions import RayError
from ray.serve.exceptions import RayServeException

from deployments.video_jobs.commands import CountReady, FindFailed, PurgeJobs, QueueFacts, ReadQueue
from deployments.video_jobs.settings import VideoJobSettings
from deployments.video_jobs.store import Jobs
from deployments.video_jobs.uploads import JobUploads
from deployments.video_jobs.worker import JobWorker
from kernels.errors import LiveAnchorError, first_line

LOOK_S: Final = 2.0
"""Seconds between looks for jobs that wait; a new job, or one that ended, makes the next look sooner."""
NOTE_S: Final = 10.0
"""Seconds between two notes of the queue's length and age, which metrics show."""
TIDY_S: Final = 600.0
UPLOAD_AGE_S: Final = 3600.0
"""Seconds after which an upload counts as forgotten where no job has its id."""


class JobRunner:
    """The part of one host that looks for video jobs, and the part that makes them.

    They are two because a host that drains still looks, but Ray Serve gives it no more calls: what it finds, another host makes.

    Args:
        jobs: The store.
        worker: Makes one job.
        uploads: What came with the jobs.
        settings: Settings of video jobs.
        has_room: Says whether live sessions here leave room for other work.
        call: Calls `work` of any host, this one included.
        clock: Gives monotonic seconds.
        note: Told from time to time how long the queue is, and how old.
    """

    def __init__(
        self,
        jobs: Jobs,
        worker: JobWorker,
        uploads: JobUploads,
        settings: VideoJobSettings,
        has_room: Callable[[], bool],
        call: Callable[[], Awaitable[bool]],
        clock: Callable[[], float] = time.monotonic,
        note: Callable[[QueueFacts], None] = lambda facts: None,
    ) -> None:
        self._note = note
        self._jobs = jobs
        self._worker = worker
        self._uploads = uploads
        self._settings = settings
        self._has_room = has_room
        self._call = call
        self._clock = clock
        self._working: set[asyncio.Task[bool]] = set()
        self._resting = False
        self._calls: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self._tidied_at = clock()
        self._noted_at = -math.inf
        self._log = structlog.get_logger("liveanchor.jobs")

    async def work(self) -> bool:
        """Make one job, where there is one and room for it; answers whether there was.

        Raises:
            LiveAnchorError: The store cannot be used.
        """
        if self._resting or len(self._working) >= self._settings.per_host or not self._has_room():
            return False
        working = asyncio.create_task(self._worker.work(), name="video-job")
        self._working.add(working)
        try:
            await asyncio.wait((working,))
        except asyncio.CancelledError:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            raise
        finally:
            self._working.discard(working)
        return False if working.cancelled() else working.result()

    def rest(self) -> None:
        """Begin no more jobs; those that are being made go on."""
        self._resting = True

    def count(self) -> int:
        """Number of jobs that are being made here."""
        return len(self._working)

    async def give_back(self) -> None:
        """Give the jobs that are being made back to the queue, and return when the store knows."""
        working = tuple(self._working)
        for one in working:
            one.cancel()
        await asyncio.gather(*working, return_exceptions=True)

    def wake(self) -> None:
        """Look for jobs now."""
        self._woken.set()

    async def run(self) -> None:
        """Look for jobs, for as long as this process lives."""
        while True:
            [fault] = await asyncio.gather(self._look(), return_exceptions=True)
            if fault is not None:  # of any kind: the next look tries again
                self._log.warning("jobs_not_seen", reason=first_line(fault, named=True))
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._woken.wait()
            self._woken.clear()

    async def _look(self) -> None:
        free = self._settings.per_host - len(self._calls)
        if free > 0 and not self._resting:
            for _ in range(min(free, await self._jobs.handle(CountReady()))):
                calling = asyncio.create_task(self._have_one_made())
                self._calls.add(calling)
                calling.add_done_callback(self._calls.discard)
        if self._clock() - self._noted_at >= NOTE_S:
            self._noted_at = self._clock()
            self._note(await self._jobs.handle(ReadQueue()))
        if self._clock() - self._tidied_at >= TIDY_S:
            self._tidied_at = self._clock()
            await self._tidy()

    async def _have_one_made(self) -> None:
        try:
            if await self._call():
                self._woken.set()  # there may be another one
        except (LiveAnchorError, RayError, RayServeException) as error:  # the next look tries again
            self._log.warning("job_not_made", reason=first_line(error, named=True))

    async def _tidy(self) -> None:
        there = await asyncio.to_thread(self._uploads.there)
        old = tuple(job_id for job_id, one in there.items() if one.age_s > UPLOAD_AGE_S)
        spare = await self._jobs.handle(PurgeJobs(self._settings.remember_s, old))
        kept = {job_id: one for job_id, one in there.items() if job_id not in spare}
        failed = await self._jobs.handle(FindFailed(tuple(kept)))
        left = sum(kept[job_id].size_bytes for job_id in failed)
        for job_id in failed:
            if left <= self._settings.max_kept_upload_bytes:
                break
            left -= kept[job_id].size_bytes
            spare = (*spare, job_id)
        for job_id in spare:
            await asyncio.to_thread(self._uploads.remove, job_id)
