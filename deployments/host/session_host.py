"""Deployment `SessionHost`."""

from __future__ import annotations

import asyncio
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from ray.serve import metrics
from ray.serve.handle import DeploymentHandle

from deployments.config import SessionHostSettings
from deployments.graph.errors import DeadlineExceededError, NotReadyError, StageLostError
from deployments.graph.handle_calls import answers_of_all
from deployments.graph.stage_worker import replica_id
from deployments.graph.stages import GraphStages, StageHandles, fetch_info, fetch_rife_facts
from deployments.host.avatars import check_family, default_of, open_avatar_store
from deployments.host.avatars_in_use import AvatarsInUse
from deployments.host.file_job import prepare_job, run_job
from deployments.host.jobs import FileJob, HostStats, JobDone, JobEvent, JobProgress
from deployments.host.live_calls import LiveAnswer, LiveEnded, LiveHostStats, LiveOffer, NumberedEvent
from deployments.host.live_commands import Answer, LiveCommand
from deployments.host.live_replica import LiveReplica
from deployments.logs import configure_replica_logs
from pipeline.avatars.store import AvatarSummary
from pipeline.config import SessionSettings
from pipeline.families import find_family
from pipeline.rife.access import check_rate
from pipeline.session.drawing import needs_rife
from pipeline.stage_meter import StageMeter
from pipeline.stages import StageInfo
from pipeline.types import Avatar

READY_S = 4.0


class SessionHostReplica:
    """Owns sessions. Adds to `pipeline.session.clip_session`: stage handles, deadlines, counters, the cluster's avatar store.

    A job is one long streaming call: autoscaling, `max_ongoing_requests` and drain count it without further code, and cancelling
    the call cancels everything that it started.

    Args:
        audio_features: The stage.
        motion_diffusion: The stage.
        renderer: The stage.
        rife: The stage.
        settings: This deployment's own.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        audio_features: DeploymentHandle[Any],
        motion_diffusion: DeploymentHandle[Any] | None,
        renderer: DeploymentHandle[Any],
        rife: DeploymentHandle[Any],
        settings: SessionHostSettings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        configure_replica_logs()
        self._handles = StageHandles(audio_features, motion_diffusion, renderer, rife)
        self._settings = settings
        self._clock = clock
        self._store = open_avatar_store(settings.stores.avatars)
        self._in_use = AvatarsInUse(self._store, settings.limits.temporary_avatar_ttl_s, clock)
        self._tending = asyncio.create_task(self._in_use.run(), name="avatars-in-use")
        self._maker = find_family(settings.models.family).avatar_maker(settings.models.weights_dir)
        self._making = threading.Lock()
        self._info: StageInfo | None = None
        self._active: dict[str, JobProgress] = {}
        self._ended: Counter[str] = Counter()
        self._retries: Counter[str] = Counter()
        self._live = LiveReplica(self._handles, settings, self._stage_info, self._speaker, self._check_fps, clock)
        self._warming: set[asyncio.Task[None]] = set()
        self._metric_ended = metrics.Counter(
            "liveanchor_jobs_ended", description="File jobs by how they ended.", tag_keys=("outcome",)
        )
        self._metric_active = metrics.Gauge("liveanchor_jobs_active", description="File jobs in work.")
        self._metric_retries = metrics.Counter(
            "liveanchor_stage_retries", description="Stage calls made again.", tag_keys=("stage",)
        )

    async def generate_stream(self, job: FileJob) -> AsyncGenerator[JobEvent, None]:
        """Make one talking mp4.

        Yields:
            `JobStarted`, then `JobProgress` and `JobBytes` in turn, at the end `JobDone`.

        Raises:
            InvalidInputError: The audio, the avatar id or the frame rate cannot work; before the first event.
            LiveAnchorError: A stage failed for good, or the job took longer than its deadline.
        """
        outcome = "failed"
        self._track(job.job_id, JobProgress(0, 0))
        try:
            with self._in_use.using(job.avatar_id):
                info = await self._stage_info()
                await self._check_rate(info, job.settings)
                prepared = await asyncio.to_thread(prepare_job, job, self._speaker, self._settings)
                stages = GraphStages(
                    self._handles,
                    info,
                    f"{job.job_id}-{uuid.uuid4().hex[:8]}",  # clients choose ids of jobs, and two may choose the same
                    budget_s=self._settings.deadlines.stage_call_s,
                    deadline=self._clock() + self._settings.deadlines.job_s(prepared.audio.duration_s),
                    clock=self._clock,
                )
                events = run_job(prepared, StageMeter(stages, self._clock), self._settings.encoder, stages.retries)
                try:
                    async with aclosing(events):
                        async for event in events:
                            if isinstance(event, JobProgress):
                                self._track(job.job_id, event)
                            outcome = "finished" if isinstance(event, JobDone) else outcome
                            yield event
                finally:
                    self._count_retries(stages.retries)
        except (asyncio.CancelledError, GeneratorExit):
            outcome = outcome if outcome == "finished" else "cancelled"
            raise
        finally:
            self._ended[outcome] += 1
            self._metric_ended.inc(tags={"outcome": outcome})
            self._active.pop(job.job_id, None)
            self._metric_active.set(len(self._active))

    async def register_avatar(
        self, data: bytes, name: str, rename: bool = True, temporary: bool = False
    ) -> AvatarSummary:
        """Make a presenter of a portrait or a short video and store it; with `rename` False one that has a name keeps it.

        One that is `temporary` is for a job that is about to come: no idle loop is drawn for it.

        Raises:
            PortraitError: Its `code` says why not.
        """
        limits = self._settings.limits.of_portraits()

        def register() -> Avatar:
            with self._making:
                avatar = self._maker.from_file(data, name, limits)
            return self._store.put(avatar, rename, temporary)

        avatar = await asyncio.to_thread(register)
        if temporary:
            return _summary(avatar)
        warming = asyncio.create_task(self._live.warm(avatar.avatar_id))
        self._warming.add(warming)
        warming.add_done_callback(self._warming.discard)
        return _summary(avatar)

    async def list_avatars(self) -> list[AvatarSummary]:
        """All presenters of the store that have not expired."""
        return await asyncio.to_thread(self._in_use.listed)

    async def get_avatar(self, avatar_id: str) -> AvatarSummary:
        """One presenter; the default presenter for an empty id."""

        def find() -> AvatarSummary:
            found = _summary(self._presenter(avatar_id or None))
            return replace(found, used_at=self._store.used_at(avatar_id)) if avatar_id else found

        return await asyncio.to_thread(find)

    async def avatar_preview(self, avatar_id: str) -> bytes:
        """A JPEG of at most 512 pixels a side."""
        return await asyncio.to_thread(self._store.preview, avatar_id)

    async def delete_avatar(self, avatar_id: str) -> None:
        """Remove a presenter; jobs that already use it finish."""
        await asyncio.to_thread(self._store.delete, avatar_id)

    async def make_room(self, unused: list[AvatarSummary]) -> None:
        """Remove temporary presenters, but none that was used since it was listed."""
        await asyncio.to_thread(self._in_use.make_room, unused)

    async def ready(self) -> None:
        """Return when the stages answer.

        Raises:
            NotReadyError: They do not, yet.
        """
        try:
            self._info = await fetch_info(self._handles, self._settings.models.family, READY_S)
            await self._live.ready()
        except (DeadlineExceededError, StageLostError) as error:
            raise NotReadyError("a stage does not answer yet") from error

    async def stats(self) -> HostStats:
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

    async def stage_stats(self) -> list[object]:
        """Counters of every replica of every stage; a replica that dies meanwhile is left out."""
        handles = vars(self._handles).items()
        answers = await asyncio.gather(*(_stats_of(stage, handle) for stage, handle in handles if handle is not None))
        return [one for answer in answers for one in answer]

    async def live(self, offer: LiveOffer) -> AsyncGenerator[LiveAnswer | LiveEnded, None]:
        """One live session, for as long as it lives; see `LiveReplica.live`."""
        if offer.avatar_id:
            await asyncio.to_thread(self._store.touch, offer.avatar_id)
        with self._in_use.using(offer.avatar_id):
            async with aclosing(self._live.live(offer)) as items:
                async for item in items:
                    yield item

    async def handle(self, command: LiveCommand[Answer]) -> Answer:
        """Do what a command asks of a live session; called directly, on the replica that holds the session."""
        return await self._live.handle(command)

    async def live_events(self, session_id: str, after: int) -> AsyncGenerator[NumberedEvent, None]:
        """See `LiveReplica.events`; called directly."""
        async with aclosing(self._live.events(session_id, after)) as events:
            async for event in events:
                yield event

    async def live_stats(self) -> LiveHostStats:
        """See `LiveReplica.stats`; called directly."""
        return await self._live.stats()

    async def live_where(self, session_id: str) -> str:
        """See `LiveReplica.where`."""
        return await self._live.where(session_id)

    async def live_replicas(self) -> list[str]:
        """See `LiveReplica.replicas`."""
        return await self._live.replicas()

    async def live_lost(self, replica: str) -> None:
        """See `LiveReplica.lost`."""
        await self._live.lost(replica)

    async def _check_fps(self, info: StageInfo, fps: int) -> None:
        await self._check_rate(info, self._settings.session.model_copy(update={"fps": fps}))

    async def _check_rate(self, info: StageInfo, settings: SessionSettings) -> None:
        if needs_rife(info, settings):
            facts = await fetch_rife_facts(self._handles, self._settings.deadlines.stage_call_s)
            check_rate(settings.fps, facts)

    async def _stage_info(self) -> StageInfo:
        if self._info is None:
            budget_s = self._settings.deadlines.stage_call_s
            self._info = await fetch_info(self._handles, self._settings.models.family, budget_s)
        return self._info

    def _speaker(self, avatar_id: str | None) -> Avatar:
        """The presenter of a job: one that the stages here can draw."""
        if avatar_id:
            self._store.touch(avatar_id)
        return check_family(self._presenter(avatar_id), self._settings.models.family)

    def _presenter(self, avatar_id: str | None) -> Avatar:
        if avatar_id:
            return self._store.get(avatar_id)
        with self._making:
            return default_of(self._store, self._maker)

    def _track(self, job_id: str, progress: JobProgress) -> None:
        self._active[job_id] = progress
        self._metric_active.set(len(self._active))

    def _count_retries(self, retries: Counter[str]) -> None:
        self._retries.update(retries)
        for stage, count in retries.items():
            self._metric_retries.inc(count, tags={"stage": stage})


async def _stats_of(stage: str, handle: DeploymentHandle[Any]) -> list[object]:
    """Counters of every replica of a stage; none where it is scaled to zero, or does not answer in time."""
    try:
        return await answers_of_all(stage, handle, "stats", READY_S)
    except (DeadlineExceededError, NotReadyError):
        return []


def _summary(avatar: Avatar) -> AvatarSummary:
    height, width = avatar.canvas_rgb.shape[:2]
    return AvatarSummary(avatar.avatar_id, avatar.name, avatar.family, width, height)
