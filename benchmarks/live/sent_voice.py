"""A client's voice as it comes out of the network: speech, Opus packets of 20 ms, SRTP."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import av
import numpy as np
from aiortc import RTCRtpReceiver
from aiortc.rtcdtlstransport import RTCCertificate, RTCDtlsTransport
from aiortc.rtcrtpparameters import RTCRtpCodecParameters
from aiortc.rtp import RtpPacket
from pylibsrtp import Policy, Session

from kernels.arrays import F32

RATE_HZ: Final = 48_000
PACKET: Final = 960
"""Samples of a packet, 20 ms."""
PAYLOAD_TYPE: Final = 111
_KEY: Final = bytes(range(30))
_HARMONICS: Final = 24


def spoken(seconds: float, level_dbfs: float, seed: int) -> F32:
    """Something with the ups and downs of speech, float32 (n,), 48 kHz.

    Args:
        seconds: Length.
        level_dbfs: RMS of all of it.
        seed: Decides pitch, noise and where the pauses lie.
    """
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    pitch = rng.uniform(100, 220)
    buzz = sum(np.sin(2 * np.pi * pitch * k * t + k) / k for k in range(1, _HARMONICS))
    syllables = np.clip(np.sin(2 * np.pi * 3 * t), 0, 1) * (np.sin(2 * np.pi * t / rng.uniform(3, 6)) > -0.5)
    voice = buzz * syllables + 1e-2 * rng.standard_normal(len(t))
    wanted: F32 = (voice * (10 ** (level_dbfs / 20) / float(np.sqrt(np.mean(np.square(voice)))))).astype(np.float32)
    return wanted


def opus_packets(samples: F32) -> list[bytes]:
    """Packets of 20 ms as browsers send a microphone: one channel, 32 kbit/s.

    Args:
        samples: float32 (n,), 48 kHz.
    """
    context: Any = av.CodecContext.create("libopus", "w")
    context.sample_rate, context.bit_rate = RATE_HZ, 32_000
    context.layout, context.format = "mono", "s16"
    context.options = {"application": "voip", "frame_duration": "20"}
    packets = []
    for start in range(0, len(samples) - PACKET + 1, PACKET):
        block = np.rint(np.clip(samples[start : start + PACKET], -1, 1) * 32_767).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(block[None], format="s16", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = RATE_HZ, start, Fraction(1, RATE_HZ)
        packets += [bytes(packet) for packet in context.encode(frame)]
    return packets


class _Datagrams:
    """Stands where aiortc has its ICE transport; what is to be read next is here already."""

    role = "controlled"
    state = "completed"

    def __init__(self) -> None:
        self.next = b""

    async def _recv(self) -> bytes:
        return self.next


class VoiceWire:
    """Brings packets through aiortc's own receiving code: decryption, parsing, routing, statistics.

    Attributes:
        receiver: Where they arrive.
    """

    def __init__(self) -> None:
        self._datagrams = _Datagrams()
        ice: Any = self._datagrams  # of an ICE transport, only this is used here
        transport: Any = RTCDtlsTransport(ice, [RTCCertificate.generateCertificate()])
        self._transport = transport
        transport._RTCDtlsTransport__handshake_done = True
        profile = Policy.SRTP_PROFILE_AES128_CM_SHA1_80
        self._protect = Session(Policy(key=_KEY, ssrc_type=Policy.SSRC_ANY_OUTBOUND, srtp_profile=profile))
        transport._rx_srtp = Session(Policy(key=_KEY, ssrc_type=Policy.SSRC_ANY_INBOUND, srtp_profile=profile))
        receiver: Any = RTCRtpReceiver("audio", transport)
        codec = RTCRtpCodecParameters("audio/opus", RATE_HZ, 2, PAYLOAD_TYPE)
        receiver._RTCRtpReceiver__codecs[PAYLOAD_TYPE] = codec
        self.receiver = receiver
        transport._rtp_router.register_receiver(receiver, [1], [PAYLOAD_TYPE])

    def protected(self, index: int, payload: bytes) -> bytes:
        """The datagram that brings the packet of a number."""
        packet = RtpPacket(
            PAYLOAD_TYPE, sequence_number=index & 0xFFFF, timestamp=index * PACKET & 0xFFFFFFFF, ssrc=1, payload=payload
        )
        return self._protect.protect(packet.serialize())

    def arrives(self, datagram: bytes) -> None:
        """Have a datagram read, as the transport's task would."""
        self._datagrams.next = datagram
        reading = self._transport._recv_next()
        try:
            reading.send(None)
        except StopIteration:
            return
        raise RuntimeError("the transport waited for something")
