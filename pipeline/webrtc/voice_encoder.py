"""The voice of a session as Opus: encoded once, 20 ms a frame, however long the ticks are that bring it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from kernels.arrays import F32
from pipeline.media.encoder import EncoderError
from pipeline.types import SAMPLE_RATE_HZ
from pipeline.webrtc.packets import AUDIO_CLOCK_HZ, EncodedUnit

FRAME_S = 0.02
FRAME_SAMPLES = round(FRAME_S * SAMPLE_RATE_HZ)
TICKS_PER_SAMPLE = AUDIO_CLOCK_HZ // SAMPLE_RATE_HZ
VOICE_BPS = 32_000
"""Wide band (8 kHz) speech in one channel; more is not heard."""
LONGEST_FILL_SAMPLES = SAMPLE_RATE_HZ
"""A longer hole in the media time is left out instead of being filled with silence."""
OPTIONS = {"application": "voip", "frame_duration": "20", "fec": "1", "packet_loss": "5"}
"""In-band error correction lets a browser repair single losses; Opus has no retransmission here."""


class VoiceEncoder:
    """Opus straight from 16 kHz, which Opus knows as wide band: no resampling, no delay for it.

    Each unit's timestamp is moved back by the encoder's look-ahead (6.5 ms), so that a sample is heard exactly at its own
    media time. Not thread safe.

    Raises:
        EncoderError: The linked FFmpeg has no libopus.
    """

    def __init__(self) -> None:
        import av

        self._av = av
        try:
            context = av.CodecContext.create("libopus", "w")
            context.sample_rate = SAMPLE_RATE_HZ
            context.layout = "mono"
            context.format = "s16"
            context.bit_rate = VOICE_BPS
            context.time_base = Fraction(1, SAMPLE_RATE_HZ)
            context.options = dict(OPTIONS)
            context.open()
        except (av.error.FFmpegError, ValueError) as error:
            raise EncoderError(f"libopus cannot be opened: {error}") from error
        self._context = context
        self._waiting = np.zeros(0, np.float32)
        self._position: int | None = None
        self._ahead: int | None = None

    def encode(self, pcm: F32, pts_samples: int) -> list[EncodedUnit]:
        """Add samples and take the frames that are complete.

        Args:
            pcm: float32 (n,), mono, 16 kHz; values beyond +-1 are clipped, NaN is silence.
            pts_samples: Media position of the first sample. Samples that were encoded already are left out; a hole of up
                to one second becomes silence, a longer one a jump.

        Raises:
            EncoderError: libopus failed.
        """
        if self._position is None:
            self._position = pts_samples
        end = self._position + len(self._waiting)
        hole = pts_samples - end
        if hole < 0:
            pcm = pcm[-hole:]
        elif hole > LONGEST_FILL_SAMPLES:
            self._waiting, self._position = np.zeros(0, np.float32), pts_samples
        elif hole:
            pcm = np.concatenate([np.zeros(hole, np.float32), pcm])
        self._waiting = np.concatenate([self._waiting, pcm])
        units: list[EncodedUnit] = []
        while len(self._waiting) >= FRAME_SAMPLES:
            units += self._encode_frame(self._waiting[:FRAME_SAMPLES], self._position)
            self._waiting = self._waiting[FRAME_SAMPLES:]
            self._position += FRAME_SAMPLES
        return units

    def _encode_frame(self, pcm: F32, position: int) -> list[EncodedUnit]:
        levels = np.clip(np.nan_to_num(pcm, nan=0.0, posinf=0.0, neginf=0.0), -1.0, 1.0) * 32767.0
        frame = self._av.AudioFrame.from_ndarray(np.rint(levels).astype(np.int16)[None], format="s16", layout="mono")
        frame.sample_rate = SAMPLE_RATE_HZ
        frame.pts = position
        frame.time_base = Fraction(1, SAMPLE_RATE_HZ)
        try:
            packets = self._context.encode(frame)
        except self._av.error.FFmpegError as error:
            raise EncoderError(f"libopus failed: {error.strerror}") from error
        if self._ahead is None and packets:
            self._ahead = position - (packets[0].pts or 0)
        # Not the packet's own pts: after a jump, FFmpeg still counts on from before it.
        timestamp = (position - (self._ahead or 0)) * TICKS_PER_SAMPLE
        return [EncodedUnit((bytes(packet),), timestamp, key=True) for packet in packets]
