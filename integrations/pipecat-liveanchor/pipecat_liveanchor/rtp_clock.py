"""The sender's media time of decoded frames, from its RTCP sender reports. The only place that names private parts of aiortc."""

from __future__ import annotations

from typing import Any, Final

from aiortc import RTCRtpReceiver
from aiortc.rtp import RtcpSrPacket

CLOCK_HZ: Final = {"audio": 48_000, "video": 90_000}
_WRAP: Final = 1 << 32


class RtpClock:
    """Places frames of one receiver on the clock that all streams of a sender share.

    Args:
        receiver: Receiver of the stream.
        kind: "audio" or "video".
    """

    def __init__(self, receiver: RTCRtpReceiver, kind: str) -> None:
        self._receiver: Any = receiver
        self._hz = CLOCK_HZ[kind]
        self._first: tuple[int, int] | None = None
        self._offset_s: float | None = None
        stock = self._receiver._handle_rtcp_packet

        async def handle(packet: Any) -> None:
            if isinstance(packet, RtcpSrPacket):
                self._report(packet.sender_info.ntp_timestamp, packet.sender_info.rtp_timestamp)
            await stock(packet)

        self._receiver._handle_rtcp_packet = handle

    @property
    def known(self) -> bool:
        """Whether a report has come, so that frames have a place."""
        return self._offset_s is not None

    def place_s(self, pts: int) -> float | None:
        """Sender's time of a frame in seconds since 1900, from its `pts`; None before the first report.

        aiortc counts `pts` from the first frame of a stream; its RTP time is added again.
        """
        origin = self._receiver._RTCRtpReceiver__timestamp_mapper._origin
        if self._offset_s is None or origin is None or self._first is None:
            return None
        rtp = (pts + origin - self._first[1]) & (_WRAP - 1)
        ahead = rtp - _WRAP if rtp >= _WRAP // 2 else rtp
        return self._first[0] / _WRAP + ahead / self._hz + self._offset_s

    def _report(self, ntp: int, rtp: int) -> None:
        if self._first is None:
            self._first = ntp, rtp
        ahead = (rtp - self._first[1]) & (_WRAP - 1)
        ahead = ahead - _WRAP if ahead >= _WRAP // 2 else ahead
        self._offset_s = (ntp - self._first[0]) / _WRAP - ahead / self._hz
