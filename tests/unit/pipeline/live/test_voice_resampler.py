"""48 kHz of a foreign clock to 16 kHz of ours: tones stay pure, nothing aliases, blocks and changes of pace leave no trace."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.arrays import F32
from pipeline.live.voice_resampler import VoiceResampler
from pipeline.media.resample import resample


def tone(hz: float, count: int = 48_000) -> F32:
    wave: F32 = np.sin(2 * np.pi * hz * np.arange(count) / 48_000).astype(np.float32)
    return wave


def read(samples: F32, pace: float = 1.0, blocks: int = 37) -> F32:
    resampler = VoiceResampler()
    resampler.pace = pace
    found: F32 = np.concatenate([resampler.push(block) for block in np.array_split(samples, blocks)])
    return found


def level_db(pcm: F32) -> float:
    return 10 * float(np.log10(np.mean(np.square(pcm[100:], dtype=np.float64)) * 2 + 1e-30))


@pytest.mark.parametrize("pace", [1.0, 1.0002, 0.9998, 1.001, 0.999])
@pytest.mark.parametrize("hz", [100.0, 1000.0, 4000.0, 6000.0])
def test_a_tone_lies_where_its_clock_says(hz: float, pace: float) -> None:
    out = read(tone(hz), pace)
    assert len(out) == pytest.approx((48_000 - 48) / 3 / pace, abs=1)
    wanted = np.sin(2 * np.pi * hz * 3 * pace * np.arange(len(out)) / 48_000)
    assert float(np.abs(out - wanted)[40:].max()) < 1e-3, "-60 dB"


@pytest.mark.parametrize("hz", [9_000.0, 12_000.0, 16_100.0, 23_000.0])
def test_what_16_khz_cannot_hold_is_gone(hz: float) -> None:
    assert level_db(read(tone(hz), 1.0003)) < -60


@pytest.mark.parametrize("pace", [1.0, 1.0005])
def test_blocks_leave_no_trace(pace: float) -> None:
    samples = np.random.default_rng(0).normal(0, 0.2, 9_601).astype(np.float32)
    whole = read(samples, pace, 1)
    for blocks in (2, 10, 999):
        np.testing.assert_allclose(read(samples, pace, blocks), whole, atol=1e-6)


def test_a_change_of_pace_is_no_click() -> None:
    resampler, found = VoiceResampler(), []
    for index, block in enumerate(np.array_split(tone(1000.0, 96_000), 100)):
        resampler.pace = 1.001 if index % 2 else 0.999
        found.append(resampler.push(block))
    steps = np.abs(np.diff(np.concatenate(found)[40:], n=2))
    omega = 2 * np.pi * 1000 / 16_000
    assert float(steps.max()) < 1.01 * omega**2, "no more bent than the tone itself"


def test_it_hears_what_ffmpeg_hears() -> None:
    noise = np.random.default_rng(1).normal(0, 0.1, 48_000)
    spectrum = np.fft.rfft(noise)
    spectrum[6_500:] = 0  # Hz: from there on the two filters differ
    voice = np.fft.irfft(spectrum).astype(np.float32)
    ours, theirs = read(voice), resample(voice[:, None], 48_000, 16_000)[:, 0]
    apart = (ours - theirs[: len(ours)])[100:-100]
    assert 10 * np.log10(np.mean(apart**2) / np.mean(theirs**2)) < -40
