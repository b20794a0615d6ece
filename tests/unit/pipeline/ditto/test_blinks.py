from __future__ import annotations

import random

import numpy as np
import pytest

from pipeline.ditto.blink_schedule import BLINK_FRAMES, blink_indices
from tests.support.blink_schedule import blink_schedule


def starts(indices: list[int]) -> list[int]:
    return [i - 1 for i, index in enumerate(indices) if index == 1]


@pytest.mark.parametrize("seed", [0, 1, 99])
def test_random_blinks_keep_the_reference_s_gaps_and_begin_early(seed: int) -> None:
    indices = blink_indices(seed, 0, 5000)
    gaps = np.diff(starts(indices)) - BLINK_FRAMES
    assert gaps.min() >= 60 and gaps.max() <= 100 and len(set(gaps.tolist())) > 10
    assert 35 <= starts(indices)[0] <= 55


def test_any_stretch_equals_that_of_a_longer_one() -> None:
    whole = blink_indices(3, -50, 600)
    assert whole[:50] == [0] * 50
    for first, count in ((-10, 30), (88, 7), (200, 1)):
        assert blink_indices(3, first, count) == whole[first + 50 : first + 50 + count]


def test_seeds_differ() -> None:
    assert blink_indices(0, 0, 500) != blink_indices(1, 0, 500)


@pytest.mark.parametrize("gaps", [40, (20, 30), (5,)])
def test_given_gaps_are_the_reference_s_schedule(gaps: int | tuple[int, ...]) -> None:
    assert blink_indices(0, 0, 300, gaps) == blink_schedule(900, gaps, random.Random(0))[:300]


def test_no_blinks() -> None:
    assert blink_indices(0, 0, 50, -1) == [0] * 50
