"""A WebRTC connection to one client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog
from aiortc import RTCConfiguration, RTCPeerConnection, RTCRtpTransceiver, RTCSessionDescription
from aiortc.exceptions import InvalidAccessError, InvalidStateError, OperationError
from aiortc.sdp import candidate_from_sdp

from kernels.errors import InvalidInputError, first_line
from pipeline.live.contracts import EndReason
from pipeline.live.settings import RtcSettings
from pipeline.webrtc import gathering, rtc_patches, sdp
from pipeline.webrtc.errors import NoCommonCodecError, PeerClosedError
from pipeline.webrtc.event_channel import LABEL, EventChannel
from pipeline.webrtc.h264_formats import H264Format
from pipeline.webrtc.helpers import Helpers
from pipeline.webrtc.hub import LiveHub
from pipeline.webrtc.hub_sender import HubSender, sent_codecs
from pipeline.webrtc.microphone_line import MicrophoneLine, OnVoice
from pipeline.webrtc.offer_text import MAX_CANDIDATES, usable_candidate
from pipeline.webrtc.packets import MediaKind
from pipeline.webrtc.peer_stats import PeerStats
from pipeline.webrtc.sdp import OfferedMedia, TrickledCandidate
from pipeline.webrtc.voice_thread import VoiceThread

MICROPHONE_TICK_S = 0.04
OWN_CHANNEL_AFTER_S = 1.0
"""A client that offers data channels and opens none within this gets one from us."""
CLOSE_TIMEOUT_S = 5.0
AIORTC_FAULTS: Final = (
    ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError,
    ConnectionError, InvalidAccessError, InvalidStateError,
)  # fmt: skip
"""What aiortc raises over descriptions that it did not expect."""


class LivePeer:
    """Answers one offer, sends a hub's pictures and voice, takes a microphone, and ends cleanly.

    Belongs to one event loop. A client should create a data channel labelled "events" before its offer; one that offers
    data channels without opening any gets that channel from us a second after the connection.

    Args:
        hub: What is sent.
        rtc: Addresses, ports, servers.
        connect_timeout_s: ICE and DTLS must be done in this time after the answer.
        microphone: Whether the client's voice is taken.
        on_microphone: Gets the client's voice; see `OnVoice`.
        on_connected: Called once.
        on_ended: Called once when the connection ended other than by `close`; everything is freed by then.
        on_message: Gets every JSON object from the data channel.
        helpers: The STUN and TURN servers of `rtc`, shared by the peers of a process; its own by default.
        voices: Decodes the microphones of a process; a thread of its own by default.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        hub: LiveHub,
        rtc: RtcSettings,
        *,
        connect_timeout_s: float = 20.0,
        microphone: bool = True,
        on_microphone: OnVoice | None = None,
        on_connected: Callable[[], None] | None = None,
        on_ended: Callable[[EndReason], None] | None = None,
        on_message: Callable[[dict[str, Any]], None] | None = None,
        helpers: Helpers | None = None,
        voices: VoiceThread | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        rtc_patches.apply_patches()
        self._hub = hub
        self._rtc = rtc
        self._connect_timeout_s = connect_timeout_s
        self._on_connected = on_connected
        self._on_ended = on_ended
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self._timers: list[asyncio.TimerHandle] = []
        self._events = EventChannel(on_message, hub.epoch_ntp)
        self._unlisten: Callable[[], None] = lambda: None
        self._ours: list[RTCRtpTransceiver] = []
        self._sender = HubSender(hub, clock)
        self._microphone: MicrophoneLine | None = None
        if microphone and on_microphone is not None:
            self._microphone = MicrophoneLine(on_microphone, self._deaf, voices or VoiceThread(), clock)
        self._answered_at: float | None = None
        self._connected_after_s: float | None = None
        self._closing: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._ended = False
        self._candidates = 0
        self._helpers = helpers or Helpers(rtc, clock=clock)
        self._pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))  # aiortc's own default is a public STUN server
        self._pc.on("connectionstatechange", self._state_changed)
        self._pc.on("datachannel", self._channel_opened)

    @property
    def state(self) -> str:
        """State of the connection: "new", "connecting", "connected", "closed" or "failed"."""
        return "closed" if self._ended else str(self._pc.connectionState)

    async def answer(self, offer_sdp: str, kind: str = "offer") -> str:
        """Answer the client's offer; once per peer.

        Args:
            offer_sdp: Its session description, with or without candidates.
            kind: "offer".

        Returns:
            Our session description with all our candidates; we do not trickle.

        Raises:
            InvalidInputError: No session description that aiortc understands. The peer is closed then.
            NoCommonCodecError: The client cannot take H.264 as we send it, or Opus where it wants a voice. The peer is closed then.
            PeerClosedError: It was answered or closed before.
        """
        if self._ended or self._answered_at is not None:
            raise PeerClosedError("this peer has been answered or closed")
        self._answered_at = self._clock()
        try:
            return await self._negotiate(sdp.read_offer(offer_sdp, kind))
        except BaseException:
            await self.close()
            raise

    async def add_candidates(self, candidates: Sequence[TrickledCandidate | None]) -> None:
        """Take candidates that came after the offer; None or an empty one, which ends them, changes nothing.

        Unusable ones are left out, and of the others all beyond the 64th. We never stop to wait for a client's own checks, which
        find us from addresses that no candidate names.

        Raises:
            InvalidInputError: A candidate that is none.
            PeerClosedError: Not answered yet, or closed.
        """
        if self._ended or self._pc.remoteDescription is None:
            raise PeerClosedError("this peer takes no candidates")
        for candidate in candidates:
            if candidate is None or not usable_candidate(candidate.candidate):
                continue
            if self._candidates < MAX_CANDIDATES:
                self._candidates += 1
                await self._add_candidate(candidate)

    async def close(self) -> None:
        """End the connection and free everything; harmless when repeated. `on_ended` is not called after it."""
        self._on_ended = None
        await self._shut()

    def stats(self) -> PeerStats:
        """What was sent and lost so far."""
        microphone = self._microphone.stats if self._microphone is not None else None
        return self._sender.stats(self.state, self._connected_after_s, self._first_picture_after_s(), microphone)

    async def _negotiate(self, offered: OfferedMedia) -> str:
        takes_voice = offered.sends_audio and self._microphone is not None
        sends_voice = offered.wants_audio and self._hub.echo
        used: set[str] = set()
        for kind in offered.kinds:  # in the offer's order: aiortc gives the first transceiver the bundled transport
            if kind == "video" and kind not in used:
                self._add("video", "sendonly", sends=True)
            elif kind == "audio" and kind not in used:
                self._add("audio", _direction(sends_voice, takes_voice), sends=sends_voice)
            used.add(kind)
        try:
            await self._pc.setRemoteDescription(RTCSessionDescription(offered.text, "offer"))
            for transceiver in self._pc.getTransceivers():
                self._settle(transceiver, offered.h264)
            if self._pc.sctp is not None:
                rtc_patches.bound_channels(self._pc.sctp, self._clock)
            ports = gathering.port_range(self._rtc.udp_port_min, self._rtc.udp_port_max)
            with ports, gathering.helped_by(self._helpers.ask):
                await self._pc.setLocalDescription(await self._pc.createAnswer())
        except OperationError as error:
            got = "a further section with nothing but codecs that are unknown here"
            raise NoCommonCodecError("sdp", got, "H.264, VP8, Opus, G.722 or G.711 in each") from error
        except AIORTC_FAULTS as error:
            if self._ended:
                raise PeerClosedError("this peer was closed while it was being answered") from error
            said = str(error)[:80] if isinstance(error, ValueError | InvalidAccessError | InvalidStateError) else ""
            got = said or "sections that do not fit together"
            raise InvalidInputError("sdp", got, "an offer made by a WebRTC client") from error
        if self._ended:
            raise PeerClosedError("this peer was closed while it was being answered")
        if offered.has_data:
            self._unlisten = self._hub.listen(self._events.send)
        self._later(self._connect_timeout_s, self._connect_timed_out)
        return sdp.public_answer(self._pc.localDescription.sdp, self._rtc.public_ip)

    def _add(self, kind: MediaKind, direction: str, sends: bool) -> None:
        transceiver = self._pc.addTransceiver(kind, direction=direction)
        self._ours.append(transceiver)
        transceiver.setCodecPreferences(sent_codecs(kind))
        if sends:
            self._sender.attach(kind, transceiver)

    def _first_picture_after_s(self) -> float | None:
        if (sent_at := self._sender.first_picture_at) is None or self._answered_at is None:
            return None
        return sent_at - self._answered_at - (self._connected_after_s or 0.0)

    def _settle(self, transceiver: RTCRtpTransceiver, h264: H264Format) -> None:
        """After the offer is in: its H.264 format, our microphone; a camera or a second voice is turned off, not drained."""
        if transceiver not in self._ours:
            transceiver.direction = "inactive"
        elif transceiver.kind == "video":
            for codec in transceiver._codecs:
                if codec.name.lower() == "h264":
                    codec.parameters = dict(h264.parameters(self._hub.level))
            if h264.mode == 0:
                self._hub.send_single_nals()
        elif self._microphone is not None and transceiver.direction in ("recvonly", "sendrecv"):
            rtc_patches.hook_microphone(transceiver.receiver, self._microphone.packet, self._clock)

    async def _add_candidate(self, candidate: TrickledCandidate) -> None:
        if candidate.sdp_mid is None and candidate.sdp_mline_index is None:
            raise InvalidInputError("candidate", "neither sdpMid nor sdpMLineIndex", "one of them")
        try:
            parsed = candidate_from_sdp(candidate.candidate.removeprefix("candidate:"))
            parsed.sdpMid, parsed.sdpMLineIndex = candidate.sdp_mid, candidate.sdp_mline_index
            await self._pc.addIceCandidate(parsed)
        except (ValueError, AssertionError) as error:
            raise InvalidInputError("candidate", candidate.candidate[:80], "an ICE candidate (RFC 8839)") from error

    def _state_changed(self) -> None:
        state = self._pc.connectionState
        if state == "connected" and self._connected_after_s is None and self._answered_at is not None:
            self._connected_after_s = self._clock() - self._answered_at
            self._cancel_timers()
            if self._microphone is not None:
                self._later(MICROPHONE_TICK_S, self._microphone_passes)
            self._later(OWN_CHANNEL_AFTER_S, self._open_own_channel)
            if self._on_connected is not None:
                self._on_connected()
        elif state == "failed":
            self._end(EndReason.PEER_LOST if self._connected_after_s is not None else EndReason.FAILED)
        elif state == "closed":
            self._end(EndReason.PEER_LOST if self._consent_lost() else EndReason.PEER_CLOSED)

    def _consent_lost(self) -> bool:
        for transceiver in self._pc.getTransceivers():
            if transceiver.receiver.transport.transport.state == "failed":
                return True
        return False

    def _channel_opened(self, channel: Any) -> None:
        if channel.label == LABEL or not self._events.attached:
            self._events.attach(channel)

    def _open_own_channel(self) -> None:
        if self._pc.sctp is not None and self._pc.sctp.state == "connected" and not self._events.attached:
            self._events.attach(self._pc.createDataChannel(LABEL))

    def _microphone_passes(self) -> None:
        if self._microphone is not None and not self._ended:
            self._microphone.passes()
            self._later(MICROPHONE_TICK_S, self._microphone_passes)

    def _deaf(self, error: BaseException) -> None:
        structlog.get_logger("liveanchor.webrtc").error("microphone_broke", reason=first_line(error, named=True))
        self._end(EndReason.FAILED)

    def _connect_timed_out(self) -> None:
        self._end(EndReason.CONNECT_TIMEOUT)

    def _end(self, reason: EndReason) -> None:
        callback, self._on_ended = self._on_ended, None
        if self._ended:
            return
        self._ending = self._loop.create_task(self._shut())
        if callback is not None:
            self._ending.add_done_callback(lambda _: callback(reason))

    async def _shut(self) -> None:
        if self._closing is None:
            self._ended = True
            self._closing = self._loop.create_task(self._free())
        await asyncio.shield(self._closing)

    async def _free(self) -> None:
        self._cancel_timers()
        self._unlisten()
        self._sender.stop()
        if self._microphone is not None:
            self._microphone.close()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self._pc.close()
        except TimeoutError:
            self._pc.remove_all_listeners()
        except AIORTC_FAULTS as error:  # a connection that was never whole
            self._pc.remove_all_listeners()
            structlog.get_logger("liveanchor.webrtc").warning("peer_not_closed", fault=type(error).__name__)

    def _later(self, delay_s: float, call: Callable[[], None]) -> None:
        now = self._loop.time()
        self._timers = [timer for timer in self._timers if timer.when() > now and not timer.cancelled()]
        self._timers.append(self._loop.call_later(delay_s, call))

    def _cancel_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()


def _direction(sends: bool, receives: bool) -> str:
    if sends:
        return "sendrecv" if receives else "sendonly"
    return "recvonly" if receives else "inactive"
