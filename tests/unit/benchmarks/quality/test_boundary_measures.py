"""Boundary measures on sequences whose answers are known."""

import numpy as np
import pytest

from benchmarks.quality.boundaries import (
    StepDifferences,
    boundary_diff_ratio,
    max_level_difference,
    off_boundary_ratios,
)
from kernels.errors import InvalidInputError, ShapeError


def moving(frames: int, jump_every: int = 0, jump: int = 8) -> list[np.ndarray]:
    """Brightness rises one level per frame, and `jump` more into every frame of which `jump_every` is a divisor."""
    levels = np.zeros(frames, dtype=np.int64)
    for k in range(1, frames):
        levels[k] = levels[k - 1] + 1 + (jump if jump_every and k % jump_every == 0 else 0)
    return [np.full((4, 6), level % 250, dtype=np.uint8) for level in levels]


def test_steps_are_mean_absolute_differences() -> None:
    a, b = np.zeros((2, 2), dtype=np.uint8), np.array([[255, 0], [0, 1]], dtype=np.uint8)
    assert StepDifferences.of([a, b, a]).steps.tolist() == [64.0, 64.0]
    assert StepDifferences.of([a]).steps.size == 0


@pytest.mark.parametrize("chunk", [4, 8, 16])
def test_smooth_motion_has_ratio_one(chunk: int) -> None:
    clips = [StepDifferences.of(moving(60)), StepDifferences.of(moving(33))]
    assert boundary_diff_ratio(clips, chunk) == pytest.approx(1.0)


def test_a_spike_at_every_boundary_is_found_at_its_own_period_only() -> None:
    clips = [StepDifferences.of(moving(25, jump_every=8)) for _ in range(3)]
    assert boundary_diff_ratio(clips, 8) == pytest.approx(9.0)
    assert max(off_boundary_ratios(clips, 8)) < 1.0


def test_pooling_weights_steps_not_clips() -> None:
    quiet, loud = StepDifferences(np.full(40, 1.0)), StepDifferences(np.full(7, 9.0))
    # 10 boundaries of 1.0 and one of 9.0 over 30 others of 1.0 and 6 of 9.0
    expected = ((10 * 1 + 1 * 9) / 11) / ((30 * 1 + 6 * 9) / 36)
    assert boundary_diff_ratio([quiet, loud], 4) == pytest.approx(expected)


def test_nothing_to_compare_is_refused() -> None:
    with pytest.raises(InvalidInputError):
        boundary_diff_ratio([StepDifferences.of(moving(5))], 8)
    with pytest.raises(InvalidInputError):
        boundary_diff_ratio([StepDifferences(np.zeros(40))], 8)
    with pytest.raises(ShapeError):
        StepDifferences.of([np.zeros((2, 2), dtype=np.uint8), np.zeros((2, 4), dtype=np.uint8)])


def test_largest_level_difference_has_no_wraparound() -> None:
    a = [np.zeros((2, 2), dtype=np.uint8), np.full((2, 2), 255, dtype=np.uint8)]
    b = [np.zeros((2, 2), dtype=np.uint8), np.array([[255, 254], [255, 0]], dtype=np.uint8)]
    assert max_level_difference(a, b) == 255
    assert max_level_difference(a, a) == 0
    with pytest.raises(ShapeError):
        max_level_difference(a, b[:1])
    with pytest.raises(ShapeError):
        max_level_difference(a, [x[:1] for x in b])
