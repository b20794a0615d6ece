"""Reading samples a little faster or slower, and how much of that a foreign clock needs."""

from __future__ import annotations

import numpy as np
import pytest

from pipeline.live.drift import MAX_PPM, TOLERANCE, WINDOW, DriftControl, FractionalResampler


def test_fractional_resampling_at_one_is_the_identity() -> None:
    stretch = FractionalResampler()
    samples = np.random.default_rng(0).normal(0, 0.2, 5000).astype(np.float32)
    out = np.concatenate([stretch.push(block) for block in np.array_split(samples, 37)])
    assert len(out) >= len(samples) - 2
    assert np.array_equal(out, samples[: len(out)])


@pytest.mark.parametrize("step", [1.001, 0.999, 1.0002])
def test_fractional_resampling_keeps_a_tone_pure_and_counts_exactly(step: float) -> None:
    stretch = FractionalResampler()
    stretch.step = step
    hz, count = 1000.0, 48_000
    samples = np.sin(2 * np.pi * hz * np.arange(count) / 48_000).astype(np.float32)
    out = np.concatenate([stretch.push(block) for block in np.array_split(samples, 50)])
    assert len(out) == pytest.approx(count / step, abs=3)
    wanted = np.sin(2 * np.pi * hz * step * np.arange(len(out)) / 48_000)
    assert float(np.max(np.abs(out - wanted))) < 1e-3


def test_drift_control_waits_for_a_window_and_is_bounded() -> None:
    control = DriftControl()
    control.see(100, 0)
    assert control.step == 1.0
    control.see(-500, WINDOW)
    assert control.step == 1.0 and not control.jump, "the lead of the first window is the right one"
    control.see(100 + 500, WINDOW + 320)
    control.see(-500, 2 * WINDOW + 320)
    assert control.ppm == MAX_PPM and control.step == pytest.approx(1.001) and not control.jump


@pytest.mark.parametrize("lead", [TOLERANCE + 1, -TOLERANCE - 1])
def test_what_is_no_drift_is_to_jump(lead: int) -> None:
    control = DriftControl()
    control.see(lead, 0)
    control.see(lead - 10_000, WINDOW)
    assert control.jump == lead and control.ppm == 0
    control.change_jump(-lead)
    for now in (WINDOW + 1, 2 * WINDOW, 2 * WINDOW + 1):
        control.see(30, now)
    assert control.jump == 0 and control.ppm == 0, "what was seen before the jump no longer counts"
