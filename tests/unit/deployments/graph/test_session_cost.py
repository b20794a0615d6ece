"""What a session costs, and how many fit."""

from __future__ import annotations

import random

import pytest

from deployments.graph.session_cost import MeasuredCost, SessionCost, slots
from kernels.errors import InvalidInputError

DITTO_H200 = SessionCost(frame_ms=3.07, frame_gpu_ms=2.25, motion_ms=4.05, audio_ms=1.8, hop_frames=5)


def test_the_larger_bound_counts() -> None:
    assert DITTO_H200.ms_per_second == pytest.approx(25 * 2.25 + 5 * (4.05 + 1.8))
    assert DITTO_H200.tokens == 9
    only_frames = SessionCost(3.07, 2.25, 0.0, 0.0, hop_frames=5)
    assert only_frames.ms_per_second == pytest.approx(25 * 3.07)
    assert only_frames.tokens == 11


def test_longer_hops_cost_less() -> None:
    long = SessionCost(2.3, 2.25, 4.05, 1.8, hop_frames=10)
    assert long.tokens > DITTO_H200.tokens


def test_a_machine_that_is_too_slow_still_serves_one() -> None:
    assert SessionCost(80.0, 80.0, 0.0, 0.0, hop_frames=8).tokens == 1


@pytest.mark.parametrize(
    ("fps", "interpolated", "weight"),
    [(25, False, 1.0), (50, False, 2.0), (25, True, 1.0), (50, True, 1.0 + 25 * 0.4 / DITTO_H200.ms_per_second)],
)
def test_more_frames_weigh_more(fps: float, interpolated: bool, weight: float) -> None:
    cost = SessionCost(3.07, 2.25, 4.05, 1.8, hop_frames=5, rife_ms=0.4)
    assert cost.weight(fps, interpolated) == pytest.approx(weight)


@pytest.mark.parametrize("bad", [{"frame_ms": -1.0}, {"motion_ms": float("nan")}, {"hop_frames": 0}])
def test_impossible_costs_are_refused_by_name(bad: dict[str, float]) -> None:
    [name] = bad
    with pytest.raises(InvalidInputError, match=name):
        SessionCost(
            **({"frame_ms": 1.0, "frame_gpu_ms": 1.0, "motion_ms": 1.0, "audio_ms": 1.0, "hop_frames": 5} | bad)
        )  # type: ignore[arg-type]


def test_a_cost_rises_at_once_and_falls_slowly() -> None:
    cost = MeasuredCost(3.0)
    assert cost.measured(4.0, elapsed_s=30) == 4.0
    assert cost.measured(1.0, elapsed_s=60) == pytest.approx(4.0 * 0.98)
    for _ in range(120):
        cost.measured(1.0, elapsed_s=60)
    assert 1.0 <= cost.value < 1.1


def test_sessions_that_are_often_silent_share_tokens() -> None:
    assert slots(11, 1.0) == 11
    assert [slots(11, share) for share in (0.6, 0.4, 0.25)] == [12, 16, 24]
    assert [slots(10, share) for share in (0.6, 0.4, 0.25)] == [11, 15, 22]
    assert slots(0, 0.5) == 0


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1])
def test_a_share_outside_its_range_is_refused(share: float) -> None:
    with pytest.raises(InvalidInputError, match="speaking_share"):
        slots(10, share)


def test_the_risk_is_kept_when_speakers_are_drawn() -> None:
    draw = random.Random(3)
    count = slots(10, 0.4)
    over = sum(sum(draw.random() < 0.4 for _ in range(count)) > 10 for _ in range(20_000))
    assert over / 20_000 < 0.012
