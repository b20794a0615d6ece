"""How fast to encode."""

from __future__ import annotations

import pytest

from pipeline.webrtc.bitrate import VOICE_KBPS, BitrateControl
from tests.support.manual_clock import ManualClock


def control(clock: ManualClock) -> BitrateControl:
    return BitrateControl(300, 6000, 2500, clock)


def estimate(kbps: float) -> int:
    return round((kbps + VOICE_KBPS) * 1000)


def settled(rates: BitrateControl, clock: ManualClock, seconds: float = 20) -> int:
    for _ in range(round(seconds * 25)):
        clock.now += 0.04
        rates.target_kbps()
    return rates.target_kbps()


def test_nothing_heard_nothing_changed() -> None:
    clock = ManualClock(100.0)
    assert settled(control(clock), clock) == 2500


def test_it_falls_at_once_and_climbs_by_a_quarter_per_second() -> None:
    clock = ManualClock(100.0)
    rates = control(clock)
    rates.on_estimate("a", estimate(1000))
    assert rates.target_kbps() == 1000
    rates.on_estimate("a", estimate(4000))
    clock.now += 0.5
    assert rates.target_kbps() == 1000, "it climbed within a second"
    clock.now += 0.6
    assert rates.target_kbps() == 1250
    assert settled(rates, clock) == pytest.approx(4000, rel=0.1)


def test_floor_and_ceiling_hold() -> None:
    clock = ManualClock(100.0)
    rates = control(clock)
    rates.on_estimate("a", estimate(10))
    assert settled(rates, clock, 1) == 300
    rates.on_estimate("a", estimate(90_000))
    assert settled(rates, clock, 30) == 6000


def test_small_changes_are_left_alone() -> None:
    clock = ManualClock(100.0)
    rates = control(clock)
    seen = set()
    for step in range(200):
        rates.on_estimate("a", estimate(2000 + (90 if step % 2 else -90)))
        clock.now += 0.04
        seen.add(rates.target_kbps())
    assert len(seen) == 1


def test_the_slowest_viewer_decides_until_it_leaves() -> None:
    clock = ManualClock(100.0)
    rates = control(clock)
    rates.on_estimate("fast", estimate(5000))
    rates.on_estimate("slow", estimate(800))
    assert settled(rates, clock, 2) == 800
    rates.remove("slow")
    assert settled(rates, clock) == pytest.approx(5000, rel=0.1)


def test_heavy_loss_slows_down_and_its_end_speeds_up_again() -> None:
    clock = ManualClock(100.0)
    rates = control(clock)
    for _ in range(5):
        rates.on_loss("a", 0.3)
        clock.now += 1.0
        rates.target_kbps()
    slow = rates.target_kbps()
    assert slow < 2500 * 0.6
    for _ in range(60):
        rates.on_loss("a", 0.0)
        clock.now += 1.0
        rates.target_kbps()
    assert rates.target_kbps() > 2 * slow


def test_light_loss_changes_nothing() -> None:
    clock = ManualClock(100.0)
    rates = control(clock)
    for _ in range(50):
        rates.on_loss("a", 0.05)
        clock.now += 1.0
    assert rates.target_kbps() == 2500


def test_reports_in_a_burst_count_once() -> None:
    clock = ManualClock(100.0)
    rates = control(clock)
    for _ in range(20):
        rates.on_loss("a", 0.5)
    assert settled(rates, clock, 1) == round(2500 * 0.75)


def test_a_start_rate_comes_back_when_the_only_viewer_leaves() -> None:
    clock = ManualClock(100.0)
    rates = control(clock)
    rates.on_estimate("a", estimate(500))
    assert settled(rates, clock, 1) == 500
    rates.remove("a")
    assert settled(rates, clock) == pytest.approx(2500, rel=0.1)
