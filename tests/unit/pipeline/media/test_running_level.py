"""The level of a voice that is still coming in."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.arrays import F32
from pipeline.media.loudness import network_gain
from pipeline.media.running_level import RunningLevel


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


def test_nothing_at_all_is_no_fault() -> None:
    level = RunningLevel()
    level.hear(np.zeros(0, np.float32))
    level.hear(np.zeros(64_000, np.float32))
    assert level.gain == 1.0
