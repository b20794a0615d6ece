"""Stage `audio_features`: PCM -> feature rows at 50 Hz, in windows of fixed size.

Every row comes out of the same call on the same samples whether speech arrives in pieces or whole, so both give the same bits. The
one thing carried from call to call is PCM: the context of the next window and what does not fill a window yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from engines.runtimes.protocol import Runtime
from kernels.arrays import F32
from kernels.errors import LiveAnchorError, ShapeError
from pipeline.media.clean_pcm import clean_pcm
from pipeline.stages import CarryError, EncoderShape
from pipeline.types import FEATURE_RATE_HZ, ROWS_PER_FRAME, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME, FeatureRows

ROW_SAMPLES = SAMPLE_RATE_HZ // FEATURE_RATE_HZ


@dataclass(frozen=True)
class AudioCarry:
    """What one session carries between calls of `AudioFeatures.step`.

    Attributes:
        pcm: float32 (n,), samples from `next_row * 320 - left_samples` on.
        next_row: Index of the next row to be made.
        samples: Samples received so far.
        finished: True after the final call.
        family: Family of the encoder.
        version: Version of its weights.
        epoch: Session epoch.
    """

    pcm: F32
    next_row: int
    samples: int
    finished: bool
    family: str
    version: str
    epoch: int


@dataclass(frozen=True)
class AudioFeaturesItem:
    """What one session brings to a batched `steps` call."""

    pcm: F32
    carry: AudioCarry
    final: bool = False


class AudioFeatures:
    """The stage.

    Args:
        runtime: Runs the encoder: (B, window_samples) -> (B, rows, row_dim).
        shape: Facts about that encoder.
        hop_frames: Frames per window, at most.
    """

    def __init__(self, runtime: Runtime, shape: EncoderShape, hop_frames: int = 8) -> None:
        self._runtime = runtime
        self.shape = shape
        self.hop_rows = hop_frames * ROWS_PER_FRAME

    @property
    def window_samples(self) -> int:
        """Samples of one window of a whole hop: context, the hop itself, look-ahead."""
        return self.shape.left_samples + self.hop_rows * ROW_SAMPLES + self.shape.lookahead_samples

    def window(self, window: F32, first_row: int) -> FeatureRows:
        """Rows of one hop.

        Args:
            window: float32 (window_samples,), or whole frames of 640 samples less; sample 0 lies `left_samples` before the
                start of row `first_row`.
            first_row: Index of the first row since the session's start.

        Raises:
            ShapeError: Wrong length.
        """
        return self.windows([(window, first_row)])[0]

    def windows(self, items: Sequence[tuple[F32, int]]) -> list[FeatureRows]:
        """Rows of one hop of several sessions in one network call; see `window`.

        Batched results equal single ones up to float32 rounding.
        """
        for window, _ in items:
            if not self._fits(window):
                allowed = f"({self.window_samples},) or whole frames of {SAMPLES_PER_FRAME} less"
                raise ShapeError("window", str(window.shape), allowed)
        results: dict[int, FeatureRows] = {}
        for length in sorted({len(window) for window, _ in items}):
            group = [i for i, (window, _) in enumerate(items) if len(window) == length]
            stacked = np.stack([clean_pcm(items[i][0]) for i in group])
            rows = self._runtime.run(torch.from_numpy(stacked)).float().cpu().numpy()
            for i, row in zip(group, rows, strict=True):
                results[i] = FeatureRows(row, FEATURE_RATE_HZ, items[i][1])
        return [results[i] for i in range(len(items))]

    def _fits(self, window: F32) -> bool:
        if window.ndim != 1:
            return False
        missing = self.window_samples - len(window)
        return missing % SAMPLES_PER_FRAME == 0 and 0 <= missing < self.hop_rows * ROW_SAMPLES

    def initial_carry(self, epoch: int = 0) -> AudioCarry:
        """The carry of a session that has heard nothing yet: silence before the start."""
        silence = np.zeros(self.shape.left_samples, np.float32)
        return AudioCarry(silence, 0, 0, False, self.shape.family, self.shape.version, epoch)

    def step(self, pcm: F32, carry: AudioCarry, final: bool = False) -> tuple[FeatureRows, AudioCarry]:
        """Take more samples, give all rows that they complete.

        Args:
            pcm: float32 (n,), 16 kHz mono, n >= 0.
            carry: From `initial_carry` or the call before.
            final: No more samples follow: silence is appended and rows are cut to 2 * ceil(samples / 640).

        Returns:
            The rows, float32 (t, row_dim), t possibly 0, and the next carry.

        Raises:
            CarryError: The carry is of another encoder, or finished.
            ShapeError: `pcm` is not one-dimensional.
        """
        result = self.steps([AudioFeaturesItem(pcm, carry, final)])[0]
        if isinstance(result, LiveAnchorError):
            raise result
        return result

    def steps(self, items: Sequence[AudioFeaturesItem]) -> list[tuple[FeatureRows, AudioCarry] | LiveAnchorError]:
        """`step` for several sessions at once: equal windows share network calls, a bad item fails alone."""
        faults = [self._fault(item) for item in items]
        buffers = [
            np.zeros(0, np.float32) if fault else np.concatenate([item.carry.pcm, clean_pcm(item.pcm)])
            for item, fault in zip(items, faults, strict=True)
        ]
        wanted = [0 if fault else self._complete_rows(item) for item, fault in zip(items, faults, strict=True)]
        made: list[list[F32]] = [[] for _ in items]
        for index in range(max((-(-rows // self.hop_rows) for rows in wanted), default=0)):
            active = [i for i, rows in enumerate(wanted) if index * self.hop_rows < rows]
            batch = [(self._cut(buffers[i], index), 0) for i in active]
            for i, rows in zip(active, self.windows(batch), strict=True):
                made[i].append(rows.rows)
        results: list[tuple[FeatureRows, AudioCarry] | LiveAnchorError] = []
        for i, item in enumerate(items):
            fault = faults[i]
            results.append(fault if fault else self._result(item, buffers[i], made[i], wanted[i]))
        return results

    def _fault(self, item: AudioFeaturesItem) -> LiveAnchorError | None:
        carry = item.carry
        mine = (self.shape.family, self.shape.version)
        if (carry.family, carry.version) != mine:
            return CarryError("carry", f"{carry.family} {carry.version}", " ".join(mine))
        if carry.finished:
            return CarryError("carry", "a finished stream", "a carry from initial_carry")
        if np.asarray(item.pcm).ndim != 1:
            return ShapeError("pcm", str(np.asarray(item.pcm).shape), "(n,)")
        return None

    def _complete_rows(self, item: AudioFeaturesItem) -> int:
        """Rows that this call makes."""
        samples = item.carry.samples + len(item.pcm)
        if item.final:
            return -(-samples // SAMPLES_PER_FRAME) * ROWS_PER_FRAME - item.carry.next_row
        ready = (samples - self.shape.lookahead_samples) // ROW_SAMPLES - item.carry.next_row
        return max(ready // self.hop_rows, 0) * self.hop_rows

    def _cut(self, buffer: F32, index: int) -> F32:
        start = index * self.hop_rows * ROW_SAMPLES
        window = buffer[start : start + self.window_samples]
        return np.pad(window, (0, self.window_samples - len(window)))

    def _result(
        self, item: AudioFeaturesItem, buffer: F32, made: list[F32], wanted: int
    ) -> tuple[FeatureRows, AudioCarry]:
        carry = item.carry
        rows = np.concatenate(made)[:wanted] if made else np.zeros((0, self.shape.row_dim), np.float32)
        after = replace(
            carry,
            pcm=buffer[wanted * ROW_SAMPLES :].copy(),
            next_row=carry.next_row + wanted,
            samples=carry.samples + len(item.pcm),
            finished=item.final,
        )
        return FeatureRows(rows, FEATURE_RATE_HZ, carry.next_row), after
