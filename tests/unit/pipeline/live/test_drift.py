"""How much faster or slower a foreign clock's samples are to be read."""

from __future__ import annotations

import pytest

from pipeline.live.drift import MAX_PPM, TOLERANCE, WINDOW, DriftControl


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
