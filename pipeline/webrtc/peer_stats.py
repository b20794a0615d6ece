"""What one connection carries and loses."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from pipeline.webrtc.packets import CLOCK_HZ, MediaKind
from pipeline.webrtc.voice_receiver import VoiceReceiverStats

WINDOW_S = 1.0
KEPT_LAGS = 64


@dataclass(frozen=True)
class PeerStats:
    """What is counted of one connection.

    Attributes:
        state: "new", "connecting", "connected", "closed" or "failed".
        fps_out: Pictures sent in the last second.
        bitrate_kbps: Bit rate of pictures sent in the last second, RTP headers left out.
        packets_lost: Video packets that the client says it lost, before retransmission.
        fraction_lost: Share of video packets lost between its last two reports, 0..1.
        jitter_ms: Jitter of video at the client.
        round_trip_ms: By RTCP; None before the first report.
        nacked_packets: Packets that the client asked for again.
        key_requests: Key frames that it asked for.
        estimate_kbps: Its estimate of the network (REMB); None where it sends none.
        queue_depth: Pictures that wait to be sent.
        queue_overflows: Times that the queue was thrown away.
        units_dropped: Pictures thrown away for this client.
        connected_after_s: From the answer to the connection; None before.
        first_picture_after_s: From the connection to the first picture sent; None before.
        microphone: None without one.
        send_offset_ms: How much later a picture leaves than the voice of its moment, median of the last seconds; None before both
            were sent. Players make up for it by the sender reports, so it costs delay and not lip sync.
    """

    state: str
    fps_out: float
    bitrate_kbps: float
    packets_lost: int
    fraction_lost: float
    jitter_ms: float
    round_trip_ms: float | None
    nacked_packets: int
    key_requests: int
    estimate_kbps: float | None
    queue_depth: int
    queue_overflows: int
    units_dropped: int
    connected_after_s: float | None
    first_picture_after_s: float | None
    microphone: VoiceReceiverStats | None
    send_offset_ms: float | None


class SendRate:
    """Units and bytes of the last second.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._sent: deque[tuple[float, int]] = deque()

    def add(self, size: int) -> None:
        """A unit of `size` bytes was sent."""
        self._sent.append((self._clock(), size))
        self._forget()

    def rates(self) -> tuple[float, float]:
        """Units per second and kbit/s."""
        self._forget()
        return len(self._sent) / WINDOW_S, sum(size for _, size in self._sent) * 8 / 1000 / WINDOW_S

    def _forget(self) -> None:
        oldest = self._clock() - WINDOW_S
        while self._sent and self._sent[0][0] <= oldest:
            self._sent.popleft()


class SendLags:
    """How late pictures and voice leave, each against its own media time.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lags: dict[MediaKind, deque[float]] = {"video": deque(maxlen=KEPT_LAGS), "audio": deque(maxlen=KEPT_LAGS)}

    def add(self, kind: MediaKind, timestamp: int) -> None:
        """A unit of this RTP time, counted from media time 0, was sent."""
        self._lags[kind].append(self._clock() - timestamp / CLOCK_HZ[kind])

    def offset_ms(self) -> float | None:
        """Median of pictures less median of voice; None before both were sent."""
        video, audio = self._lags["video"], self._lags["audio"]
        return 1000 * (median(video) - median(audio)) if video and audio else None
