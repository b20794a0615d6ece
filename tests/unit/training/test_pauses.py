from __future__ import annotations

import numpy as np
import pytest

from training.pauses import _longest_run, cut_pauses, cut_trailing_pauses, quiet_frames
from training.phones import SILENCE, Phone

PCM = np.full(16000, 0.3, np.float32)
PCM[4800:9600] = 1e-5  # 0.3 to 0.6 s


def test_longest_run() -> None:
    assert _longest_run(np.array([True, False, True, True, False])) == (2, 2)
    assert _longest_run(np.array([False])) == (0, 0)
    assert _longest_run(np.zeros(0, bool)) == (0, 0)


def test_a_pause_inside_a_phone_becomes_silence() -> None:
    for scale in (1.0, 32768.0):
        phones = cut_pauses([Phone("ɑ", 0.0, 0.2), Phone("v", 0.2, 0.6), Phone("f", 0.6, 1.0)], PCM * scale)
        assert [p.symbol for p in phones] == ["ɑ", "v", SILENCE, "f"]
        assert phones[1].end_s == pytest.approx(0.3)
        assert phones[2].end_s == pytest.approx(0.6)


def test_a_sound_before_silence_loses_its_quiet_end_and_a_stop_keeps_its_closure() -> None:
    for symbol, end in (("ɑ", 0.3), ("v", 0.3), ("k", 0.3)):
        phones = cut_trailing_pauses([Phone(symbol, 0.1, 0.55), Phone(SILENCE, 0.55, 1.0)], PCM)
        assert phones[0].end_s == pytest.approx(end)
    for symbol, end in (("ɑ", 0.36), ("k", 0.41)):  # nothing is heard of it
        phones = cut_trailing_pauses([Phone(symbol, 0.32, 0.58), Phone(SILENCE, 0.58, 1.0)], PCM)
        assert phones[0].end_s == pytest.approx(end)


def test_a_sound_before_a_sound_is_left_alone() -> None:
    phones = [Phone("k", 0.2, 0.6), Phone("ɑ", 0.6, 1.0)]
    assert cut_trailing_pauses(phones, PCM) == phones


def test_quiet_is_relative_and_digital_silence_is_no_error() -> None:
    assert quiet_frames(PCM).sum() == 30
    assert not quiet_frames(np.zeros(1600, np.float32)).any()
