"""What a session costs, and how many fit."""

from __future__ import annotations

import math

import pytest

from deployments.graph.session_cost import MeasuredCost, StageCost, ms_per_second, tokens, weight
from kernels.errors import InvalidInputError

DITTO_H200 = [
    StageCost("renderer", 25 * 3.07, 25 * 2.25),
    StageCost("motion_diffusion", 5 * 4.05, 5 * 4.05),
    StageCost("audio_features", 5 * 1.8, 5 * 1.8),
    StageCost("rife", 25 * 0.4, 25 * 0.4),
]


def test_the_gpu_is_shared_and_every_thread_is_its_own() -> None:
    assert ms_per_second(DITTO_H200) == pytest.approx(25 * 2.25 + 5 * (4.05 + 1.8))
    assert tokens(DITTO_H200) == 9
    only_frames = DITTO_H200[:1]
    assert ms_per_second(only_frames) == pytest.approx(25 * 3.07)
    assert tokens(only_frames) == 11


def test_frames_in_between_cost_only_sessions_that_have_them() -> None:
    assert ms_per_second(DITTO_H200) == ms_per_second(DITTO_H200[:3])


def test_a_gpu_that_is_too_slow_still_serves_one() -> None:
    assert tokens([StageCost("renderer", 2000.0, 2000.0)]) == 1


def test_without_a_gpu_there_is_no_bound() -> None:
    assert tokens([StageCost("renderer", 250.0, 0.0)]) == math.inf
    assert tokens([]) == math.inf
    only_rife = [StageCost("renderer", 0.0, 0.0), StageCost("rife", 10.0, 10.0)]
    assert tokens(only_rife) == math.inf and weight(only_rife, 50.0, False) == 1.0


@pytest.mark.parametrize(
    ("fps", "doubles", "extra"), [(25, True, 0.0), (25, False, 0.0), (50, True, 25 * 3.07), (50, False, 25 * 0.4)]
)
def test_more_frames_weigh_more(fps: float, doubles: bool, extra: float) -> None:
    assert weight(DITTO_H200, fps, doubles) == pytest.approx(1.0 + extra / ms_per_second(DITTO_H200))


@pytest.mark.parametrize("bad", [(-1.0, 0.0), (0.0, float("nan")), (math.inf, 0.0)])
def test_impossible_costs_are_refused_by_name(bad: tuple[float, float]) -> None:
    with pytest.raises(InvalidInputError, match="renderer"):
        StageCost("renderer", *bad)


def test_a_cost_rises_at_once_and_falls_slowly() -> None:
    cost = MeasuredCost(9.0)
    assert cost.measured(3.0, elapsed_s=30) == 3.0, "the guess of the start counts no longer"
    assert cost.measured(4.0, elapsed_s=30) == 4.0
    assert cost.measured(1.0, elapsed_s=60) == pytest.approx(4.0 * 0.98)
    for _ in range(120):
        cost.measured(1.0, elapsed_s=60)
    assert 1.0 <= cost.value < 1.1
