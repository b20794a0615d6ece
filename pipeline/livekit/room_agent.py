"""The agent in a room: its speech goes into the session, and it is told what of it was heard (LiveKit Agents' data streams)."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator
from typing import Any, Final

import structlog

from kernels.errors import InvalidInputError, LiveAnchorError, first_line
from pipeline.live.contracts import LiveEvent
from pipeline.live.session import LiveSession
from pipeline.livekit.invitation import ON_BEHALF
from pipeline.livekit.room_media import RoomVoice
from pipeline.livekit.segments import Segment, Segments
from pipeline.media.pcm_reader import PcmReader
from pipeline.numbers import whole_number
from pipeline.types import SAMPLE_RATE_HZ

AUDIO_TOPIC: Final = "lk.audio_stream"
CLEAR: Final = "lk.clear_buffer"
STARTED: Final = "lk.playback_started"
FINISHED: Final = "lk.playback_finished"
AHEAD: Final = 8 * SAMPLE_RATE_HZ
"""Samples that wait to be heard; while there are more, an agent's stream is not read on."""
TRAILER_S: Final = 10.0
"""A stream that brings nothing for so long has lost its end."""
OVERLAP_S: Final = 0.5
ATTEMPTS: Final = 3
NO_SUCH_METHOD: Final = 1400


class RoomAgent:
    """Listens to one agent and reports to it. It belongs to the session's event loop.

    Args:
        rtc: The module `livekit.rtc`.
        room: The room, joined.
        identity: Who the agent is; the first agent that sends speech where empty.
        session: Speaks.
        voice: Plays what the session says.
    """

    def __init__(self, rtc: Any, room: Any, identity: str, session: LiveSession, voice: RoomVoice) -> None:
        self._rtc, self._room, self._session, self._voice = rtc, room, session, voice
        self.identity = identity
        self._segments = Segments(self._report)
        self._streams: deque[tuple[Any, Segment]] = deque()
        self._come = asyncio.Event()
        self._superseded = asyncio.Event()
        self._reports: asyncio.Queue[tuple[str, str]] = asyncio.Queue()
        self._tells_starts = True
        self._cut: list[tuple[str, float]] = []
        self._cut_is_due = False
        self._timers: set[asyncio.TimerHandle] = set()
        self._log = structlog.get_logger("liveanchor.livekit")
        room.register_byte_stream_handler(AUDIO_TOPIC, self._stream_came)
        room.local_participant.register_rpc_method(CLEAR, self._clear)

    async def run(self) -> None:
        """Listen and report until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._listen())
            tasks.create_task(self._tell())

    def event(self, event: LiveEvent) -> None:
        """Take an event of the session."""
        utterance_id, position_s = event.utterance_id or "", event.position_s or 0.0
        if event.name == "speaking_started" and self._tells_starts:
            self._reports.put_nowait((STARTED, ""))
        elif event.name == "interrupted":
            self._cut_is_due = True
            self._loop().call_soon(self._take_cut)  # after the events of every utterance that was cut
        elif event.name == "speaking_finished" and event.interrupted:
            self._cut.append((utterance_id, position_s))
        elif event.name == "speaking_finished" and self._segments.sent(utterance_id, position_s, self._voice.said_s):
            timer = self._loop().call_later(self._voice.unheard_s, self._segments.heard, utterance_id)
            self._timers = {one for one in self._timers if one.when() > self._loop().time()} | {timer}

    def close(self) -> None:
        """Take and report nothing more."""
        for timer in self._timers:
            timer.cancel()
        self._room.unregister_byte_stream_handler(AUDIO_TOPIC)

    def _take_cut(self) -> None:
        if self._cut_is_due:
            self._all_cut()

    def _all_cut(self) -> None:
        """End every segment where it was heard last, and let nothing of it sound any more."""
        cut, self._cut, self._cut_is_due = self._cut, [], False
        said_s = self._voice.said_s
        self._segments.cut(said_s, self._voice.cut(), cut)
        self._superseded.set()

    def _clear(self, data: Any) -> str:
        if not self._is_agent(data.caller_identity):
            return "reject"
        self._session.interrupt()
        self._all_cut()
        return "ok"

    def _stream_came(self, reader: Any, identity: str) -> None:
        if not self._is_agent(identity):
            return
        self._streams.append((reader, self._segments.begin()))
        self._superseded.set()
        self._come.set()

    def _is_agent(self, identity: str) -> bool:
        if not self.identity:
            participant = self._room.remote_participants.get(identity)
            agent = self._rtc.ParticipantKind.PARTICIPANT_KIND_AGENT
            if participant is not None and participant.kind == agent and ON_BEHALF not in participant.attributes:
                self.identity = identity
        return bool(self.identity) and identity == self.identity

    async def _listen(self) -> None:
        while True:
            await self._come.wait()
            self._come.clear()
            while self._streams:
                reader, segment = self._streams.popleft()
                if not self._streams:
                    self._superseded.clear()
                try:
                    await self._read(reader, segment)
                except (LiveAnchorError, self._rtc.StreamError) as error:
                    self._log.warning("speech_not_taken", reason=first_line(error, named=True))
                finally:
                    reader.close()
                    if segment.utterance_id:
                        self._session.voice.close(segment.utterance_id)
                    self._segments.end(segment)

    async def _read(self, reader: Any, segment: Segment) -> None:
        pcm = _pcm_reader(reader.info.attributes or {})
        async for data in self._pieces(reader, segment):
            await self._say(segment, pcm.push(data))
        if not segment.told:
            await self._say(segment, pcm.flush())

    async def _say(self, segment: Segment, samples: Any) -> None:
        if not len(samples):
            return
        segment.utterance_id = segment.utterance_id or self._session.voice.announce()
        if self._session.voice.add(segment.utterance_id, samples):
            await self._session.voice.until_waiting(AHEAD)

    async def _pieces(self, reader: Any, segment: Segment) -> AsyncGenerator[bytes, None]:
        """What a stream brings; it is over at its end, when its segment was cut, or when its end was lost.

        That is so where nothing comes for 10 s, or for half a second after the next one began: an agent's streams never overlap.
        """
        pieces, superseded = aiter(reader), asyncio.ensure_future(self._superseded.wait())
        try:
            while not segment.told:
                coming = asyncio.ensure_future(anext(pieces, None))
                await asyncio.wait((coming, superseded), timeout=TRAILER_S, return_when=asyncio.FIRST_COMPLETED)
                if superseded.done() and not (coming.done() or segment.told):
                    await asyncio.wait((coming,), timeout=OVERLAP_S)
                if not coming.done():
                    coming.cancel()
                    await asyncio.gather(coming, return_exceptions=True)
                    return
                if (data := coming.result()) is None:
                    return
                yield data
        finally:
            superseded.cancel()

    def _report(self, position_s: float, interrupted: bool) -> None:
        told = {"playback_position": position_s, "interrupted": interrupted, "synchronized_transcript": None}
        self._reports.put_nowait((FINISHED, json.dumps(told)))

    async def _tell(self) -> None:
        while True:
            method, payload = await self._reports.get()
            for attempt in range(1, ATTEMPTS + 1):
                try:
                    await self._room.local_participant.perform_rpc(
                        destination_identity=self.identity, method=method, payload=payload
                    )
                    break
                except self._rtc.RpcError as error:
                    if method == STARTED and error.code == NO_SUCH_METHOD:  # the agent does not want to know
                        self._tells_starts = False
                        break
                    self._log.warning("agent_not_told", method=method, attempt=attempt, reason=first_line(error))

    @staticmethod
    def _loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()


def _pcm_reader(attributes: dict[str, str]) -> PcmReader:
    rate_hz, channels = (whole_number(attributes.get(name, "")) for name in ("sample_rate", "num_channels"))
    if rate_hz is None or channels is None:
        raise InvalidInputError("attributes", repr(attributes)[:80], "sample_rate and num_channels, whole numbers")
    return PcmReader(rate_hz, channels)
