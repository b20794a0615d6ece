"""The voice of a file in encoder frames, cleaned and resampled as it is taken: no second copy of a long speech."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32
from kernels.errors import InvalidInputError, ShapeError
from pipeline.media.audio_in import AAC_RATES_HZ, MAX_VOICE_RATE_HZ, AudioTrack
from pipeline.media.resample import StreamingResampler


class VoiceFeed:
    """Reads a voice once, front to back.

    Args:
        voice: The sound; NaN and infinite samples become 0, the others are clipped to -1..1.
        min_rate_hz: A voice with a lower rate is brought to 48 kHz.

    Attributes:
        rate_hz: Sample rate of what is read.
        channels: 1 or 2.

    Raises:
        InvalidInputError: The voice has a rate that AAC does not know, or no samples.
        ShapeError: The voice has a wrong shape or dtype.
    """

    def __init__(self, voice: AudioTrack, min_rate_hz: int = 0) -> None:
        samples = voice.samples
        if samples.ndim != 2 or samples.shape[1] not in (1, 2) or samples.dtype != np.float32:
            raise ShapeError("voice", f"{samples.dtype} {samples.shape}", "float32 (n, 1) or (n, 2)")
        if len(samples) == 0:
            raise InvalidInputError("voice", "no samples", "at least one sample")
        if voice.rate_hz not in AAC_RATES_HZ:
            raise InvalidInputError("voice", f"{voice.rate_hz} Hz", ", ".join(str(rate) for rate in AAC_RATES_HZ))
        self.channels = samples.shape[1]
        self.rate_hz = voice.rate_hz if voice.rate_hz >= min_rate_hz else MAX_VOICE_RATE_HZ
        self._voice = voice
        self._resampler: StreamingResampler | None = None
        if self.rate_hz != voice.rate_hz:
            self._resampler = StreamingResampler(self.rate_hz, self.channels)
        self._position = 0
        self._ready = np.zeros((0, self.channels), np.float32)

    def read(self, count: int) -> F32:
        """The next samples, float32 (n, channels), finite, -1..1; n < count at the end of the voice, 0 after it."""
        if self._resampler is None:
            return self._next(count)
        while len(self._ready) < count and self._position < len(self._voice.samples):
            more = self._resampler.push(self._next(self._voice.rate_hz), self._voice.rate_hz)
            if self._position == len(self._voice.samples):
                more = np.concatenate([more, self._resampler.flush()])
            self._ready = np.concatenate([self._ready, np.clip(more, -1.0, 1.0)])
        out, self._ready = self._ready[:count], self._ready[count:]
        return out

    def _next(self, count: int) -> F32:
        block = self._voice.samples[self._position : self._position + count]
        self._position += len(block)
        clean: F32 = np.clip(np.nan_to_num(block, nan=0.0, posinf=0.0, neginf=0.0), -1.0, 1.0)
        return clean
