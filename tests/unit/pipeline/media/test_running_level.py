"""The level of a voice that is still coming in."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.signal import sosfilt

from kernels.arrays import F32
from pipeline.media import loudness
from pipeline.media.loudness import network_gain
from pipeline.media.running_level import KEPT_FRAMES, LEAST_FRAMES, STEP, RunningLevel


def syllables(seconds: float) -> F32:
    """Three syllables a second of a buzz, with pauses and a trace of noise."""
    t = np.arange(round(seconds * 16_000)) / 16_000
    voice = sum(np.sin(2 * np.pi * 120 * k * t) / k for k in range(1, 20))
    noise = 1e-3 * np.random.default_rng(0).standard_normal(len(t))
    return (0.15 * voice * np.clip(np.sin(2 * np.pi * 3 * t), 0, 1) + noise).astype(np.float32)


def at_dbfs(pcm: F32, rms_db: float) -> F32:
    return (pcm * (10 ** (rms_db / 20) / float(np.sqrt(np.mean(pcm**2))))).astype(np.float32)


def heard(pcm: F32, block: int = 320) -> RunningLevel:
    level = RunningLevel()
    for start in range(0, len(pcm), block):
        level.hear(pcm[start : start + block])
    return level


@pytest.mark.parametrize("rms_db", [-27.0, -23.0, -18.0])
def test_ordinary_speech_stays_as_it_is(rms_db: float) -> None:
    assert heard(at_dbfs(syllables(6.0), rms_db)).gain == 1.0


@pytest.mark.parametrize("rms_db", [-52.0, -45.0, -38.0, -6.0])
def test_quiet_and_loud_speech_comes_to_where_a_file_s_would(rms_db: float) -> None:
    pcm = at_dbfs(syllables(6.0), rms_db)
    expected = min(20 * np.log10(network_gain(pcm)), 24.0)
    assert 20 * np.log10(heard(pcm).gain) == pytest.approx(expected, abs=3.0)


def test_nothing_is_said_before_a_second_was_heard() -> None:
    quiet = at_dbfs(syllables(6.0), -45.0)
    assert heard(quiet[:15_999]).gain == 1.0
    assert heard(quiet[:48_000]).gain > 4.0


@pytest.mark.parametrize("rms_db", [-55.0, -40.0])
def test_noise_stays_quiet(rms_db: float) -> None:
    noise = np.random.default_rng(3).standard_normal(96_000).astype(np.float32)
    assert heard(at_dbfs(noise, rms_db)).gain == 1.0


def test_silence_keeps_what_was_found() -> None:
    level = heard(at_dbfs(syllables(6.0), -45.0))
    found = level.gain
    level.hear(np.zeros(16_000 * 20, np.float32))
    assert level.gain == found > 1.0


@pytest.mark.parametrize("block", [1, 7, 320, 1000, 96_000])
def test_the_size_of_blocks_does_not_matter_at_the_end(block: int) -> None:
    pcm = at_dbfs(syllables(2.0), -45.0)
    whole = heard(pcm, 640).gain
    assert heard(pcm[:32_000], block).gain == pytest.approx(whole, rel=0.15)


def recomputed(pcm: F32) -> list[float]:
    """The gain after every step, from all of the last 10 s each time."""
    band = sosfilt(loudness.speech_band(), pcm)
    levels = loudness.speech_levels(np.stack([pcm, band]).reshape(2, -1, 640))
    gains, gain = [], 1.0
    for end in range(5, levels.shape[1] + 1, 5):
        kept = levels[:, max(end - KEPT_FRAMES, 0) : end]
        power = np.convolve(10 ** (kept[0] / 10), np.full(10, 0.1), "valid")
        if end >= LEAST_FRAMES:
            level = -1.0 + 10 * np.log10(np.mean(power[power >= 0.1 * np.mean(power)]))
            low, high = loudness.COMFORTABLE_LUFS
            heard_as = level + 20 * np.log10(gain)
            speech = level >= loudness.LEAST_LUFS and loudness.has_ups_and_downs(kept)
            if not low <= heard_as <= high and (level > high or speech):
                db = 0.0 if low <= level <= high else min(loudness.NETWORK_LUFS - level, 24.0)
                gain = 10 ** (db / 20)
        gains.append(gain)
    return gains


def test_it_is_what_the_last_ten_seconds_say_recomputed() -> None:
    loud, quiet = at_dbfs(syllables(6.0), -8.0), at_dbfs(syllables(9.0), -44.0)
    noise = np.random.default_rng(1).normal(0, 0.004, 16_000 * 6)
    pcm = np.concatenate([quiet, np.zeros(16_000 * 3), loud, noise, quiet, loud]).astype(np.float32)
    level, gains = RunningLevel(), []
    for start in range(0, len(pcm), STEP):
        level.hear(pcm[start : start + STEP])
        gains.append(level.gain)
    np.testing.assert_allclose(gains, recomputed(pcm), rtol=1e-9)
    assert len(set(gains)) > 3, "the gain moved"


def test_nothing_at_all_is_no_fault() -> None:
    level = RunningLevel()
    level.hear(np.zeros(0, np.float32))
    level.hear(np.zeros(64_000, np.float32))
    assert level.gain == 1.0
