"""Chunk boundaries: do they show, and does the chunk size change the picture?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F64, U8
from kernels.errors import InvalidInputError, ShapeError


@dataclass(frozen=True)
class StepDifferences:
    """Mean absolute difference of neighbouring frames, in levels.

    Attributes:
        steps: float64 (n - 1,); `steps[k - 1]` lies between frames k - 1 and k.
    """

    steps: F64

    @classmethod
    def of(cls, frames: Iterable[U8]) -> StepDifferences:
        """Measure consecutive planes of one shape, any dtype uint8."""
        steps: list[float] = []
        previous: NDArray[np.int16] | None = None
        for frame in frames:
            current = frame.astype(np.int16)
            if previous is not None:
                if previous.shape != current.shape:
                    raise ShapeError("frames", str(current.shape), f"every frame {previous.shape}")
                steps.append(float(np.abs(current - previous).mean()))
            previous = current
        return cls(np.array(steps, dtype=np.float64))

    def at_boundaries(self, chunk_frames: int) -> NDArray[np.bool_]:
        """Mask (n - 1,), bool: True where the step leads into the first frame of a chunk."""
        result: NDArray[np.bool_] = np.arange(1, self.steps.size + 1) % chunk_frames == 0
        return result


def boundary_diff_ratio(clips: Sequence[StepDifferences], chunk_frames: int) -> float:
    """Mean step at chunk boundaries over the mean step elsewhere, pooled over clips; 1 = boundaries do not show.

    Raises:
        InvalidInputError: No boundary, nothing else, or nothing moves.
    """
    at = [clip.steps[clip.at_boundaries(chunk_frames)] for clip in clips]
    elsewhere = [clip.steps[~clip.at_boundaries(chunk_frames)] for clip in clips]
    inside, rest = (np.concatenate(parts) if parts else np.zeros(0) for parts in (at, elsewhere))
    if inside.size == 0 or rest.size == 0 or rest.mean() <= 0.0:
        raise InvalidInputError("clips", f"{inside.size} boundaries, {rest.size} other steps", "moving clips with both")
    return float(inside.mean() / rest.mean())


def off_boundary_ratios(clips: Sequence[StepDifferences], chunk_frames: int) -> list[float]:
    """Baseline of `boundary_diff_ratio`: the same quotient for every phase that is *not* the boundary."""
    ratios = []
    for phase in range(1, chunk_frames):
        masks = [(np.arange(1, clip.steps.size + 1) % chunk_frames) == phase for clip in clips]
        here = np.concatenate([c.steps[m] for c, m in zip(clips, masks, strict=True)])
        rest = np.concatenate([c.steps[~m] for c, m in zip(clips, masks, strict=True)])
        if here.size and rest.size and rest.mean() > 0:
            ratios.append(float(here.mean() / rest.mean()))
    return ratios


def max_level_difference(one: Iterable[U8], other: Iterable[U8]) -> int:
    """Largest absolute difference of any sample between two sequences of planes.

    Raises:
        ShapeError: The sequences differ in length or in the shape of a plane.
    """
    worst = 0
    left, right = list(one), list(other)
    if len(left) != len(right):
        raise ShapeError("planes", f"{len(left)} and {len(right)} planes", "two sequences of one length")
    for a, b in zip(left, right, strict=True):
        if a.shape != b.shape:
            raise ShapeError("planes", f"{a.shape} and {b.shape}", "planes of one shape")
        if a.size:
            worst = max(worst, int(np.abs(a.astype(np.int16) - b.astype(np.int16)).max()))
    return worst
