"""Speech that comes as raw PCM, piece by piece."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.media.downmix import RunningMix
from pipeline.media.resample import MAX_RATE_HZ, MIN_RATE_HZ, StreamingResampler
from pipeline.types import SAMPLE_RATE_HZ

FULL_SCALE: Final = 32768.0


class PcmReader:
    """Turns signed 16-bit little-endian PCM of any rate, in pieces of any size, into float32, 16 kHz, mono.

    Two channels become one that is as loud as the one with the voice, whatever their polarity. A sample that is cut in two by the
    end of a piece is completed by the next piece.

    Args:
        rate_hz: Samples per second, 8000 to 192000.
        channels: Number of channels, 1 or 2.

    Raises:
        InvalidInputError: The rate or the number of channels is another one.
    """

    def __init__(self, rate_hz: int, channels: int) -> None:
        if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
            raise InvalidInputError("sample_rate", str(rate_hz), f"{MIN_RATE_HZ} to {MAX_RATE_HZ}")
        if channels not in (1, 2):
            raise InvalidInputError("channels", str(channels), "1 or 2")
        self._rate_hz = rate_hz
        self._channels = channels
        self._resampler = StreamingResampler(SAMPLE_RATE_HZ)
        self._mix = RunningMix(channels, rate_hz) if channels > 1 else None
        self._rest = b""

    def push(self, data: bytes) -> F32:
        """Take a piece of PCM and return the samples that it completes, float32 (n,); n may be 0."""
        data = self._rest + data
        whole = len(data) - len(data) % (2 * self._channels)
        self._rest = data[whole:]
        samples = np.frombuffer(data[:whole], "<i2").reshape(-1, self._channels)
        scaled = samples.astype(np.float32) / np.float32(FULL_SCALE)
        mono = scaled if self._mix is None else self._mix.push(scaled)
        return self._resampler.push(mono, self._rate_hz)[:, 0] if len(mono) else np.zeros(0, np.float32)

    def flush(self) -> F32:
        """Return what the filter still holds, float32 (n,), and begin anew."""
        self._rest = b""
        return self._resampler.flush()[:, 0]
