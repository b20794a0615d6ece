"""Streaming sample-rate conversion that keeps levels and counts exact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.arrays import F32
from kernels.errors import InvalidInputError, ShapeError

if TYPE_CHECKING:
    from av import AudioResampler

MIN_RATE_HZ = 8_000
MAX_RATE_HZ = 192_000
FLUSH_DIVISOR = 50
"""20 ms of silence push out everything that the resampling filter holds, at any supported rate."""
LAYOUTS = {1: "mono", 2: "stereo"}


class StreamingResampler:
    """Brings blocks of audio to one sample rate.

    The channels are carried, never mixed: FFmpeg's float stereo-to-mono is 3 dB too loud (0.5 and 0.5 give 0.707), so a
    caller that wants mono takes the mean first. At the target rate blocks pass through untouched; otherwise about 1 ms is
    held back until `flush`, and the total comes to `ceil(n * rate_out / rate_in)` samples per run of one input rate.
    A change of the input rate ends one run and starts the next.

    Args:
        rate_hz: Output rate, 8000..192000.
        channels: 1 or 2.

    Raises:
        InvalidInputError: A rate or channel count outside those ranges.
    """

    def __init__(self, rate_hz: int, channels: int = 1) -> None:
        _check_rate(rate_hz)
        if channels not in LAYOUTS:
            raise InvalidInputError("channels", str(channels), "1 or 2")
        self.rate_hz = rate_hz
        self.channels = channels
        self._input_rate_hz = 0
        self._run_input = 0
        self._run_output = 0
        self._resampler: AudioResampler | None = None

    def push(self, samples: F32, rate_hz: int) -> F32:
        """Convert the next block.

        Args:
            samples: float32 (n, channels), finite; (n,) is accepted for one channel.
            rate_hz: Rate of this block, 8000..192000.

        Returns:
            float32 (m, channels): what is ready; m may be 0.

        Raises:
            ShapeError: Wrong shape or dtype.
            InvalidInputError: Rate out of range.
        """
        _check_rate(rate_hz)
        if samples.ndim == 1:
            samples = samples[:, None]
        if samples.ndim != 2 or samples.shape[1] != self.channels or samples.dtype != np.float32:
            raise ShapeError("samples", f"{samples.dtype} {samples.shape}", f"float32 (n, {self.channels})")
        rest = self.flush() if rate_hz != self._input_rate_hz else _nothing(self.channels)
        self._input_rate_hz = rate_hz
        if rate_hz == self.rate_hz or len(samples) == 0:
            return np.concatenate([rest, samples]) if len(rest) else samples
        self._run_input += len(samples)
        ready = self._run(samples)
        self._run_output += len(ready)
        return np.concatenate([rest, ready])

    def flush(self) -> F32:
        """End the stream: what was held back, float32 (m, channels). The object may be used again afterwards."""
        if self._resampler is None:
            return _nothing(self.channels)
        missing = -(-self._run_input * self.rate_hz // self._input_rate_hz) - self._run_output
        # FFmpeg's own flush drops a short stream and the last sample of some others: push silence, keep what is due.
        silence = np.zeros((self._input_rate_hz // FLUSH_DIVISOR, self.channels), np.float32)
        rest = np.concatenate([self._run(silence), self._run(None)])[: max(missing, 0)]
        self._resampler, self._run_input, self._run_output = None, 0, 0
        return rest

    def _run(self, samples: F32 | None) -> F32:
        import av  # here, so that importing pipeline stays light

        if self._resampler is None:
            self._resampler = av.AudioResampler("fltp", LAYOUTS[self.channels], self.rate_hz)
        frame = None
        if samples is not None:
            layout = LAYOUTS[self.channels]
            frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(samples.T), format="fltp", layout=layout)
            frame.sample_rate = self._input_rate_hz
        outputs = self._resampler.resample(frame)
        blocks = [np.asarray(output.to_ndarray(), np.float32).T for output in outputs]
        return np.concatenate(blocks) if blocks else _nothing(self.channels)


def resample(samples: F32, rate_hz: int, target_hz: int) -> F32:
    """Convert a whole clip.

    Args:
        samples: float32 (n, channels), finite.
        rate_hz: Its rate, 8000..192000.
        target_hz: Wanted rate, 8000..192000.

    Returns:
        float32 (ceil(n * target_hz / rate_hz), channels), give or take one sample.

    Raises:
        ShapeError: Wrong shape or dtype.
        InvalidInputError: A rate out of range.
    """
    if samples.ndim != 2:
        raise ShapeError("samples", f"shape {samples.shape}", "shape (n, channels)")
    resampler = StreamingResampler(target_hz, samples.shape[1])
    return np.concatenate([resampler.push(samples, rate_hz), resampler.flush()])


def _nothing(channels: int) -> F32:
    return np.zeros((0, channels), np.float32)


def _check_rate(rate_hz: int) -> None:
    if not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:
        raise InvalidInputError("rate_hz", str(rate_hz), f"{MIN_RATE_HZ} to {MAX_RATE_HZ}")
