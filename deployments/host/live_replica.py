"""Live sessions of one `SessionHost` replica: adds the registry and the stage handles to `LiveSessions`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final

import structlog
from ray import serve
from ray.exceptions import RayError
from ray.serve import metrics

from deployments.config import SessionHostSettings
from deployments.graph.direct_call import own_full_name
from deployments.graph.errors import ReplicaGoneError
from deployments.graph.handle_calls import translated
from deployments.graph.stage_facts import StageFacts
from deployments.graph.stage_worker import replica_id
from deployments.graph.stages import GraphStages, StageHandles
from deployments.host.app_actors import pool_of, registry_of
from deployments.host.command import Answer
from deployments.host.hosted_avatars import HostedAvatars
from deployments.host.late_pictures import LatePictures
from deployments.host.live_calls import LiveAnswer, LiveEnded, LiveHostStats, LiveOffer, NumberedEvent
from deployments.host.live_commands import LiveCommand
from deployments.host.live_errors import NoCapacityError, SessionNotFoundError
from deployments.host.live_registry import BEAT_S
from deployments.host.live_sessions import LiveSessions
from deployments.host.own_pictures import HostedOwnPictures
from deployments.host.session_leases import SessionLeases
from kernels.errors import LiveAnchorError, first_line
from pipeline.stages import StageInfo
from pipeline.voices.voice import Voice
from pipeline.webrtc.warm_up import warm_up

REGISTRY: Final = "live_registry"
"""Name of the registry in errors."""


class LiveReplica:
    """Serves the live sessions of one replica. It is made on the replica's event loop.

    Args:
        handles: Handles of the stage deployments.
        facts: Facts about the stages: what sessions must know of them, and which frame rates they can make.
        avatars: The avatars that may speak.
        voice: Speaks text.
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
        self._clock = clock
        self._name = own_full_name()
        self._app = str(serve.get_replica_context().app_name)
        self._sessions: LiveSessions | None = None
        self._leases = SessionLeases()
        self._actor: Any = None
        self._pool: Any = None
        self._making = asyncio.Lock()
        self._beating: asyncio.Task[None] | None = None
        self._warming: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger("liveanchor.live")
        self._metric_active = metrics.Gauge("liveanchor_live_sessions", description="Live sessions here.")
        self._metric_ended = metrics.Counter(
            "liveanchor_live_sessions_ended", description="Live sessions by how they ended.", tag_keys=("reason",)
        )
        self._metric_refused = metrics.Counter(
            "liveanchor_live_offers_refused", description="Offers that found no room."
        )
        self._metric_late = metrics.Counter(
            "liveanchor_live_pictures_late", description="Pictures of live sessions that were due and had not come."
        )
        self._late = LatePictures()

    async def ready(self) -> None:
        """Load what the first session would otherwise wait for."""
        await self._ready()

    async def live(self, offer: LiveOffer) -> AsyncGenerator[LiveAnswer | LiveEnded, None]:
        """Hold one session: the first item is its answer, the last one says why it ended. Cancelling ends the session."""
        if offer.avatar_id:
            await asyncio.to_thread(self._avatars.touch, offer.avatar_id)
        with self._avatars.using(offer.avatar_id):
            async with aclosing(self._hold(offer)) as items:
                async for item in items:
                    yield item

    async def handle(self, command: LiveCommand[Answer]) -> Answer:
        """Do what a command asks of a session.

        Raises:
            SessionNotFoundError: The session is not here.
            LiveAnchorError: As the command says.
        """
        if self._sessions is None:
            raise SessionNotFoundError(command.session_id)
        return await self._sessions.handle(command)

    async def events(self, session_id: str, after: int) -> AsyncGenerator[NumberedEvent, None]:
        """Follow the events of a session from number `after + 1` on, to its end.

        Raises:
            SessionNotFoundError: The session is not here.
            SessionEndedError: It is over, or ends.
        """
        if self._sessions is None:
            raise SessionNotFoundError(session_id)
        async for event in self._sessions.events(session_id, after):
            yield event

    def warn(self, seconds: float) -> None:
        """Tell every session here that it ends in so many seconds."""
        if self._sessions is not None:
            self._sessions.warn(seconds)

    def count(self) -> int:
        """Number of sessions here."""
        return 0 if self._sessions is None else len(self._sessions.ids)

    async def drain(self) -> None:
        """End every session here, and return when everything of them is free."""
        if self._sessions is not None:
            await self._sessions.drain_all()

    async def where(self, session_id: str) -> str:
        """Ask the registry which replica holds a session; errors are those of `SessionRegistry.where`."""
        with translated(REGISTRY):
            place: str = await self._registry().where.remote(session_id)
        return place

    async def replicas(self) -> list[str]:
        """Ask the registry for the full names of all replicas that it knows."""
        await self._ready()
        with translated(REGISTRY):
            found: list[str] = await self._registry().replicas.remote()
        return found

    async def lost(self, replica: str) -> None:
        """Tell the registry that a replica was found dead, and give back its sessions' tokens: their clients make new offers now.

        Where it lives after all, its next beat brings both back.
        """
        with translated(REGISTRY):
            for session_id in await self._registry().leave.remote(replica):
                await self._tokens().release.remote(session_id)

    async def stats(self) -> LiveHostStats:
        """Describe this replica's sessions."""
        sessions = await self._ready()
        return LiveHostStats(
            replica_id(),
            sessions.headroom.capacity(),
            sessions.all_stats(),
            dict(sessions.ended),
            sessions.headroom.refused,
            tuple(sessions.first_frames_ms()),
        )

    def has_room(self) -> bool:
        """Whether pictures come so soon that other work here would harm no session."""
        return self._sessions is None or self._sessions.headroom.in_time()

    def warm_soon(self, avatar_id: str) -> None:
        """Begin to draw an avatar's idle loop and return at once; a failure is logged."""
        warming = asyncio.create_task(self._warm(avatar_id))
        self._warming.add(warming)
        warming.add_done_callback(self._warming.discard)

    async def _hold(self, offer: LiveOffer) -> AsyncGenerator[LiveAnswer | LiveEnded, None]:
        sessions = await self._ready()
        await self._facts.check_rate(self._settings.session.model_copy(update={"fps": offer.fps}))
        with self._leases.kept(offer):
            try:
                answer = await sessions.open(offer)
            except NoCapacityError:
                if offer.last_try:
                    self._metric_refused.inc()
                raise
            self._metric_active.set(len(sessions.ids))
            try:
                yield answer
                yield LiveEnded(offer.session_id, await sessions.ended_because(offer.session_id))
            finally:
                await sessions.drain(offer.session_id)
                self._metric_active.set(len(sessions.ids))

    async def _warm(self, avatar_id: str) -> None:
        try:
            await (await self._ready()).warm(avatar_id)
        except LiveAnchorError as error:
            self._log.warning("idle_loop_not_drawn", code=error.code, reason=str(error))

    async def _ready(self) -> LiveSessions:
        async with self._making:
            if self._sessions is None:
                info = await self._facts.info()
                await warm_up(self._settings.encoder)
                self._sessions = LiveSessions(
                    self._settings,
                    self._stages_of,
                    self._avatars.speaker,
                    self._graph_stages(info, "idle-loops"),
                    self._voice,
                    clock=self._clock,
                    crowded=self._leases.crowded,
                    on_begin=self._began,
                    on_end=self._ended,
                )
                self._beating = asyncio.create_task(self._beat(self._sessions), name="live-beat")
        return self._sessions

    async def _stages_of(self, session_id: str) -> GraphStages:
        return self._leases.serve(session_id, self._graph_stages(await self._facts.info(), session_id))

    def _graph_stages(self, info: StageInfo, session_id: str) -> GraphStages:
        return GraphStages(
            self._handles,
            info,
            session_id,
            budget_s=self._settings.live.stage_call_s,
            clock=self._clock,
            own_pictures=self._own_pictures,
        )

    async def _began(self, session_id: str) -> None:
        with translated(REGISTRY):
            await self._registry().add.remote(session_id, self._name)

    async def _ended(self, session_id: str, reason: str) -> None:
        self._leases.end(session_id)
        self._metric_ended.inc(tags={"reason": reason})
        try:
            with translated(REGISTRY):
                await self._registry().end.remote(session_id, reason)
                await self._tokens().release.remote(session_id)
        except ReplicaGoneError:
            self._log.warning("registry_not_told", session_id=session_id)

    async def _beat(self, sessions: LiveSessions) -> None:
        """Tell the registry what is here, for as long as this process lives; a registry that starts anew learns it so."""
        while True:
            if late := self._late.since_last(sessions.all_stats()):
                self._metric_late.inc(late)
            try:
                with translated(REGISTRY):
                    await self._registry().beat.remote(self._name, sessions.ids)
                    self._leases.renewed(await self._tokens().renew.remote(self._leases.all()))
            except (LiveAnchorError, RayError) as error:  # of any kind: a host that stopped beating would count as dead
                self._log.warning("registry_away", reason=first_line(error.__cause__ or error, named=True))
                self._actor = self._pool = None  # the next beat makes others where these do not come back
            await asyncio.sleep(BEAT_S)

    def _registry(self) -> Any:
        self._actor = self._actor or registry_of(self._app)
        return self._actor

    def _tokens(self) -> Any:
        self._pool = self._pool or pool_of(self._app)
        return self._pool
