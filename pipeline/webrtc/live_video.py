"""A live H.264 stream: key frames on request, a bit rate that moves while it runs, RTP payloads out."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from pipeline.config import EncoderSettings
from pipeline.media.encoder import VideoEncoder, VideoFormat
from pipeline.media.encoder_select import EncoderSelector
from pipeline.types import Nv12Canvas
from pipeline.webrtc.packets import VIDEO_CLOCK_HZ, EncodedUnit

if TYPE_CHECKING:
    from aiortc.codecs.h264 import H264Encoder

    from pipeline.media.encoder import VideoPacket

KEY_INTERVAL_S = 0.25
"""Requested key frames are at least this far apart; requests in between are answered by one at the end of it."""
BAND = 2.0
"""An encoder is opened for twice the rate it starts at and serves down to half of it; beyond, it is opened anew."""

MAX_NAL_BYTES = 1200
"""Largest slice where a packet must hold a whole one; with RTP, SRTP and UDP around it, it fits an Ethernet frame."""
_START_CODE = re.compile(rb"\x00{2,}\x01")


class LiveVideo:
    """Encodes pictures; one thread uses it, but `request_key` may be called from any.

    libx264 and NVENC follow a changed bit rate without a key frame, but only below the rate they were opened for, and
    their buffer (VBV) keeps its size in bits. So each encoder serves one band of rates, in which its buffer is worth half
    to twice `live_vbv_s`; leaving the band opens the next encoder, which begins with a key frame.

    Args:
        video_format: Size, rate and colour.
        settings: Presets and preference; `live_kbps` is not used, the caller gives the rate.
        max_kbps: Ceiling of the rate.
        selector: Opens encoders.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        video_format: VideoFormat,
        settings: EncoderSettings,
        max_kbps: int,
        selector: EncoderSelector,
        clock: Callable[[], float],
    ) -> None:
        self._format = video_format
        self._settings = settings
        self._max_kbps = max_kbps
        self._selector = selector
        self._clock = clock
        self._encoder: VideoEncoder | None = None
        self._packer: H264Encoder | None = None
        self._key_wanted = False
        self._key_at = float("-inf")
        self._floor_kbps = 0.0
        self._ceiling_kbps = 0
        self._kbps = 0
        self._max_nal_bytes = 0
        self.single_nals = False
        """Whether every payload is one whole NAL unit. Any thread may set it; libx264, which can cut slices by their size, takes
        over with the next picture."""
        self.key_frames = 0
        self.reopened = 0

    @property
    def codec_name(self) -> str:
        """FFmpeg's name of the encoder in use; empty before the first picture."""
        return self._encoder.codec_name if self._encoder is not None else ""

    @property
    def kbps(self) -> int:
        """The rate in force."""
        return self._kbps

    @property
    def key_due(self) -> bool:
        """Whether a key frame was asked for and may be made now."""
        return self._key_wanted and self._clock() - self._key_at >= KEY_INTERVAL_S

    def request_key(self) -> None:
        """Make the next picture a key frame, but not within `KEY_INTERVAL_S` of the last one."""
        self._key_wanted = True

    def encode(self, canvas: Nv12Canvas, index: int, kbps: int) -> list[EncodedUnit]:
        """Encode one picture.

        Args:
            canvas: A picture of the stream's size; its memory may be reused at once.
            index: Frame number at the stream's rate, larger than every one before.
            kbps: Wanted bit rate.

        Raises:
            EncoderError: No encoder opens, or it failed.
            ShapeError: Another size.
        """
        encoder = self._prepare(kbps)
        units = [self._packed(packet) for packet in encoder.encode(canvas, force_idr=self.key_due, pts=index)]
        if any(unit.key for unit in units):
            self._key_wanted = False  # who asked meanwhile gets this one
        return units

    def close(self) -> None:
        """Free the encoder; harmless when repeated."""
        if self._encoder is not None:
            self._encoder.close()
            self._encoder = None

    def _prepare(self, kbps: int) -> VideoEncoder:
        single = self.single_nals
        in_band = self._floor_kbps <= kbps <= self._ceiling_kbps
        if self._encoder is not None and in_band and single == (self._max_nal_bytes > 0):
            if kbps != self._kbps:
                self._encoder.set_rate(kbps)
                self._kbps = kbps
            return self._encoder
        self.reopened += self._encoder is not None
        self.close()
        ceiling = max(kbps, min(round(kbps * BAND), self._max_kbps))
        vbv_s = self._settings.live_vbv_s * kbps / ceiling
        settings = self._settings.model_copy(update={"live_kbps": ceiling, "live_vbv_s": vbv_s})
        self._max_nal_bytes = MAX_NAL_BYTES if single else 0
        if single:
            settings = settings.model_copy(update={"prefer": "x264"})
        video_format = replace(self._format, max_nal_bytes=self._max_nal_bytes)
        encoder = self._selector.open(video_format, "live", settings)
        encoder.set_rate(kbps)
        self._encoder, self._kbps = encoder, kbps
        self._floor_kbps, self._ceiling_kbps = kbps / BAND, ceiling
        return encoder

    def _packed(self, packet: VideoPacket) -> EncodedUnit:
        from aiortc.codecs.h264 import H264Encoder

        if self._max_nal_bytes:
            payloads = [unit for unit in _START_CODE.split(bytes(packet)) if unit]
        else:
            if self._packer is None:
                self._packer = H264Encoder()
            payloads, _ = self._packer.pack(packet)
        key = bool(packet.is_keyframe)
        if key:
            self.key_frames += 1
            self._key_at = self._clock()
        timestamp = round((packet.pts or 0) * VIDEO_CLOCK_HZ / self._format.rate)
        return EncodedUnit(tuple(payloads), timestamp, key)
