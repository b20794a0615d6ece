"""Everything in which we change how aiortc 1.16 and aioice 0.13 behave, and why, with `gathering` as a part of it.

Outside these two files one private name is read, never set: the codecs that a transceiver has agreed on, in `peer`.

Process-wide, by `apply_patches()`:
* A dead peer is noticed after five failed consent checks, one a second, about 5 s, instead of 30 s (RFC 7675).
* Retransmission remembers 1024 packets per stream, 2.6 s at 4 Mbit/s, instead of 128.
* An answer keeps the offer's payload numbers, whatever they are: browsers go below 96 where they have many formats (RFC 3551,
  RFC 3264), and aiortc would answer with numbers of its own there.
* Addresses of our own are found as `gathering` says, which is a part of this.

Per object, by `SenderHook`, `hook_microphone` and `bound_channels`:
* A sender takes units that were encoded and cut into payloads once for all viewers, instead of encoding per peer.
* Key-frame requests (PLI, FIR), the receiver's bit-rate estimate (REMB) and its reports reach us; aiortc drops the first two
  when packets are passed through.
* Sender reports map RTP time to the media clock, not to the moment of sending, so that picture and voice agree exactly.
* Audio goes to our own jitter buffer and decoder: aiortc's stays 280 ms late for good after one lost packet.
* A client's floods are left out: packets of a microphone, of which a receiver keeps statistics per source for good, retransmissions
  that it asks for, data channels, messages without end, for which aiortc's receive window is no bound, and without pause.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiortc.rtcrtpreceiver
import aiortc.rtcrtpsender
import aiortc.rtp
from aioice import ice
from aiortc import RTCRtpReceiver, RTCRtpSender, RTCSctpTransport
from aiortc.mediastreams import MediaStreamTrack
from aiortc.rtcrtpparameters import RTCRtpCodecParameters
from aiortc.rtcrtpsender import RTCEncodedFrame

from pipeline.webrtc import gathering
from pipeline.webrtc.flood_gate import FloodGate
from pipeline.webrtc.packets import CLOCK_HZ, EncodedUnit

CONSENT_INTERVAL_S = 0.5
"""Between two checks; one that fails takes another half second to do so."""
CONSENT_FAILURES = 5
RTP_HISTORY = 1024
PAYLOAD_TYPES = range(128)
SENT_REPORTS = 16
"""Sender reports remembered for the round-trip time."""
MASK_32 = 0xFFFFFFFF
MICROPHONE_PACKETS = (500.0, 1000.0)
"""Per second and at once; Opus sends 400 at most, 50 as a rule."""
MICROPHONE_SOURCES = 8
RESENT_PACKETS = (2000.0, 4000.0)
"""Per second and at once: 20 Mbit/s."""
CHANNEL_CHUNKS = (200.0, 400.0)
"""Per second and at once, of all data channels together: 240 kB/s, where a client has next to nothing to say."""
MAX_CHANNELS = 16
MAX_UNFINISHED_BYTES = 256 * 1024
"""Most bytes of messages that have begun and not ended; what a client may tell us fits many times."""
MAX_MISORDERED = 256
"""Chunks that came before others that are missing; aiortc sorts all of them for every chunk that comes."""
CHANNEL_CONTROL = 50
"""Payload protocol of what opens a data channel (RFC 8832)."""

PRIVATE_NAMES: tuple[tuple[object, str], ...] = (
    (ice, "CONSENT_INTERVAL"),
    (ice, "CONSENT_FAILURES"),
    (ice, "get_host_addresses"),
    (ice, "asyncio"),
    (ice.Connection, "get_component_candidates"),
    (ice, "server_reflexive_candidate"),
    (ice, "relayed_candidate"),
    (ice.Connection, "query_consent"),
    (aiortc.rtp, "DYNAMIC_PAYLOAD_TYPES"),
    (aiortc.rtp, "RTP_HISTORY_SIZE"),
    (aiortc.rtcrtpsender, "RTP_HISTORY_SIZE"),
    (aiortc.rtcrtpreceiver, "RTP_HISTORY_SIZE"),
    (RTCRtpSender, "_next_encoded_frame"),
    (RTCRtpSender, "_send_keyframe"),
    (RTCRtpSender, "_send_rtcp"),
    (RTCRtpSender, "_handle_rtcp_packet"),
    (RTCRtpReceiver, "_handle_rtp_packet"),
    (RTCSctpTransport, "_receive_data_chunk"),
    (RTCSctpTransport, "_mark_received"),
)
"""What must exist in the installed releases; a test asks for it."""
SENDER_FIELDS = ("_RTCRtpSender__rtp_timestamp", "_enabled", "_ssrc")
RECEIVER_FIELDS = ("_RTCRtpReceiver__jitter_buffer",)
CHANNEL_FIELDS = ("_advertised_rwnd", "_data_channels", "_last_received_tsn", "_sack_misordered", "_sack_needed")

_applied = False


def apply_patches() -> None:
    """Change the libraries for this process; harmless when repeated."""
    global _applied
    if _applied:
        return
    _applied = True
    ice.CONSENT_INTERVAL = CONSENT_INTERVAL_S  # type: ignore[assignment]  # any number does
    ice.CONSENT_FAILURES = CONSENT_FAILURES
    aiortc.rtp.DYNAMIC_PAYLOAD_TYPES = PAYLOAD_TYPES
    for module in (aiortc.rtp, aiortc.rtcrtpsender):
        module.RTP_HISTORY_SIZE = RTP_HISTORY  # type: ignore[attr-defined]
    gathering.apply_patches()


@dataclass
class SenderCounts:
    """What a viewer's receiver told about one stream.

    Attributes:
        units: Units sent.
        nacked_packets: Packets asked for again.
        key_requests: PLI and FIR received.
        fraction_lost: Share of packets lost between the last two reports, 0..1.
        packets_lost: Total, by the last report.
        jitter_ms: Interarrival jitter, by the last report.
        round_trip_ms: By sender and receiver report; None before both.
        estimate_bps: Last REMB; None before one.
    """

    units: int = 0
    nacked_packets: int = 0
    key_requests: int = 0
    fraction_lost: float = 0.0
    packets_lost: int = 0
    jitter_ms: float = 0.0
    round_trip_ms: float | None = None
    estimate_bps: int | None = None


@dataclass
class SenderEvents:
    """Whom a sender tells; each may be left out.

    Attributes:
        key_wanted: The receiver needs a key frame.
        estimate: The receiver's estimate in bit/s.
        loss: Share of packets lost since the report before, 0..1.
        sent: A unit was handed to the network.
    """

    key_wanted: Callable[[], None] = lambda: None
    estimate: Callable[[int], None] = lambda _: None
    loss: Callable[[float], None] = lambda _: None
    sent: Callable[[EncodedUnit], None] = lambda _: None


@dataclass
class SenderHook:
    """Attached to one `RTCRtpSender` before it starts; its track must yield `EncodedUnit`.

    Attributes:
        sender: The sender that is changed.
        epoch_ntp: Gives media time 0 as 64-bit NTP time, None while unknown.
        events: Whom to tell.
        clock: Monotonic seconds.
    """

    sender: RTCRtpSender
    epoch_ntp: Callable[[], int | None]
    events: SenderEvents
    clock: Callable[[], float] = time.monotonic
    counts: SenderCounts = field(default_factory=SenderCounts)

    def __post_init__(self) -> None:
        sender: Any = self.sender
        self._clock_hz = CLOCK_HZ[sender.kind]
        self._last: int | None = None
        self._origin: int | None = None
        self._sent_reports: dict[int, float] = {}
        self._resent = FloodGate(*RESENT_PACKETS, self.clock)
        self._stock_rtcp: Callable[[list[Any]], Awaitable[None]] = sender._send_rtcp
        self._stock_handler: Callable[[Any], Awaitable[None]] = sender._handle_rtcp_packet
        sender._next_encoded_frame = self._next_unit
        sender._send_rtcp = self._send_reports
        sender._send_keyframe = self._key_wanted
        sender._handle_rtcp_packet = self._handle_feedback

    async def _next_unit(self, codec: RTCRtpCodecParameters) -> RTCEncodedFrame | None:
        sender: Any = self.sender
        if self._last is not None:
            # The unit before has left completely: its RTP time tells the random number that aiortc adds to ours.
            self._origin = (sender._RTCRtpSender__rtp_timestamp - self._last) & MASK_32
        track: MediaStreamTrack = sender.track
        unit: Any = await track.recv()
        if not sender._enabled:
            return None
        self._last = unit.timestamp
        self.counts.units += 1
        self.events.sent(unit)
        return RTCEncodedFrame(list(unit.payloads), unit.timestamp, None)  # type: ignore[arg-type]  # no audio level known

    async def _send_reports(self, packets: list[Any]) -> None:
        for packet in packets:
            if isinstance(packet, aiortc.rtp.RtcpSrPacket):
                if self._origin is None or self._last is None or (epoch := self.epoch_ntp()) is None:
                    return  # nothing sent yet: a report would tie the clocks wrongly
                ahead = (packet.sender_info.rtp_timestamp - self._origin - self._last) & MASK_32
                media = self._last + (ahead if ahead < 2**31 else ahead - 2**32)
                ntp = epoch + (media << 32) // self._clock_hz
                packet.sender_info.ntp_timestamp = ntp & 0xFFFFFFFFFFFFFFFF
                self._sent_reports[(ntp >> 16) & MASK_32] = self.clock()
                while len(self._sent_reports) > SENT_REPORTS:
                    self._sent_reports.pop(next(iter(self._sent_reports)))
        await self._stock_rtcp(packets)

    def _key_wanted(self) -> None:
        self.counts.key_requests += 1
        self.events.key_wanted()

    async def _handle_feedback(self, packet: Any) -> None:
        rtp = aiortc.rtp
        if isinstance(packet, rtp.RtcpRrPacket | rtp.RtcpSrPacket):
            for report in packet.reports:
                if report.ssrc == self.sender._ssrc:
                    self._handle_report(report)
        elif isinstance(packet, rtp.RtcpRtpfbPacket) and packet.fmt == rtp.RTCP_RTPFB_NACK:
            self.counts.nacked_packets += len(packet.lost)
            if not self._resent.lets(len(packet.lost)):
                return
        elif isinstance(packet, rtp.RtcpPsfbPacket) and packet.fmt == rtp.RTCP_PSFB_APP:
            self._handle_estimate(packet.fci)
        await self._stock_handler(packet)

    def _handle_report(self, report: Any) -> None:
        counts = self.counts
        counts.fraction_lost = report.fraction_lost / 256
        counts.packets_lost = report.packets_lost
        counts.jitter_ms = report.jitter * 1000 / self._clock_hz
        sent_at = self._sent_reports.get(report.lsr)
        if sent_at is not None:
            counts.round_trip_ms = max(0.0, (self.clock() - sent_at - report.dlsr / 65536) * 1000)
        self.events.loss(counts.fraction_lost)

    def _handle_estimate(self, payload: bytes) -> None:
        try:
            bits_per_second, ssrcs = aiortc.rtp.unpack_remb_fci(payload)
        except ValueError:
            return
        if self.sender._ssrc in ssrcs:
            self.counts.estimate_bps = bits_per_second
            self.events.estimate(bits_per_second)


class _PacketTap:
    """Stands where aiortc expects a jitter buffer; lets no frame through to its decoder."""

    def __init__(self, take: Callable[[int, int, bytes], None]) -> None:
        self._take = take

    def add(self, packet: Any) -> tuple[bool, None]:
        self._take(packet.sequence_number, packet.timestamp, packet._data)
        return False, None


def hook_microphone(
    receiver: RTCRtpReceiver, take: Callable[[int, int, bytes], None], clock: Callable[[], float] = time.monotonic
) -> FloodGate:
    """Have a receiver's packets handed to `take(sequence, rtp_timestamp, payload)` in order of arrival, undecoded.

    aiortc's decoder and the track's unbounded queue stay empty; reports to the sender go on as before.

    Returns:
        What counts the packets that were too many.
    """
    hooked: Any = receiver
    hooked._RTCRtpReceiver__jitter_buffer = _PacketTap(take)
    stock, gate = hooked._handle_rtp_packet, FloodGate(*MICROPHONE_PACKETS, clock)
    sources: set[int] = set()

    async def handle(packet: Any, arrival_time_ms: int) -> None:
        if packet.ssrc not in sources and len(sources) >= MICROPHONE_SOURCES:
            gate.refused += 1
        elif gate.lets():
            sources.add(packet.ssrc)
            await stock(packet, arrival_time_ms=arrival_time_ms)

    hooked._handle_rtp_packet = handle
    return gate


def bound_channels(transport: RTCSctpTransport, clock: Callable[[], float] = time.monotonic) -> FloodGate:
    """Leave out what is not needed.

    Data channels beyond `MAX_CHANNELS` (acknowledged: the others go on); whatever comes while `MAX_UNFINISHED_BYTES` of messages
    lack their ends; and while `MAX_MISORDERED` chunks wait for a missing one, all but that one. Chunks beyond `CHANNEL_CHUNKS` are
    lost as if by the network: a client that plays by the rules slows down and sends them again.

    Returns:
        What counts the chunks that were too many.
    """
    bounded: Any = transport
    stock, window = bounded._receive_data_chunk, bounded._advertised_rwnd
    gate = FloodGate(*CHANNEL_CHUNKS, clock)

    async def receive(chunk: Any) -> None:
        if window - bounded._advertised_rwnd >= MAX_UNFINISHED_BYTES:
            return
        if len(bounded._sack_misordered) >= MAX_MISORDERED and chunk.tsn != (bounded._last_received_tsn + 1) & MASK_32:
            return
        if not gate.lets():
            return
        if chunk.protocol == CHANNEL_CONTROL and len(bounded._data_channels) >= MAX_CHANNELS:
            bounded._sack_needed = True
            bounded._mark_received(chunk.tsn)
            return
        await stock(chunk)

    bounded._receive_data_chunk = receive
    return gate
