import numpy as np
import pytest

from kernels.arrays import F32
from pipeline.expression.looks import CHANNELS, LIDS, NOD, RAISE
from pipeline.session.blink_cue import blink_cue
from pipeline.session.gestures import AHEAD, NOD_DEG, RAISE_MOST, WholeVoice, gestures


def voice(levels: list[float]) -> F32:
    """Noise of these levels, one per frame."""
    noise = np.random.default_rng(5).uniform(-1, 1, (len(levels), 640)) * np.sqrt(3)
    pcm: F32 = (noise * np.array(levels)[:, None]).astype(np.float32).ravel()
    return pcm


def syllables(stressed: set[int], frames: int = 250, end: int = 10_000) -> F32:
    """Syllables of six frames each at a third of the level of stressed ones, up to a frame."""
    swell = np.array([0.75, 0.9, 1.0, 0.95, 0.85, 0.7])
    levels = [
        0.0 if f >= end else float(swell[f % 6]) * (0.3 if f - f % 6 in stressed else 0.08 if f % 12 else 0.06)
        for f in range(frames)
    ]
    return voice(levels)


def test_the_head_and_the_brows_go_with_stressed_syllables() -> None:
    stressed = {60, 120, 180}
    found = gestures(WholeVoice(syllables(stressed)), 2, 0, 250)
    begins = np.flatnonzero((found[1:, NOD] > 0) & (found[:-1, NOD] == 0)) + 1
    taken = {int(frame) // 6 * 6 for frame in begins + 2}
    assert taken and taken <= stressed
    assert 0.5 * NOD_DEG < found[:, NOD].max() <= NOD_DEG
    np.testing.assert_allclose(found[:, RAISE] / RAISE_MOST, found[:, NOD] / NOD_DEG, atol=1e-6)
    assert np.abs(np.diff(found[:, NOD])).max() < 0.6, "no jump"


def test_an_even_voice_moves_nothing_and_neither_does_its_start() -> None:
    found = gestures(WholeVoice(voice([0.0] * 40 + [0.1] * 200)), 2, 0, 240)
    assert not found[:, NOD].any() and not found[:200, LIDS].any()


def test_a_phrase_ends_in_a_blink_unless_one_comes_anyway() -> None:
    for seed in range(20):
        end = 150
        found = gestures(WholeVoice(syllables(set(), end=end)), seed, 0, 250)[:, LIDS]
        planned = blink_cue(seed, end - 14, 28).any()
        assert found.any() != planned
        if not planned:
            assert end < np.argmax(found == 1.0) < end + 12


def test_silence_has_no_gestures() -> None:
    assert gestures(WholeVoice(np.zeros(64_000, np.float32)), 1, 0, 100).shape == (100, CHANNELS)
    assert not gestures(WholeVoice(np.zeros(64_000, np.float32)), 1, 0, 100).any()


@pytest.mark.parametrize("hop", [4, 8])
def test_any_hop_is_the_same_alone_with_what_a_live_session_knows_then(hop: int) -> None:
    pcm = syllables({24, 60, 96, 150}, end=190)
    whole = gestures(WholeVoice(pcm), 3, 0, 240)
    for first in range(0, 240, hop):
        known = WholeVoice(pcm[: (first + hop + AHEAD) * 640])
        np.testing.assert_allclose(gestures(known, 3, first, hop), whole[first : first + hop], atol=1e-6)
