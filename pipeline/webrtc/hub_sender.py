"""The part of a connection that sends: a hub's pictures and voice, whoever made the offer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from aiortc import RTCRtpSender, RTCRtpTransceiver
from aiortc.rtcrtpparameters import RTCRtpCodecCapability

from pipeline.webrtc.hub import LiveHub
from pipeline.webrtc.packets import EncodedUnit, MediaKind
from pipeline.webrtc.peer_stats import PeerStats, SendLags, SendRate
from pipeline.webrtc.rtc_patches import SenderCounts, SenderEvents, SenderHook
from pipeline.webrtc.tracks import PacketTrack
from pipeline.webrtc.voice_receiver import VoiceReceiverStats

MIME: Final[dict[MediaKind, str]] = {"video": "video/h264", "audio": "audio/opus"}


def sent_codecs(kind: MediaKind) -> list[RTCRtpCodecCapability]:
    """Codecs in which a hub sends, and the format of retransmissions."""
    known = RTCRtpSender.getCapabilities(kind).codecs
    return [codec for codec in known if codec.mimeType.lower() in (MIME[kind], f"{kind}/rtx")]


class HubSender:
    """Sends a hub's media over the transceivers of one connection, and hands the receiver's reports to the hub.

    Args:
        hub: What is sent.
        clock: Monotonic seconds.

    Attributes:
        hooks: What is attached to each sender.
        first_picture_at: When the first picture was handed to the network, by `clock`; None before.
    """

    def __init__(self, hub: LiveHub, clock: Callable[[], float] = time.monotonic) -> None:
        self.first_picture_at: float | None = None
        self._hub = hub
        self._clock = clock
        self._tracks: dict[MediaKind, PacketTrack] = {}
        self.hooks: dict[MediaKind, SenderHook] = {}
        self._sent = SendRate(clock)
        self._lags = SendLags(clock)

    def attach(self, kind: MediaKind, transceiver: RTCRtpTransceiver) -> None:
        """Send what the hub makes of a kind over a transceiver; before the connection begins, once per kind."""
        track = PacketTrack(kind, self._hub)
        transceiver.sender.replaceTrack(track)
        self._tracks[kind] = track
        voice = SenderEvents(sent=lambda unit: self._lags.add("audio", unit.timestamp))
        events = self._video_events() if kind == "video" else voice
        self.hooks[kind] = SenderHook(transceiver.sender, self._hub.epoch_ntp, events, self._clock)

    def stop(self) -> None:
        """Send nothing more, and let the receiver's network no longer count; harmless when repeated."""
        for track in self._tracks.values():
            track.stop()
        self._hub.forget(self)

    def stats(
        self,
        state: str,
        connected_after_s: float | None,
        first_picture_after_s: float | None,
        microphone: VoiceReceiverStats | None = None,
    ) -> PeerStats:
        """What was sent and lost so far; the arguments are what the connection knows, see `PeerStats`."""
        fps, kbps = self._sent.rates()
        track = self._tracks.get("video")
        queue = track.queue if track is not None else None
        hook = self.hooks.get("video")
        counts = hook.counts if hook is not None else SenderCounts()
        return PeerStats(
            state=state,
            fps_out=fps,
            bitrate_kbps=kbps,
            packets_lost=counts.packets_lost,
            fraction_lost=counts.fraction_lost,
            jitter_ms=counts.jitter_ms,
            round_trip_ms=counts.round_trip_ms,
            nacked_packets=counts.nacked_packets,
            key_requests=counts.key_requests,
            estimate_kbps=counts.estimate_bps / 1000 if counts.estimate_bps is not None else None,
            queue_depth=len(queue) if queue is not None else 0,
            queue_overflows=queue.overflows if queue is not None else 0,
            units_dropped=queue.dropped if queue is not None else 0,
            connected_after_s=connected_after_s,
            first_picture_after_s=first_picture_after_s,
            microphone=microphone,
            send_offset_ms=self._lags.offset_ms(),
        )

    def _video_events(self) -> SenderEvents:
        def sent(unit: EncodedUnit) -> None:
            self._sent.add(unit.size)
            self._lags.add("video", unit.timestamp)
            if self.first_picture_at is None:
                self.first_picture_at = self._clock()

        return SenderEvents(
            key_wanted=self._hub.request_key,
            estimate=lambda bits_per_second: self._hub.on_estimate(self, bits_per_second),
            loss=lambda fraction: self._hub.on_loss(self, fraction),
            sent=sent,
        )
