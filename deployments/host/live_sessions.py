"""The live sessions of one process: set up, found by id, spoken to, and freed. No Ray; the same in tests and in `SessionHost`."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter, deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

import structlog

from deployments.config import SessionHostSettings
from deployments.graph.timed_stages import TimedStages
from deployments.host.event_log import EventLog
from deployments.host.headroom import Headroom
from deployments.host.live_calls import Interrupted, LiveAnswer, LiveOffer, NumberedEvent, Spoken
from deployments.host.live_errors import (
    AudioInUseError,
    IceRestartError,
    SessionEndedError,
    SessionNotFoundError,
    WrongDriveError,
)
from deployments.host.live_session_stats import first_frame_ms, session_stats
from kernels.arrays import F32
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.bounded_cache import BoundedCache
from pipeline.live.contracts import Drive, EndReason, LiveEvent, VideoTick, VoiceTick
from pipeline.live.idle_loop import IdleLoops
from pipeline.live.loop_clock import MonotonicClock
from pipeline.live.session import LiveSession
from pipeline.media.audio_container import AudioLimits
from pipeline.media.audio_in import decode_audio
from pipeline.session.behaviour import behaviour_of
from pipeline.stages import Stages
from pipeline.types import SAMPLE_RATE_HZ, Avatar, Nv12Canvas
from pipeline.webrtc.helpers import Helpers
from pipeline.webrtc.hub import LiveHub
from pipeline.webrtc.peer import LivePeer
from pipeline.webrtc.sdp import TrickledCandidate
from pipeline.webrtc.viewers import Viewers

AVATAR_CACHE_BYTES: Final = 256 * 2**20
KEPT_REASONS: Final = 1000
KEPT_FIRST_FRAMES: Final = 200


class _Sink:
    """A session's `LiveSink`: media to the hub, events to the hub and to the log."""

    def __init__(self, hub: LiveHub, log: EventLog) -> None:
        self._hub = hub
        self._log = log

    def video(self, tick: VideoTick) -> None:
        self._hub.video(tick)

    def voice(self, tick: VoiceTick) -> None:
        self._hub.voice(tick)

    def event(self, event: LiveEvent) -> None:
        self._log.add(event)
        self._hub.event(event)


class _Entry:
    """One session and everything that it holds."""

    def __init__(
        self, offer: LiveOffer, session: LiveSession, hub: LiveHub, peer: LivePeer, viewers: Viewers, log: EventLog
    ) -> None:
        self.offer = offer
        self.session = session
        self.hub = hub
        self.peer = peer
        self.viewers = viewers
        self.log = log
        self.audio_token = ""
        self.task: asyncio.Task[EndReason] | None = None

    async def free(self) -> None:
        """Everything but the session itself, which ends first."""
        async with AsyncExitStack() as parts:  # each of them, whatever becomes of the others
            parts.callback(self.log.close)
            parts.push_async_callback(self.hub.close)
            parts.push_async_callback(self.peer.close)
            parts.push_async_callback(self.viewers.close)


class LiveSessions:
    """Belongs to one event loop.

    Args:
        settings: Of the session host.
        stages_of: Session id -> stage calls of that session.
        presenter: Avatar id -> avatar, the default one for None; called in a thread.
        stages_for_loops: Stage calls that draw idle loops.
        clock: Monotonic seconds.
        on_begin: Told when a session exists.
        on_end: Told when everything of it is free, and why it ended.
    """

    def __init__(
        self,
        settings: SessionHostSettings,
        stages_of: Callable[[str], Awaitable[Stages]],
        presenter: Callable[[str | None], Avatar],
        stages_for_loops: Stages,
        *,
        clock: Callable[[], float] = time.monotonic,
        on_begin: Callable[[str], Awaitable[None]] | None = None,
        on_end: Callable[[str, str], Awaitable[None]] | None = None,
    ) -> None:
        self._settings = settings
        self._stages_of = stages_of
        self._presenter = presenter
        self._loops = IdleLoops(stages_for_loops, settings.live)
        self._on_begin = on_begin
        self._on_end = on_end
        self._entries: dict[str, _Entry] = {}
        self._beginning: set[str] = set()
        self._reasons: dict[str, str] = {}
        self._first_frames: deque[float] = deque(maxlen=KEPT_FIRST_FRAMES)
        self._avatars: BoundedCache[tuple[str, str], tuple[Avatar, Nv12Canvas]] = BoundedCache(
            AVATAR_CACHE_BYTES, lambda found: 3 * found[0].canvas_rgb.nbytes
        )
        self._default_id = ""
        self._helpers = Helpers(settings.rtc, clock=clock)
        self._log = structlog.get_logger("liveanchor.live")
        self.headroom = Headroom(
            settings.live.max_sessions,
            settings.live.max_chunk_latency_share,
            clock,
            settings.live.connect_grace_s,
        )
        self.ended: Counter[str] = Counter()

    @property
    def ids(self) -> list[str]:
        """Sessions that are here now, those included that the owner has just been told of."""
        return [*self._entries, *self._beginning]

    async def warm(self, avatar_id: str | None = None) -> None:
        """Draw an avatar's idle loop before anybody waits for it.

        Raises:
            LiveAnchorError: The avatar is not there, or a stage failed.
        """
        avatar, _ = await self._avatar(avatar_id)
        await self._loops.warm(avatar, self._settings.session.model_copy(update={"fps": 25}))

    async def open(self, offer: LiveOffer) -> LiveAnswer:
        """Begin a session. Whatever goes wrong, nothing of it is left behind.

        Raises:
            NoCapacityError: There is no room.
            InvalidInputError: `sdp` or `avatar_id`.
            LiveAnchorError: A stage does not answer.
        """
        if offer.last_try:
            await self._make_room()
        self.headroom.admit(offer.session_id, offer.last_try)
        entry: _Entry | None = None
        try:
            avatar, canvas = await self._avatar(offer.avatar_id)
            entry = self._make(offer, await self._stages_of(offer.session_id), avatar, canvas)
            self._beginning.add(offer.session_id)
            announced = asyncio.create_task(self._announce(offer.session_id))  # takes as long as half an answer
            try:
                sdp = await entry.peer.answer(offer.sdp)
            except BaseException:
                await asyncio.gather(announced, return_exceptions=True)
                raise
            await announced
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
        self._log.info("session_begun", session_id=offer.session_id, drive=str(offer.drive), fps=offer.fps)
        return LiveAnswer(offer.session_id, sdp, avatar.avatar_id, canvas.width, canvas.height, offer.fps)

    async def _make_room(self) -> None:
        """End a session whose client does not come, where its place is needed."""
        late = self._entries.get(self.headroom.give_way() or "")
        if late is not None:
            late.session.end(EndReason.CONNECT_TIMEOUT)
            await self.ended_because(late.offer.session_id)

    async def _announce(self, session_id: str) -> None:
        if self._on_begin is not None:
            await self._on_begin(session_id)

    async def _withdraw(self, session_id: str) -> None:
        if self._on_end is not None:
            await self._on_end(session_id, str(EndReason.FAILED))

    async def ended_because(self, session_id: str) -> str:
        """Wait until a session is over and free; say why."""
        entry = self._entries.get(session_id)
        if entry is not None and entry.task is not None:
            return str(await asyncio.shield(entry.task))
        return self._reasons.get(session_id, str(EndReason.FAILED))

    async def end(self, session_id: str, reason: EndReason = EndReason.DELETED) -> None:
        """End a session and wait until everything is free."""
        self._entry(session_id).session.end(reason)
        await self.ended_because(session_id)

    async def drain(self, session_id: str) -> None:
        """End a session, if it does not end or is over already, and wait until everything is free."""
        entry = self._entries.get(session_id)
        if entry is not None:
            entry.session.end(EndReason.DRAINED)
            await self.ended_because(session_id)

    async def close(self) -> None:
        """End all sessions."""
        for session_id in self.ids:
            await self.drain(session_id)
        await self._loops.close()
        await self._helpers.close()

    async def candidates(self, session_id: str, candidates: Sequence[dict[str, Any]]) -> None:
        """See `serve_app.http.live.host.LiveHost`."""
        entry = self._entry(session_id)
        await entry.peer.add_candidates(_trickled(candidates, entry.offer.sdp))

    async def speak(self, session_id: str, audio: bytes) -> Spoken:
        """See `LiveHost`."""
        entry = self._pushed(session_id)
        limits = AudioLimits(self._settings.live.max_queued_speech_s, self._settings.max_upload_bytes)
        pcm = (await asyncio.to_thread(decode_audio, audio, limits)).pcm
        self._entry(session_id)  # it may have ended while the file was read
        waiting_s = entry.session.waiting_s
        utterance_id = entry.session.speak(pcm)
        return Spoken(utterance_id, len(pcm) / SAMPLE_RATE_HZ, waiting_s)

    async def open_audio(self, session_id: str) -> str:
        """See `LiveHost`."""
        entry = self._pushed(session_id)
        if entry.audio_token:
            raise AudioInUseError(session_id)
        entry.audio_token = secrets.token_hex(8)
        return entry.audio_token

    async def push_audio(self, session_id: str, token: str, pcm: F32, ends: bool) -> float:
        """See `LiveHost`."""
        entry = self._pushed(session_id)
        if token != entry.audio_token:
            raise AudioInUseError(session_id)
        if len(pcm):
            entry.session.push(pcm)
        if ends:
            entry.session.finish_utterance()
        return entry.session.waiting_s

    async def close_audio(self, session_id: str, token: str) -> None:
        """See `LiveHost`."""
        entry = self._entry(session_id)
        if token == entry.audio_token:
            entry.audio_token = ""
            entry.session.finish_utterance()

    async def interrupt(self, session_id: str) -> Interrupted:
        """See `LiveHost`."""
        found = self._entry(session_id).session.interrupt()
        return Interrupted(found.epoch, found.position_s, found.utterance_id)

    async def events(self, session_id: str, after: int) -> AsyncGenerator[NumberedEvent, None]:
        """See `LiveHost`."""
        async for event in self._entry(session_id).log.follow(after):
            yield event

    async def session_stats(self, session_id: str) -> dict[str, Any]:
        """See `LiveHost`."""
        return self._stats(self._entry(session_id))

    def first_frames_ms(self) -> list[float]:
        """From connected to the first picture sent, of the sessions here and the last ones that ended."""
        here = [first_frame_ms(entry.peer.stats()) for entry in self._entries.values()]
        return [*self._first_frames, *(one for one in here if one is not None)]

    def all_stats(self) -> list[dict[str, Any]]:
        """Of every session here."""
        return [self._stats(entry) for entry in self._entries.values()]

    async def view(self, session_id: str, sdp: str) -> tuple[str, str]:
        """See `LiveHost`."""
        return await self._entry(session_id).viewers.add_viewer(sdp)

    async def end_view(self, session_id: str, viewer_id: str) -> None:
        """See `LiveHost`."""
        await self._entry(session_id).viewers.remove(viewer_id)

    async def view_candidates(self, session_id: str, viewer_id: str, candidates: Sequence[dict[str, Any]]) -> None:
        """See `LiveHost`."""
        viewers = self._entry(session_id).viewers
        await viewers.add_candidates(viewer_id, _trickled(candidates, viewers.offer_of(viewer_id)))

    def _make(self, offer: LiveOffer, stages: Stages, avatar: Avatar, canvas: Nv12Canvas) -> _Entry:
        settings = self._settings
        picture = settings.session.model_copy(update={"fps": offer.fps})
        hub = LiveHub(
            canvas,
            offer.fps,
            settings.encoder,
            settings.rtc,
            picture.colour,
            offer.echo,
            session_id=offer.session_id,
            on_failure=lambda error: entry.session.end(EndReason.FAILED),
        )
        peer = LivePeer(
            hub,
            settings.rtc,
            connect_timeout_s=settings.live.connect_timeout_s,
            microphone=offer.drive is Drive.MIC,
            on_microphone=lambda pcm, position: entry.session.feed(pcm),
            on_connected=lambda: self._client_came(entry),
            on_ended=lambda reason: entry.session.end(reason),
            helpers=self._helpers,
        )
        log = EventLog()
        session = LiveSession(
            offer.session_id,
            TimedStages(stages, lambda took_s, lasts_s: self.headroom.chunk_done(offer.session_id, took_s, lasts_s)),
            avatar,
            self._loops,
            _Sink(hub, log),
            settings.live,
            picture,
            offer.drive,
            offer.seed,
            MonotonicClock(),
            behaviour_of(avatar),
        )
        viewers = Viewers(hub, settings.rtc, connect_timeout_s=settings.live.connect_timeout_s, helpers=self._helpers)
        entry = _Entry(offer, session, hub, peer, viewers, log)
        return entry

    def _client_came(self, entry: _Entry) -> None:
        self.headroom.client_came(entry.offer.session_id)
        entry.session.connected()

    async def _run(self, entry: _Entry) -> EndReason:
        session_id, reason = entry.offer.session_id, EndReason.FAILED
        try:
            reason = await entry.session.run()
            return reason
        finally:
            try:
                await entry.free()
            finally:
                self._forget(session_id, reason)
                if (first := first_frame_ms(entry.peer.stats())) is not None:
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

    async def _avatar(self, avatar_id: str | None) -> tuple[Avatar, Nv12Canvas]:
        """An avatar and its still picture; read from the store once."""
        colour = self._settings.session.colour
        wanted = avatar_id or self._default_id
        found = self._avatars.find((wanted, colour)) if wanted else None
        if found is None:
            found = await asyncio.to_thread(self._load, avatar_id)
            if not avatar_id:
                self._default_id = found[0].avatar_id
            loaded = found
            self._avatars.get_or_build((found[0].avatar_id, colour), lambda: loaded)
        return found

    def _load(self, avatar_id: str | None) -> tuple[Avatar, Nv12Canvas]:
        avatar = self._presenter(avatar_id)
        return avatar, Nv12Canvas(*rgb_to_nv12(avatar.canvas_rgb, colour=self._settings.session.colour))

    def _stats(self, entry: _Entry) -> dict[str, Any]:
        return session_stats(entry.session.stats(), entry.hub.stats(), entry.peer.stats(), entry.viewers.stats())

    def _pushed(self, session_id: str) -> _Entry:
        entry = self._entry(session_id)
        if entry.offer.drive is not Drive.PUSH:
            raise WrongDriveError(str(entry.offer.drive))
        return entry

    def _entry(self, session_id: str) -> _Entry:
        entry = self._entries.get(session_id)
        if entry is not None:
            if (reason := entry.session.reason) is not None:  # it is being freed
                raise SessionEndedError(session_id, str(reason))
            return entry
        if session_id in self._reasons:
            raise SessionEndedError(session_id, self._reasons[session_id])
        raise SessionNotFoundError(session_id)


def _trickled(candidates: Sequence[dict[str, Any]], offer_sdp: str) -> list[TrickledCandidate | None]:
    for one in candidates:
        ufrag = one.get("usernameFragment")
        if ufrag and f"a=ice-ufrag:{ufrag}" not in offer_sdp.splitlines():
            raise IceRestartError(
                "candidates", "another ICE user name than the offer's", "those of the offer; make a new offer"
            )
    found: list[TrickledCandidate | None] = [
        TrickledCandidate(one["candidate"], one["sdpMid"], one["sdpMLineIndex"]) for one in candidates
    ]
    return found or [None]
