"""The file jobs of one host: each runs over the graph's stages, is counted, and is cancelled with its caller."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from ray.serve import metrics

from deployments.config import SessionHostSettings
from deployments.graph.stage_facts import StageFacts
from deployments.graph.stage_worker import replica_id
from deployments.graph.stages import GraphStages, StageHandles
from deployments.host.file_job import prepare_job, run_job, with_speech
from deployments.host.hosted_avatars import HostedAvatars
from deployments.host.jobs import FileJob, HostStats, JobDone, JobEvent, JobProgress
from deployments.host.own_pictures import HostedOwnPictures
from pipeline.media.signing import signer_of
from pipeline.stage_meter import StageMeter
from pipeline.voices.voice import Voice


class FileJobs:
    """Runs and counts the file jobs of one host. It belongs to one event loop.

    Args:
        handles: Handles of the stage deployments.
        facts: Facts about the stages: what sessions must know of them, and which frame rates they can make.
        avatars: The avatars that may speak.
        voice: Speaks the text of jobs that bring no audio.
        settings: Settings of the session host.
        clock: Gives monotonic seconds.
    """

    def __init__(
        self,
        handles: StageHandles,
        facts: StageFacts,
        avatars: HostedAvatars,
        voice: Voice,
        settings: SessionHostSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._handles = handles
        self._facts = facts
        self._avatars = avatars
        self._voice = voice
        self._settings = settings
        self._own_pictures = HostedOwnPictures(avatars.speaker)
        self._sign = signer_of(settings.provenance)
        self._clock = clock
        self._active: dict[str, JobProgress] = {}
        self._ended: Counter[str] = Counter()
        self._retries: Counter[str] = Counter()
        self._metric_ended = metrics.Counter(
            "liveanchor_jobs_ended", description="File jobs by how they ended.", tag_keys=("outcome",)
        )
        self._metric_active = metrics.Gauge("liveanchor_jobs_active", description="File jobs in work.")
        self._metric_retries = metrics.Counter(
            "liveanchor_stage_retries", description="Stage calls made again.", tag_keys=("stage",)
        )

    async def run(self, job: FileJob) -> AsyncGenerator[JobEvent, None]:
        """Make one talking mp4.

        Yields:
            `JobStarted`, then `JobProgress` and `JobBytes` in turn, at the end `JobDone`.

        Raises:
            InvalidInputError: The audio, the avatar id or the frame rate cannot work; raised before the first event.
            LiveAnchorError: A stage failed for good, or the job took longer than its deadline.
        """
        outcome = "failed"
        self._track(job.job_id, JobProgress(0, 0))
        try:
            with self._avatars.using(job.avatar_id):
                async with aclosing(self._events(job)) as events:
                    async for event in events:
                        if isinstance(event, JobProgress):
                            self._track(job.job_id, event)
                        outcome = "finished" if isinstance(event, JobDone) else outcome
                        yield event
        except (asyncio.CancelledError, GeneratorExit):
            outcome = outcome if outcome == "finished" else "cancelled"
            raise
        finally:
            self._ended[outcome] += 1
            self._metric_ended.inc(tags={"outcome": outcome})
            self._active.pop(job.job_id, None)
            self._metric_active.set(len(self._active))

    def stats(self) -> HostStats:
        """Counters of this replica."""
        return HostStats(
            replica_id=replica_id(),
            active_jobs=dict(self._active),
            finished=self._ended["finished"],
            cancelled=self._ended["cancelled"],
            failed=self._ended["failed"],
            retries=dict(self._retries),
            pid=os.getpid(),
        )

    async def _events(self, job: FileJob) -> AsyncGenerator[JobEvent, None]:
        info = await self._facts.info()
        await self._facts.check_rate(job.settings)
        job, cues = await with_speech(job, self._voice, self._settings)
        prepared = await asyncio.to_thread(prepare_job, job, self._avatars.speaker, self._settings, cues)
        deadlines = self._settings.deadlines
        stages = GraphStages(
            self._handles,
            info,
            f"{job.job_id}-{uuid.uuid4().hex[:8]}",  # clients choose ids of jobs, and two may choose the same
            budget_s=deadlines.stage_call_s,
            deadline=self._clock() + deadlines.job_s(prepared.audio.duration_s),
            clock=self._clock,
            own_pictures=self._own_pictures,
        )
        events = run_job(prepared, StageMeter(stages, self._clock), self._settings.encoder, stages.retries, self._sign)
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
        finally:
            self._count_retries(stages.retries)

    def _track(self, job_id: str, progress: JobProgress) -> None:
        self._active[job_id] = progress
        self._metric_active.set(len(self._active))

    def _count_retries(self, retries: Counter[str]) -> None:
        self._retries.update(retries)
        for stage, count in retries.items():
            self._metric_retries.inc(count, tags={"stage": stage})
