import numpy as np
import pytest

from training.alignment import closures, expected_opening, pauses, share_closed
from training.phones import SILENCE, Phone


def test_plateaus_are_the_values_of_the_definition() -> None:
    phones = [Phone(s, 0.5 * i, 0.5 * (i + 1)) for i, s in enumerate(["ɑ", "ə", "u", "t", "m", SILENCE])]
    curve = expected_opening(phones, 300, 100.0)
    assert [round(float(curve[25 + 50 * i]), 4) for i in range(6)] == [1.0, 0.6, 0.35, 0.25, 0.0, 0.0]


def test_steps_are_smoothed_over_120_ms_symmetrically() -> None:
    curve = expected_opening([Phone(SILENCE, 0.0, 0.5), Phone("ɑ", 0.5, 1.0)], 1000, 1000.0)
    assert curve[500] == pytest.approx(0.5, abs=0.02)
    assert curve[439] == 0.0
    assert curve[561] == pytest.approx(1.0)
    np.testing.assert_allclose(curve[450:500] + curve[550:500:-1], 1.0, atol=0.02)


def test_outside_the_phones_is_silence() -> None:
    assert not expected_opening([], 10, 25.0).any()
    assert expected_opening([Phone("ɑ", 0.0, 0.1)], 25, 25.0)[-1] == 0.0


def test_closures_have_40_ms_on_both_sides_and_count_frames() -> None:
    (window,) = closures([Phone("ɑ", 0.0, 0.2), Phone("b", 0.2, 0.24), Phone("ɑ", 0.24, 0.5)])
    assert (window.start_s, window.end_s) == (pytest.approx(0.16), pytest.approx(0.28))
    assert window.frames(25.0, 100).tolist() == [4, 5, 6, 7]
    opened = np.ones(20)
    assert share_closed(opened, [window], 25.0, 0.5) == (0, 1)
    opened[7] = 0.0
    assert share_closed(opened, [window], 25.0, 0.5) == (1, 1)
    assert share_closed(opened[:3], [window], 25.0, 0.5) == (0, 0)


def test_pauses_leave_out_the_settling_time() -> None:
    phones = [
        Phone(SILENCE, 0.0, 1.0),
        Phone("ɑ", 1.0, 1.5),
        Phone(SILENCE, 1.5, 1.7),
        Phone("ɑ", 1.7, 2.0),
        Phone(SILENCE, 2.0, 3.0),
    ]
    assert [(round(p.start_s, 2), round(p.end_s, 2)) for p in pauses(phones)] == [(0.0, 0.9), (2.2, 2.9)]
