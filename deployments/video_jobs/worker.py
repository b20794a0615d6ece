"""Brings one video job at a time from its claim to its end, whatever happens on the way. No Ray."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

import structlog

from deployments.graph.errors import plain
from deployments.graph.payload import Payload
from deployments.host.finished_file import finished_file
from deployments.host.jobs import PIECE_BYTES, FileJob, JobEvent, JobProgress
from deployments.video_jobs.commands import BeatJob, ClaimJob, Failed, FinishJob, GivenBack, Outcome, Standing
from deployments.video_jobs.job import JobFailure, JobResult, VideoJob
from deployments.video_jobs.settings import VideoJobSettings
from deployments.video_jobs.store import Jobs
from deployments.video_jobs.uploads import AUDIO, PORTRAIT, JobUploads
from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.config import SessionSettings
from pipeline.expression.words import TIMELINE, read_looks
from pipeline.media.file_buffer import leaving
from pipeline.media.results.store import ResultsStore, keep
from pipeline.voices.captions import webvtt

FINISH_PAUSE_S = 1.0
"""Seconds between attempts to tell a store that does not answer how a job ended."""


@dataclass(frozen=True)
class JobTools:
    """What making a job takes.

    Attributes:
        generate: Makes a file, the way that `POST /generate` does.
        register: Makes a temporary presenter of a portrait for an owner and answers its id.
        uploads: What came with the jobs.
        results: Where finished files go.
        session: Settings of a session; a job says its own frame rate and chunks.
    """

    generate: Callable[[FileJob], AsyncGenerator[JobEvent, None]]
    register: Callable[[bytes, str], Awaitable[str]]
    uploads: JobUploads
    results: ResultsStore
    session: SessionSettings


class JobWorker:
    """Makes jobs of a store. It belongs to one event loop; several calls of `work` may run at once.

    Args:
        jobs: The store.
        tools: What making a job takes.
        settings: Lease and beat.
        name: Name of this worker, for people.
        sleep: Waits so many seconds.
    """

    def __init__(
        self,
        jobs: Jobs,
        tools: JobTools,
        settings: VideoJobSettings,
        name: str,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._jobs = jobs
        self._tools = tools
        self._settings = settings
        self._name = name
        self._sleep = sleep
        self._log = structlog.get_logger("liveanchor.jobs")

    async def work(self) -> bool:
        """Claim a job and bring it to its end.

        Returns:
            Whether there was one.

        Raises:
            LiveAnchorError: The store cannot be used.
        """
        job = await self._claimed()
        if job is None:
            return False
        attempt = _Attempt(job)
        making = asyncio.create_task(self._outcome(attempt), name=f"make-{job.job_id}")
        beating = asyncio.create_task(self._beat(attempt), name=f"beat-{job.job_id}")
        try:
            await asyncio.wait((making, beating), return_when=asyncio.FIRST_COMPLETED)
            if not making.done():
                self._log.info("attempt_stopped", job_id=job.job_id, attempt=job.attempt, why=beating.result())
                return True
            await self._finish(job, await self._ended(job, making))
        except asyncio.CancelledError:
            making.cancel()
            await asyncio.gather(making, return_exceptions=True)
            await asyncio.shield(asyncio.create_task(self._finish(job, GivenBack(), last_try=True)))
            raise
        finally:
            making.cancel()
            beating.cancel()
            await asyncio.gather(making, beating, return_exceptions=True)
        return True

    async def _claimed(self) -> VideoJob | None:
        """Claim a job; one that comes after all when this was cancelled is given back."""
        claiming = asyncio.create_task(self._jobs.handle(ClaimJob(self._name, self._settings.lease_s)))
        try:
            return await asyncio.shield(claiming)
        except asyncio.CancelledError:
            [job] = await asyncio.gather(claiming, return_exceptions=True)
            if isinstance(job, VideoJob):
                await self._finish(job, GivenBack(), last_try=True)
            raise

    async def _ended(self, job: VideoJob, making: asyncio.Task[Outcome]) -> Outcome:
        """How the work ended. What was not foreseen is told to the store like any other fault, and then to the caller."""
        try:
            return making.result()
        except Exception as error:
            unforeseen = JobFailure("internal_error", type(error).__name__)
            await self._finish(job, Failed(unforeseen, again=True))
            raise

    async def _outcome(self, attempt: _Attempt) -> Outcome:
        """Make the file; errors of ours become part of the outcome."""
        try:
            return await self._make(attempt)
        except LiveAnchorError as raised:
            error = plain(raised)
        if isinstance(error, InvalidInputError):
            failure = JobFailure(error.code, error.detail, error.field, error.got, error.allowed)
            return Failed(failure, again=False)
        self._log.warning("attempt_failed", job_id=attempt.job.job_id, code=error.code, reason=str(error))
        return Failed(JobFailure(error.code, str(error)), again=True)

    async def _make(self, attempt: _Attempt) -> JobResult:
        job, tools = attempt.job, self._tools
        audio = b"" if job.spec.prompt else await asyncio.to_thread(tools.uploads.read, job.job_id, AUDIO)
        avatar_id = job.spec.avatar_id
        if job.spec.has_portrait:
            portrait = await asyncio.to_thread(tools.uploads.read, job.job_id, PORTRAIT)
            avatar_id = await tools.register(portrait, job.owner)
        session = tools.session.model_copy(update={"fps": job.spec.fps, "chunk_frames": job.spec.chunk_frames})
        file_job = FileJob(
            job.job_id,
            Payload(audio),
            avatar_id,
            session,
            seed=job.spec.seed,
            stream=job.spec.stream,
            normalise=job.spec.normalise,
            prompt=job.spec.prompt,
            looks=read_looks({TIMELINE: job.spec.looks}),
        )
        del audio  # nothing but the job holds the upload from here on
        made = await finished_file(tools.generate(file_job), attempt.note)
        facts, pieces = made.facts, leaving(made.file, PIECE_BYTES)
        stored = await keep(tools.results, pieces, job.keep_s, avatar_id=facts.avatar_id, owner=job.owner)
        return JobResult(
            result_id=stored.result_id,
            expires_at=stored.expires_at,
            size_bytes=stored.size,
            avatar_id=facts.avatar_id,
            frames=facts.frames,
            fps=facts.fps,
            width=facts.width,
            height=facts.height,
            duration_s=facts.duration_s,
            captions=webvtt(facts.cues) if facts.cues else "",
        )

    async def _beat(self, attempt: _Attempt) -> Standing:
        """Renew the lease; return once the job is not this attempt's any more, or may be another's."""
        job, settings = attempt.job, self._settings
        clock, silent_s = asyncio.get_running_loop().time, 0.0
        while silent_s + settings.beat_s < settings.lease_s:
            await self._sleep(settings.beat_s)
            asked_at = clock()
            command = BeatJob(job.job_id, job.attempt, settings.lease_s, attempt.progress.done, attempt.progress.total)
            try:
                async with asyncio.timeout(settings.beat_s):
                    standing = await self._jobs.handle(command)
            except (LiveAnchorError, TimeoutError):
                silent_s += settings.beat_s + clock() - asked_at
                continue
            if standing is not Standing.HELD:
                return standing
            silent_s = 0.0
        return Standing.LOST

    async def _finish(self, job: VideoJob, outcome: Outcome, last_try: bool = False) -> None:
        """Tell the store how an attempt ended, for as long as its lease may hold, and tidy behind it."""
        left_s = 0.0 if last_try else self._settings.lease_s
        while True:
            try:
                standing = await self._jobs.handle(FinishJob(job.job_id, job.attempt, outcome))
                break
            except LiveAnchorError as error:
                if left_s <= 0:  # whether it was written is not known: a file that no job names goes when it expires
                    self._log.warning("outcome_not_told", job_id=job.job_id, code=error.code, reason=str(error))
                    return
            await self._sleep(FINISH_PAUSE_S)
            left_s -= FINISH_PAUSE_S
        if not isinstance(outcome, JobResult):
            return
        try:
            if standing is Standing.HELD:
                await asyncio.to_thread(self._tools.uploads.remove, job.job_id)
            else:
                await asyncio.to_thread(self._tools.results.discard, outcome.result_id)
        except LiveAnchorError as error:  # both go by themselves some time later
            self._log.warning("not_tidied", job_id=job.job_id, code=error.code, reason=str(error))


class _Attempt:
    """One attempt, and how far it is."""

    def __init__(self, job: VideoJob) -> None:
        self.job = job
        self.progress = JobProgress(0, 0)

    def note(self, progress: JobProgress) -> None:
        self.progress = progress
