"""Deployment `SessionHost`: file jobs, live sessions and avatars behind one replica."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

from ray.serve.handle import DeploymentHandle

from deployments.config import SessionHostSettings
from deployments.graph.errors import DeadlineExceededError, NotReadyError, StageLostError
from deployments.graph.handle_calls import answers_of_all
from deployments.graph.stage_facts import StageFacts
from deployments.graph.stage_worker import replica_id
from deployments.graph.stages import StageHandles
from deployments.graph.start_up import StartUp
from deployments.host.avatar_commands import AvatarCommand, Left, RegisterAvatar
from deployments.host.avatar_consents import AvatarConsents
from deployments.host.avatar_owners import AvatarOwners
from deployments.host.avatars import default_of, gallery_of, open_avatar_store
from deployments.host.avatars_in_use import AvatarsInUse
from deployments.host.command import Answer, Command
from deployments.host.file_jobs import FileJobs
from deployments.host.hosted_avatars import HostedAvatars
from deployments.host.hosted_jobs import runner_of
from deployments.host.jobs import FileJob, HostStats, JobEvent
from deployments.host.live_calls import LiveAnswer, LiveEnded, LiveHostStats, LiveOffer, NumberedEvent
from deployments.host.live_commands import LiveCommand
from deployments.host.live_replica import LiveReplica
from deployments.host.node_copies import DROP_S, Dropped, drop_copies
from deployments.logs import configure_replica_logs
from kernels.errors import InvalidInputError
from pipeline.families import find_family
from pipeline.voices.choice import find_voice

READY_S = 4.0


class SessionHostReplica:
    """Puts the three parts of a host together and hands them what comes.

    A job, like a live session, is one long streaming call: autoscaling, `max_ongoing_requests` and drain count it without further
    code, and cancelling the call cancels everything that it started.

    Args:
        audio_features: Handle of the stage.
        motion_diffusion: Handle of the stage; None where the family has none.
        renderer: Handle of the stage.
        rife: Handle of the stage.
        settings: Settings of this deployment.
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
        start = StartUp("session_host")
        self._handles = StageHandles(audio_features, motion_diffusion, renderer, rife)
        family = settings.models.family
        self._facts = StageFacts(self._handles, family, settings.deadlines.stage_call_s)
        store = open_avatar_store(settings.stores.avatars)
        in_use = AvatarsInUse(store, settings.limits.temporary_avatar_ttl_s, clock)
        maker = find_family(family).avatar_maker(settings.models.weights_dir)
        limits = settings.limits.of_portraits()
        self._avatars = HostedAvatars(
            store,
            in_use,
            lambda data, name: maker.from_file(data, name, limits),
            lambda: default_of(store, maker),
            lambda: gallery_of(store, family),
            family,
            AvatarOwners(settings.stores.avatars),
            AvatarConsents(settings.stores.avatars),
        )
        self._avatars_uri = settings.stores.avatars
        self._tending = asyncio.create_task(in_use.run(self._avatars.tidy_notes), name="avatars-in-use")
        voice = find_voice(settings.voices)
        self._jobs = FileJobs(self._handles, self._facts, self._avatars, voice, settings, clock)
        self._live = LiveReplica(self._handles, self._facts, self._avatars, voice, settings, clock)
        self._runner = runner_of(settings, self._jobs, self._avatars, self._live.has_room)
        self._looking = asyncio.create_task(self._runner.run(), name="video-jobs")
        start.done("make")
        start.ready()

    async def generate_stream(self, job: FileJob) -> AsyncGenerator[JobEvent, None]:
        """Make one talking mp4; events and errors are those of `FileJobs.run`."""
        async with aclosing(self._jobs.run(job)) as events:
            async for event in events:
                yield event

    async def work_on_jobs(self) -> bool:
        """Make one video job, where one waits and there is room for it; answers whether that was so.

        Raises:
            JobStoreError: The store of jobs cannot be used.
        """
        return await self._runner.work()

    async def wake_jobs(self) -> None:
        """Look for video jobs now."""
        self._runner.wake()

    async def live(self, offer: LiveOffer) -> AsyncGenerator[LiveAnswer | LiveEnded, None]:
        """Hold one live session for as long as it lives: the first item is its answer, the last one says why it ended."""
        async with aclosing(self._live.live(offer)) as items:
            async for item in items:
                yield item

    async def live_events(self, session_id: str, after: int) -> AsyncGenerator[NumberedEvent, None]:
        """Follow the events of a session; called directly, on the replica that holds it."""
        async with aclosing(self._live.events(session_id, after)) as events:
            async for event in events:
                yield event

    async def handle(self, command: Command[Answer]) -> Answer:
        """Do what a command asks. One of a live session is called directly, on the replica that holds the session.

        Raises:
            LiveAnchorError: As the command says.
        """
        if isinstance(command, LiveCommand):
            return await self._live.handle(command)
        if not isinstance(command, AvatarCommand):  # while the service is changed, another version may ask
            raise InvalidInputError("command", type(command).__name__, "a command of this version")
        answer: Any = await self._avatars.handle(command)
        if isinstance(command, RegisterAvatar) and not command.temporary:  # no idle loop for one that may go soon
            self._live.warm_soon(answer.avatar_id)
        return answer  # type: ignore[no-any-return]  # the command says so

    async def ready(self) -> None:
        """Return when the stages answer.

        Raises:
            NotReadyError: A stage does not answer yet.
        """
        try:
            await self._facts.ask(READY_S)
            await self._live.ready()
        except (DeadlineExceededError, StageLostError) as error:
            raise NotReadyError("a stage does not answer yet") from error

    async def stats(self) -> HostStats:
        """Counters of this replica."""
        return self._jobs.stats()

    async def begin_drain(self, seconds: float) -> None:
        """Begin no more videos, and tell live sessions that they end in so many seconds."""
        self._runner.rest()
        self._live.warn(seconds)

    async def in_work(self) -> int:
        """Number of files, videos and live sessions here."""
        # Videos' files are among the active ones, but not while their results are being stored.
        files = len(self._jobs.stats().active_jobs)
        return max(files, self._runner.count()) + self._live.count()

    async def end_work(self) -> None:
        """End live sessions, and give the videos in work back to the queue."""
        await asyncio.gather(self._runner.give_back(), self._live.drain())

    async def drop_avatars(self, avatar_ids: list[str]) -> str:
        """Drop what this process keeps of avatars, and answer its id."""
        await asyncio.to_thread(drop_copies, self._avatars_uri, avatar_ids)
        return replica_id()

    async def drop_in_stages(self, avatar_ids: list[str]) -> Dropped:
        """Have every replica of the stages that draw drop what it keeps of avatars."""
        places: list[str] = []
        left: list[Left] = []
        for stage, handle in (("renderer", self._handles.renderer), ("rife", self._handles.rife)):
            try:
                places += await answers_of_all(stage, handle, "drop_avatars", DROP_S, avatar_ids)
            except NotReadyError:
                continue  # no replica runs, so none keeps anything
            except DeadlineExceededError as error:
                left.append(Left("copies", stage, str(error)))
        return Dropped(tuple(places), tuple(left))

    async def stage_stats(self) -> list[object]:
        """Counters of every replica of every stage; a replica that dies meanwhile is left out."""
        handles = vars(self._handles).items()
        answers = await asyncio.gather(*(_stats_of(stage, handle) for stage, handle in handles if handle is not None))
        return [one for answer in answers for one in answer]

    async def live_stats(self) -> LiveHostStats:
        """Counters of this replica's live sessions; called directly."""
        return await self._live.stats()

    async def live_where(self, session_id: str) -> str:
        """Full name of the replica that holds a session; errors are those of `SessionRegistry.where`."""
        return await self._live.where(session_id)

    async def live_replicas(self) -> list[str]:
        """Full names of all replicas that the registry knows."""
        return await self._live.replicas()

    async def live_lost(self, replica: str) -> None:
        """Take in that a replica was found dead."""
        await self._live.lost(replica)


async def _stats_of(stage: str, handle: DeploymentHandle[Any]) -> list[object]:
    """Counters of every replica of a stage; none where it is scaled to zero, or does not answer in time."""
    try:
        return await answers_of_all(stage, handle, "stats", READY_S)
    except (DeadlineExceededError, NotReadyError):
        return []
