"""The silence gate: thresholds, hysteresis, hold, and its independence of how the audio is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pipeline.config import SilenceSettings
from pipeline.session.silence import SilenceGate, frame_rms


def test_rms_of_a_sine_is_its_amplitude_over_root_two_and_dc_does_not_count() -> None:
    t = np.arange(640 * 3) / 16_000
    tone = (0.5 * np.sin(2 * np.pi * 250 * t)).astype(np.float32)
    np.testing.assert_allclose(frame_rms(tone), 0.5 / np.sqrt(2), rtol=1e-4)
    np.testing.assert_allclose(frame_rms(np.full(640, 0.7, np.float32)), 0.0, atol=1e-6)
    assert frame_rms(np.zeros(0, np.float32)).shape == (0,)


def test_opens_at_once_and_closes_after_the_hold() -> None:
    gate = SilenceGate(SilenceSettings(hold_frames=2))
    speech, after = gate.step(np.array([0.0, 0.1, 0.0, 0.0, 0.0, 0.0], np.float32))
    assert speech.tolist() == [False, True, True, True, False, False]
    assert not after.speaking


def test_between_the_thresholds_a_running_speech_goes_on_but_none_starts() -> None:
    gate = SilenceGate(SilenceSettings(hold_frames=0))
    middle = np.full(3, 0.006, np.float32)
    assert gate.step(middle)[0].tolist() == [False] * 3
    assert SilenceGate(SilenceSettings(hold_frames=0), speaking=True).step(middle)[0].tolist() == [True] * 3


def test_noise_at_minus_50_dbfs_never_opens_the_gate() -> None:
    noise = np.random.default_rng(0).normal(0, 10 ** (-50 / 20), 16_000 * 5).astype(np.float32)
    assert not SilenceGate(SilenceSettings()).step(frame_rms(noise))[0].any()


@given(st.lists(st.floats(0, 0.0625, width=32), max_size=60), st.integers(0, 60))
def test_cutting_the_stream_anywhere_changes_nothing(energies: list[float], cut: int) -> None:
    rms = np.array(energies, np.float32)
    whole, end = SilenceGate(SilenceSettings(hold_frames=3)).step(rms)
    first, gate = SilenceGate(SilenceSettings(hold_frames=3)).step(rms[:cut])
    second, end_cut = gate.step(rms[cut:])
    assert np.array_equal(whole, np.concatenate([first, second])) and end == end_cut


def test_thresholds_in_the_wrong_order_are_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="close_rms"):
        SilenceSettings(open_rms=0.001, close_rms=0.01)
