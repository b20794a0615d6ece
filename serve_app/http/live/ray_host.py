"""`LiveHost` over a cluster: offers go through Ray Serve, everything else goes straight to the host that owns the session."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import structlog
from ray.serve.handle import DeploymentHandle

from deployments.graph.direct_call import DirectCall
from deployments.graph.errors import DeadlineExceededError, NotReadyError, ReplicaGoneError, StageLostError
from deployments.graph.handle_calls import answer_of, answers_of_all, give_up, translated
from deployments.host.app_actors import pool_of
from deployments.host.command import Answer
from deployments.host.live_calls import LiveAnswer, LiveHostStats, LiveOffer, NumberedEvent
from deployments.host.live_commands import LiveCommand
from deployments.host.live_errors import NoCapacityError, SessionLostError
from deployments.host.token_pool import Lease, PoolStats
from kernels.errors import LiveAnchorError

STAGE: Final = "session_host"
"""Name of the hosts in errors."""
POOL: Final = "token_pool"
"""Name of the token pool in errors."""
OFFER_ATTEMPTS: Final = 3
"""Number of hosts that are asked, because a host that is full, or dies, may have a neighbour that has room."""
MAX_KNOWN: Final = 4096
STATS_S: Final = 5.0
"""Seconds that a host may take to report its sessions; a host that takes longer is left out."""


class RayLiveHost:
    """Implements `serve_app.http.live.host.LiveHost`.

    A session is one streaming call that this object drains until the session ends; the session does not depend on it (Ray Serve
    does not cancel a call whose caller dies), so an ingress may go while its sessions stay.

    Args:
        handle: Handle of the deployment `SessionHost`.
    """

    def __init__(self, handle: DeploymentHandle[Any]) -> None:
        self._handle = handle
        self._app = handle.app_name
        self._pool: Any = None
        self._places: OrderedDict[str, str] = OrderedDict()
        self._drains: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger("liveanchor.live")

    async def offer(self, offer: LiveOffer) -> LiveAnswer:
        """Begin a session: tokens first, in one turn for the whole cluster, then a host that has room.

        Where a host is full, or dies, others are asked too, `OFFER_ATTEMPTS` in all.

        Raises:
            NoCapacityError: No GPU has tokens left, or no host has room.
            NotReadyError: The pool of tokens is starting anew.
            LiveAnchorError: The host answered with this error, or it is lost.
        """
        try:
            return await self._begin(replace(offer, lease=await self._acquire(offer)))
        except BaseException:  # also where the client went away while the pool was asked: it may have given the tokens
            self._tokens().release.remote(offer.session_id)
            raise

    async def _acquire(self, offer: LiveOffer) -> Lease:
        try:
            with translated(POOL):
                lease: Lease = await self._tokens().acquire.remote(
                    offer.session_id, float(offer.fps), offer.avatar_id or ""
                )
        except ReplicaGoneError as error:
            self._pool = None
            raise NotReadyError("the pool of session tokens is starting anew") from error
        return lease

    def _tokens(self) -> Any:
        self._pool = self._pool or pool_of(self._app)
        return self._pool

    async def _begin(self, offer: LiveOffer) -> LiveAnswer:
        method: Any = self._handle.options(method_name="live", stream=True)
        for attempt in range(1, OFFER_ATTEMPTS + 1):
            items = method.remote(replace(offer, last_try=attempt == OFFER_ATTEMPTS))
            answered = False
            try:
                with translated(STAGE, attempt=attempt):
                    answer: LiveAnswer = await anext(items)
                answered = True
            except (NoCapacityError, ReplicaGoneError):
                if attempt == OFFER_ATTEMPTS:
                    raise
                continue
            finally:
                if not answered:
                    give_up(items)
            drain = asyncio.create_task(self._drain(items, offer.session_id), name=f"live-{offer.session_id}")
            self._drains.add(drain)
            drain.add_done_callback(self._drains.discard)
            return answer
        raise StageLostError(STAGE, OFFER_ATTEMPTS)

    async def handle(self, command: LiveCommand[Answer]) -> Answer:
        """Hand a command to the replica that owns its session.

        Raises:
            SessionNotFoundError: No session has had this id lately.
            SessionEndedError: The session is over, or ends.
            SessionLostError: The session's replica died.
            LiveAnchorError: As the command says.
        """
        place = await self._place(command.session_id)
        try:
            answer: Answer = await DirectCall(place, self._app).unary("handle", command)
        except ReplicaGoneError as error:
            await self._gone(command.session_id, place)
            raise SessionLostError(command.session_id) from error
        return answer

    async def events(self, session_id: str, after: int) -> AsyncGenerator[NumberedEvent, None]:
        """Follow a session's events on the replica that owns it; errors are those of `LiveHost.events`."""
        place = await self._place(session_id)
        try:
            async for event in DirectCall(place, self._app).stream("live_events", session_id, after):
                yield event
        except ReplicaGoneError as error:
            await self._gone(session_id, place)
            raise SessionLostError(session_id) from error

    async def live_stats(self) -> list[LiveHostStats]:
        """Ask the hosts that Ray Serve knows, which may have had no session yet, and draining hosts, which it skips.

        Hosts that die meanwhile are left out. Draining hosts have room for the sessions that they hold and for no other.
        """
        places: list[str] = await self._ask("live_replicas")
        serving, *known = await asyncio.gather(
            self._serving(),
            *(DirectCall(place, self._app).unary("live_stats") for place in places),
            return_exceptions=True,
        )
        found = {one.replica_id: one for one in known if isinstance(one, LiveHostStats)}
        answers = serving if isinstance(serving, list) else []
        taking = {one.replica_id: one for one in answers if isinstance(one, LiveHostStats)}
        draining = {
            name: replace(one, capacity=min(one.capacity, len(one.sessions)))
            for name, one in found.items()
            if taking and name not in taking
        }
        return list((found | taking | draining).values())

    async def tokens(self) -> PoolStats:
        """Ask the pool; a pool that is starting anew knows of no set."""
        try:
            with translated(POOL):
                found: PoolStats = await self._tokens().stats.remote()
        except ReplicaGoneError:
            self._pool = None
            return PoolStats()
        return found

    async def _serving(self) -> list[Any]:
        try:
            return await answers_of_all(STAGE, self._handle, "live_stats", STATS_S)
        except (DeadlineExceededError, NotReadyError):
            return []

    async def _place(self, session_id: str) -> str:
        """The owner's full name; asked for once per session and ingress."""
        if session_id in self._places:
            return self._places[session_id]
        place: str = await self._ask("live_where", session_id)
        self._places[session_id] = place
        while len(self._places) > MAX_KNOWN:
            self._places.popitem(last=False)
        return place

    async def _ask(self, name: str, *args: object) -> Any:
        """Any host's answer; the first that is asked may be the dead one that the question is about."""
        method = self._handle.options(method_name=name)
        for attempt in range(1, OFFER_ATTEMPTS):
            with suppress(ReplicaGoneError):
                return await answer_of(STAGE, method.remote(*args), attempt=attempt)
        return await answer_of(STAGE, method.remote(*args), attempt=OFFER_ATTEMPTS)

    async def _gone(self, session_id: str, place: str) -> None:
        self._places.pop(session_id, None)
        try:
            await self._ask("live_lost", place)
        except LiveAnchorError:
            self._log.warning("registry_not_told", session_id=session_id)

    async def _drain(self, items: Any, session_id: str) -> None:
        """Take the stream's items so that the call stays alive and counted."""
        try:
            with translated(STAGE):
                async for _ in items:
                    pass
        except ReplicaGoneError:
            self._log.warning("session_lost", session_id=session_id)
            self._tokens().release.remote(
                session_id
            )  # its client makes a new offer at once; a lease would hold them for 10 s
        except LiveAnchorError as error:
            self._log.warning("session_failed", session_id=session_id, code=error.code)
        finally:
            self._places.pop(session_id, None)
