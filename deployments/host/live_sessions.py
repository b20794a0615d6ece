"""The live sessions of one process: admitted, begun, found by id, and freed. No Ray; the same in tests and in `SessionHost`."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, Final

import structlog

from deployments.config import SessionHostSettings
from deployments.host.command import Answer
from deployments.host.headroom import Headroom
from deployments.host.hosted_session import HostedSession
from deployments.host.live_avatars import LiveAvatars
from deployments.host.live_calls import LiveAnswer, LiveOffer, NumberedEvent
from deployments.host.live_commands import LiveCommand
from deployments.host.live_errors import SessionEndedError, SessionNotFoundError
from deployments.host.session_setup import set_up
from kernels.errors import LiveAnchorError
from pipeline.fetch.fetcher import Fetcher
from pipeline.live.contracts import Drive, EndReason
from pipeline.live.idle_loop import IdleLoops
from pipeline.stage_meter import CallTimes
from pipeline.stages import Stages
from pipeline.talk.choice import find_brain
from pipeline.types import Avatar
from pipeline.voices.choice import find_voice
from pipeline.voices.errors import VoiceMissingError
from pipeline.voices.voice import Voice
from pipeline.webrtc.helpers import Helpers
from pipeline.webrtc.voice_thread import VoiceThread

KEPT_REASONS: Final = 1000
KEPT_FIRST_FRAMES: Final = 200


class LiveSessions:
    """Admits, begins, finds and frees the live sessions of one process. It belongs to one event loop.

    Args:
        settings: Settings of the session host.
        stages_of: Gives the stage calls of a session by its id.
        presenter: Finds an avatar by its id, the default one for None; called in a thread.
        stages_for_loops: Stage calls that draw idle loops.
        voice: Speaks text; that of the settings where None.
        clock: Gives monotonic seconds.
        crowded: Whether the set that serves a session is crowded, by the session's id.
        on_begin: Called with the id of a session that begins.
        on_end: Called with a session's id and why it ended, when everything of it is free.
    """

    def __init__(
        self,
        settings: SessionHostSettings,
        stages_of: Callable[[str], Awaitable[Stages]],
        presenter: Callable[[str | None], Avatar],
        stages_for_loops: Stages,
        voice: Voice | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        crowded: Callable[[str], bool] = lambda session_id: False,
        on_begin: Callable[[str], Awaitable[None]] | None = None,
        on_end: Callable[[str, str], Awaitable[None]] | None = None,
    ) -> None:
        self._settings = settings
        self._stages_of = stages_of
        self._avatars = LiveAvatars(presenter, settings.session.colour)
        self._loops = IdleLoops(stages_for_loops, settings.live)
        self._voice = voice or find_voice(settings.voices)
        self._brain = find_brain(settings.agent)
        self._warming: asyncio.Task[None] | None = None
        self._crowded = crowded
        self._on_begin = on_begin
        self._on_end = on_end
        self._entries: dict[str, HostedSession] = {}
        self._beginning: set[str] = set()
        self._reasons: dict[str, str] = {}
        self._first_frames: deque[float] = deque(maxlen=KEPT_FIRST_FRAMES)
        self._helpers = Helpers(settings.rtc, clock=clock)
        self._voices = VoiceThread()
        self._fetcher = Fetcher(settings.publish)
        self._log = structlog.get_logger("liveanchor.live")
        self.headroom = Headroom(
            settings.live.max_sessions,
            settings.live.max_chunk_latency_share,
            clock,
            settings.live.connect_grace_s,
        )
        self._times = CallTimes()
        self.ended: Counter[str] = Counter()

    @property
    def ids(self) -> list[str]:
        """Ids of the sessions that are here now, including sessions that are just being begun."""
        return [*self._entries, *self._beginning]

    async def warm(self, avatar_id: str | None = None) -> None:
        """Draw an avatar's idle loop before a session needs it.

        Raises:
            LiveAnchorError: The avatar is not there, or a stage failed.
        """
        avatar, _ = await self._avatars.find(avatar_id)
        await self._loops.warm(avatar, self._settings.session.model_copy(update={"fps": 25}))

    async def open(self, offer: LiveOffer) -> LiveAnswer:
        """Begin a session. Where it cannot begin, nothing of it is left behind.

        Raises:
            NoCapacityError: There is no room.
            InvalidInputError: `sdp` or `avatar_id` cannot be used.
            LiveAnchorError: A stage does not answer.
        """
        if offer.last_try:
            await self._make_room()
        growth = math.inf if offer.lease is None else offer.lease.growth
        self.headroom.admit(offer.session_id, offer.last_try, growth)
        entry: HostedSession | None = None
        try:
            avatar, canvas = await self._avatars.find(offer.avatar_id)
            stages = await self._stages_of(offer.session_id)
            entry = set_up(
                offer,
                self._settings,
                stages,
                (avatar, canvas),
                self._loops,
                self.headroom,
                self._helpers,
                self._voices,
                self._voice,
                self._brain,
                self._fetcher,
                lambda: self.headroom.crowded() or self._crowded(offer.session_id),
                self._times,
            )
            self._beginning.add(offer.session_id)
            announced = asyncio.create_task(self._announce(offer.session_id))  # takes as long as half an answer
            try:
                sdp = await entry.peer.answer(offer.sdp)
            except BaseException:
                await asyncio.gather(announced, return_exceptions=True)
                raise
            await announced
            for target in offer.publish:
                entry.publications.begin(target)
        except BaseException:
            try:
                if entry is not None:
                    await entry.free()
                    await self._withdraw(offer.session_id)
            finally:
                self.headroom.release(offer.session_id)
            raise
        finally:
            self._beginning.discard(offer.session_id)
        self._entries[offer.session_id] = entry
        entry.task = asyncio.create_task(self._run(entry), name=f"live-{offer.session_id}")
        if offer.drive is not Drive.MIC and self._warming is None:  # a text may come
            self._warming = asyncio.create_task(self._warm_voice(), name="voice-warm-up")
        self._log.info("session_begun", session_id=offer.session_id, drive=str(offer.drive), fps=offer.fps)
        return LiveAnswer(offer.session_id, sdp, avatar.avatar_id, canvas.width, canvas.height, offer.fps)

    async def _make_room(self) -> None:
        """End a session whose client does not come, where its place is needed."""
        late = self._entries.get(self.headroom.give_way() or "")
        if late is not None:
            late.session.end(EndReason.CONNECT_TIMEOUT)
            await self.ended_because(late.offer.session_id)

    async def _warm_voice(self) -> None:
        try:
            await self._voice.warm()
        except VoiceMissingError:  # said where a text comes
            return
        except LiveAnchorError as error:
            self._log.warning("voice_not_ready", code=error.code, reason=str(error))

    async def _announce(self, session_id: str) -> None:
        if self._on_begin is not None:
            await self._on_begin(session_id)

    async def _withdraw(self, session_id: str) -> None:
        if self._on_end is not None:
            await self._on_end(session_id, str(EndReason.FAILED))

    async def ended_because(self, session_id: str) -> str:
        """Wait until a session is over and everything of it is free, and return why it ended."""
        entry = self._entries.get(session_id)
        if entry is not None:
            return str(await entry.over())
        return self._reasons.get(session_id, str(EndReason.FAILED))

    async def handle(self, command: LiveCommand[Answer]) -> Answer:
        """Do what a command asks of the session that it names.

        Raises:
            SessionNotFoundError: The session is not here.
            SessionEndedError: It is over, or ends.
            LiveAnchorError: As the command says.
        """
        return await self._entry(command.session_id).handle(command)

    async def drain(self, session_id: str) -> None:
        """End a session, if it does not end or is over already, and wait until everything is free."""
        entry = self._entries.get(session_id)
        if entry is not None:
            entry.session.end(EndReason.DRAINED)
            await self.ended_because(session_id)

    async def drain_all(self) -> None:
        """End all sessions at once, and wait until everything is free."""
        await asyncio.gather(*map(self.drain, self.ids))

    def warn(self, seconds: float) -> None:
        """Tell every session that it ends in so many seconds."""
        for entry in self._entries.values():
            entry.session.warn(seconds)

    async def close(self) -> None:
        """End all sessions and what they share."""
        await self.drain_all()
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.gather(self._warming, return_exceptions=True)
        await self._voice.close()
        await self._brain.close()
        await self._helpers.close()
        await self._loops.close()

    async def events(self, session_id: str, after: int) -> AsyncGenerator[NumberedEvent, None]:
        """Follow a session's events from number `after + 1` on, to its end; events that are not kept any more are left out.

        Raises:
            SessionNotFoundError: The session is not here.
            SessionEndedError: It is over, or ends.
        """
        async for event in self._entry(session_id).log.follow(after):
            yield event

    def first_frames_ms(self) -> list[float]:
        """Milliseconds from connected to the first picture sent, for each session here and for the last ones that ended."""
        here = [entry.first_frame_ms() for entry in self._entries.values()]
        return [*self._first_frames, *(one for one in here if one is not None)]

    def all_stats(self) -> list[dict[str, Any]]:
        """Numbers of every session here."""
        return [entry.stats() for entry in self._entries.values()]

    async def _run(self, entry: HostedSession) -> EndReason:
        session_id, reason = entry.offer.session_id, EndReason.FAILED
        try:
            reason = await entry.session.run()
            return reason
        finally:
            try:
                await entry.free()
            finally:
                self._forget(session_id, reason)
                if (first := entry.first_frame_ms()) is not None:
                    self._first_frames.append(first)
                if self._on_end is not None:
                    await self._on_end(session_id, str(reason))

    def _forget(self, session_id: str, reason: EndReason) -> None:
        del self._entries[session_id]
        self.headroom.release(session_id)
        self.ended[reason] += 1
        self._reasons[session_id] = str(reason)
        while len(self._reasons) > KEPT_REASONS:
            del self._reasons[next(iter(self._reasons))]
        self._log.info("session_ended", session_id=session_id, reason=str(reason))

    def _entry(self, session_id: str) -> HostedSession:
        entry = self._entries.get(session_id)
        if entry is not None:
            entry.check_alive()
            return entry
        if session_id in self._reasons:
            raise SessionEndedError(session_id, self._reasons[session_id])
        raise SessionNotFoundError(session_id)
