"""The parts of the measuring client that reach into aiortc: clocks by sender report, loss, a microphone with its own clock."""

from __future__ import annotations

import asyncio
import random
import time
from fractions import Fraction
from typing import Any, cast

import av
import numpy as np
from aiortc import MediaStreamTrack, RTCPeerConnection, RTCRtpReceiver
from aiortc.rtp import RtcpSrPacket, is_rtcp

from kernels.arrays import F32
from pipeline.media.resample import resample
from pipeline.types import SAMPLE_RATE_HZ

RTP_HZ = {"video": 90_000, "audio": 48_000}
NTP_UNIX_OFFSET_S = 2_208_988_800
RATE_HZ = 48_000
BLOCK = 960
ONSET_RMS = 0.02
"""A 20 ms block of the microphone at or above this is speech."""
PAUSE_S = 1.0
"""Speech after this much silence is an onset."""
ASK_AGAIN_S = 0.03
BEFORE_S, AFTER_S = 1.2, 2.5
"""Pictures around an onset that are kept."""


class ReportClock:
    """Places decoded frames of one receiver on the sender's clock by its RTCP reports.

    Args:
        receiver: Before it starts.
    """

    def __init__(self, receiver: RTCRtpReceiver) -> None:
        self._receiver = cast(Any, receiver)
        self._reports: list[tuple[int, int]] = []
        self._stock = self._receiver._handle_rtcp_packet
        self._receiver._handle_rtcp_packet = self._handle

    def instant(self, pts: int) -> float | None:
        """Unix time of a frame by the report nearest to it; `pts` as aiortc gives it. None before a report."""
        origin = self._receiver._RTCRtpReceiver__timestamp_mapper._origin
        if not self._reports or origin is None:
            return None
        gaps = [((origin + pts - rtp + 2**31) & 0xFFFFFFFF) - 2**31 for _, rtp in self._reports]
        nearest = min(range(len(gaps)), key=lambda index: abs(gaps[index]))
        clock_hz: int = RTP_HZ[self._receiver._RTCRtpReceiver__kind]
        return self._reports[nearest][0] / 2**32 - NTP_UNIX_OFFSET_S + float(gaps[nearest] / clock_hz)

    async def _handle(self, packet: Any) -> None:
        if isinstance(packet, RtcpSrPacket) and packet.sender_info.ntp_timestamp:
            self._reports.append((packet.sender_info.ntp_timestamp, packet.sender_info.rtp_timestamp))
        await self._stock(packet)


def lose_packets(connection: RTCPeerConnection, share: float, seed: int = 1) -> None:
    """Drop RTP packets of a connection, both ways, at random; RTCP passes."""
    draw = random.Random(seed)  # noqa: S311  # reproducible draws, no secrets
    for transport in {transceiver.receiver.transport for transceiver in connection.getTransceivers()}:
        _lose(transport, draw, share)


def _lose(transport: Any, draw: random.Random, share: float) -> None:
    send, receive = transport._send_rtp, transport._handle_rtp_data

    async def lossy_send(data: bytes) -> None:
        if is_rtcp(data) or draw.random() >= share:
            await send(data)

    async def lossy_receive(data: bytes, arrival_time_ms: int) -> None:
        if draw.random() >= share:
            await receive(data, arrival_time_ms=arrival_time_ms)

    transport._send_rtp, transport._handle_rtp_data = lossy_send, lossy_receive


async def ask_again(receiver: RTCRtpReceiver) -> None:
    """Ask for missing video packets until they come, as browsers do; aiortc asks once and then waits. Runs until cancelled."""
    video = cast(Any, receiver)
    while True:
        await asyncio.sleep(ASK_AGAIN_S)
        missing = video._RTCRtpReceiver__nack_generator.missing
        sources = video._RTCRtpReceiver__active_ssrc
        if missing and sources:
            await video._send_rtcp_nack(next(iter(sources)), sorted(missing))


class SpeechTrack(MediaStreamTrack):
    """A microphone that plays speech, then silence, on a clock that may run fast or slow.

    Two equal channels are sent: FFmpeg would take 3 dB off a single one on its way to aiortc's stereo encoder.

    Args:
        speech: float32 (n,), 16 kHz.
        after_s: Seconds of silence before the speech.
        ppm: Parts per million by which the clock is fast.
        loops: Whether the speech begins again when it is over; silence follows otherwise.

    Attributes:
        onsets_at: Monotonic seconds at which the first sample of each onset was handed over so far.
    """

    kind = "audio"

    def __init__(self, speech: F32, after_s: float, ppm: float, loops: bool = False) -> None:
        super().__init__()
        silence = np.zeros((round(after_s * SAMPLE_RATE_HZ), 1), np.float32)
        samples = resample(np.concatenate([silence, speech[:, None]]), SAMPLE_RATE_HZ, RATE_HZ)[:, 0]
        self._blocks = np.append(samples, np.zeros(-len(samples) % BLOCK, np.float32)).reshape(-1, BLOCK)
        self._onsets = set(onset_blocks(self._blocks))
        self._block_s = BLOCK / RATE_HZ / (1 + ppm * 1e-6)
        self._loops = loops
        self._index = 0
        self._began: float | None = None
        self.onsets_at: list[float] = []

    def near_onset(self, now: float) -> bool:
        """Whether a picture decoded now says something about an onset."""
        if self._began is None:
            return False
        coming = any(self._began + one * self._block_s - BEFORE_S <= now for one in self._onsets if one >= self._index)
        return coming or any(at <= now <= at + AFTER_S for at in self.onsets_at)

    async def recv(self) -> av.AudioFrame:
        """The next 20 ms when they are due; a block is handed over when its last sample has been spoken."""
        if self._began is None:
            self._began = time.monotonic()
        due = self._began + (self._index + 1) * self._block_s
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        if self._index in self._onsets:
            self.onsets_at.append(due - self._block_s)
        place = self._index % len(self._blocks) if self._loops else self._index
        block = self._blocks[place] if place < len(self._blocks) else np.zeros(BLOCK, np.float32)
        wave = np.repeat(np.rint(np.clip(block, -1, 1) * 32767).astype(np.int16), 2)
        frame = av.AudioFrame.from_ndarray(wave[None], format="s16", layout="stereo")
        frame.sample_rate, frame.pts, frame.time_base = RATE_HZ, self._index * BLOCK, Fraction(1, RATE_HZ)
        self._index += 1
        return frame


def onset_blocks(blocks: F32) -> list[int]:
    """Blocks, float32 (n, 960), with which speech begins after a second of silence or at the start of the track."""
    loud = np.sqrt(np.mean(np.square(blocks, dtype=np.float64), axis=1)) >= ONSET_RMS
    pause = round(PAUSE_S * RATE_HZ / BLOCK)
    return [int(one) for one in np.flatnonzero(loud) if not loud[max(one - pause, 0) : one].any()]
