"""A session's place in a LiveKit room; to the session it is what `LivePeer` is for a client of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import structlog

from kernels.errors import InvalidInputError, first_line
from pipeline.live.contracts import EndReason, LiveEvent, VideoTick, VoiceTick
from pipeline.live.session import LiveSession
from pipeline.live.settings import RtcSettings
from pipeline.livekit.errors import LiveKitMissingError, RoomUnreachableError
from pipeline.livekit.invitation import RoomInvitation
from pipeline.livekit.room_agent import RoomAgent
from pipeline.livekit.room_media import RoomPictures, RoomVoice
from pipeline.types import Nv12Canvas
from pipeline.webrtc.errors import PeerClosedError
from pipeline.webrtc.peer_stats import PeerStats
from pipeline.webrtc.sdp import TrickledCandidate

AUDIO_TRACK: Final = "avatar_audio"
VIDEO_TRACK: Final = "avatar_video"
LEAVE_S: Final = 5.0
REFUSED: Final = ("401", "403", "unauthorized", "invalid token", "permission")
"""Words of LiveKit's connection errors that speak of the token."""


def load_rtc() -> Any:
    """The module `livekit.rtc`.

    Raises:
        LiveKitMissingError: It is not installed.
    """
    try:
        from livekit import rtc
    except ModuleNotFoundError as error:
        raise LiveKitMissingError from error
    return rtc


class RoomPeer:
    """Joins a room, sends a session's pictures and voice there, and lets the room's agent speak through it.

    Args:
        rtc: The module `livekit.rtc`.
        invitation: Which room.
        canvas: The picture under the session's rectangles.
        fps: Pictures per second.
        settings: Bit rates.
        session: Gives the session; asked when the room was joined.
        connect_timeout_s: The room must be joined in this time.
        on_connected: Called once.
        on_ended: Called once when the agent left or the room is gone, but not by `close`.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        rtc: Any,
        invitation: RoomInvitation,
        canvas: Nv12Canvas,
        fps: int,
        settings: RtcSettings,
        session: Callable[[], LiveSession],
        *,
        connect_timeout_s: float,
        on_connected: Callable[[], None],
        on_ended: Callable[[EndReason], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rtc, self._invitation, self._fps, self._settings = rtc, invitation, fps, settings
        self._session, self._connect_timeout_s = session, connect_timeout_s
        self._on_connected, self._clock = on_connected, clock
        self._on_ended: Callable[[EndReason], None] | None = on_ended
        self._pictures, self._voice = RoomPictures(rtc, canvas), RoomVoice(rtc)
        self._room = rtc.Room()
        self._agent: RoomAgent | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._state = "new"
        self._began = clock()
        self._connected_at: float | None = None
        self._first_at: float | None = None
        self._log = structlog.get_logger("liveanchor.livekit")

    async def answer(self, offer_sdp: str = "", kind: str = "offer") -> str:
        """Join the room and publish both tracks; there is no SDP, neither in nor out.

        Raises:
            InvalidInputError: The server does not take the token.
            RoomUnreachableError: It does not answer.
        """
        self._began, self._state = self._clock(), "connecting"
        self._room.on("disconnected", lambda reason: self._end(EndReason.PEER_LOST))
        self._room.on("participant_disconnected", self._left)
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await self._join()
        except TimeoutError as error:
            await self.close()
            raise RoomUnreachableError(self._invitation.host, f"not within {self._connect_timeout_s:g} s") from error
        except (self._rtc.ConnectError, self._rtc.participant.PublishTrackError) as error:
            await self.close()
            said = first_line(error)
            if any(word in said.lower() for word in REFUSED):
                raise InvalidInputError(
                    "token", "a token that the LiveKit server refuses", "one that it takes"
                ) from error
            raise RoomUnreachableError(self._invitation.host, said) from error
        except BaseException:
            await self.close()
            raise
        self._state, self._connected_at = "connected", self._clock()
        self._on_connected()
        return ""

    async def add_candidates(self, candidates: Sequence[TrickledCandidate | None]) -> None:
        """A room takes none.

        Raises:
            PeerClosedError: Always.
        """
        raise PeerClosedError("a session in a LiveKit room takes no candidates")

    def video(self, tick: VideoTick) -> None:
        """Show a frame now."""
        if self._state == "connected" and self._pictures.show(tick) and self._first_at is None:
            self._first_at = self._clock()

    def voice(self, tick: VoiceTick) -> None:
        """Play the voice of one frame next."""
        if self._state == "connected":
            self._voice.say(tick)

    def event(self, event: LiveEvent) -> None:
        """Take an event of the session."""
        if self._agent is not None and self._state == "connected":
            self._agent.event(event)

    def stats(self) -> PeerStats:
        """What is known of the connection; networks between LiveKit and its viewers are LiveKit's to tell of."""
        now, since = self._clock(), self._connected_at
        return PeerStats(
            state=self._state,
            fps_out=0.0 if since is None or now <= since else self._pictures.count / (now - since),
            bitrate_kbps=0.0,
            packets_lost=0,
            fraction_lost=0.0,
            jitter_ms=0.0,
            round_trip_ms=None,
            nacked_packets=0,
            key_requests=0,
            estimate_kbps=None,
            queue_depth=0,
            queue_overflows=0,
            units_dropped=0,
            connected_after_s=None if since is None else since - self._began,
            first_picture_after_s=None if since is None or self._first_at is None else self._first_at - since,
            microphone=None,
            send_offset_ms=None,
        )

    async def close(self) -> None:
        """Leave the room and free everything; harmless when repeated. `on_ended` is not called after it."""
        self._on_ended = None
        if self._state == "closed":
            return
        self._state = "closed"
        if self._agent is not None:
            self._agent.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                await self._room.disconnect()
                await self._voice.source.aclose()
                await self._pictures.source.aclose()

    async def _join(self) -> None:
        rtc, room = self._rtc, self._room
        await room.connect(
            self._invitation.url,
            self._invitation.token,
            rtc.RoomOptions(auto_subscribe=False, connect_timeout=self._connect_timeout_s),
        )
        self._agent = RoomAgent(rtc, room, self._invitation.agent, self._session(), self._voice)
        self._tasks = [
            asyncio.create_task(self._agent.run(), name="livekit-agent"),
            asyncio.create_task(self._voice.run(), name="livekit-voice"),
        ]
        for task in self._tasks:
            task.add_done_callback(self._broke)
        voice = rtc.LocalAudioTrack.create_audio_track(AUDIO_TRACK, self._voice.source)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
        await room.local_participant.publish_track(voice, options)
        pictures = rtc.LocalVideoTrack.create_video_track(VIDEO_TRACK, self._pictures.source)
        encoding = rtc.VideoEncoding(max_framerate=self._fps, max_bitrate=1000 * self._settings.max_kbps)
        options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_CAMERA, video_encoding=encoding)
        await room.local_participant.publish_track(pictures, options)

    def _left(self, participant: Any) -> None:
        if self._agent is not None and self._agent.identity and participant.identity == self._agent.identity:
            self._end(EndReason.PEER_CLOSED)

    def _broke(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("room_task_broke", task=task.get_name(), reason=first_line(error, named=True))
            self._end(EndReason.FAILED)

    def _end(self, reason: EndReason) -> None:
        callback, self._on_ended = self._on_ended, None
        if callback is not None:
            self._log.info("room_left", reason=str(reason), state=self._state)
            callback(reason)
