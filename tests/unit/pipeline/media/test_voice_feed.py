"""The voice taken in small frames equals the voice taken at once."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.arrays import F32
from pipeline.media.audio_in import AudioTrack
from pipeline.media.resample import resample
from pipeline.media.voice_feed import VoiceFeed


def noise(count: int, channels: int) -> F32:
    return np.random.default_rng(3).uniform(-0.9, 0.9, (count, channels)).astype(np.float32)


def read_all(feed: VoiceFeed, size: int = 1024) -> list[F32]:
    blocks = []
    while len(block := feed.read(size)):
        blocks.append(block)
    assert not len(feed.read(size)), "the end stays the end"
    return blocks


@pytest.mark.parametrize("rate_hz", [8000, 16_000, 22_050, 44_100])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("count", [1, 700, 16_001, 50_000])
def test_a_low_rate_is_brought_up_as_the_whole_would_be(rate_hz: int, channels: int, count: int) -> None:
    voice = noise(count, channels)
    feed = VoiceFeed(AudioTrack(voice, rate_hz), 48_000)
    blocks = read_all(feed)
    assert feed.rate_hz == 48_000 and {len(block) for block in blocks[:-1]} <= {1024}
    whole = np.clip(resample(voice, rate_hz, 48_000), -1.0, 1.0)
    assert np.array_equal(np.concatenate(blocks), whole)


def test_a_high_rate_passes_and_is_cleaned() -> None:
    voice = noise(5000, 2)
    voice[10], voice[20, 0], voice[30, 1] = np.nan, np.inf, 7.0
    blocks = read_all(VoiceFeed(AudioTrack(voice, 44_100), 44_100))
    out = np.concatenate(blocks)
    assert out.shape == voice.shape and out.dtype == np.float32
    assert not out[10].any() and out[20, 0] == 0.0 and out[30, 1] == 1.0
    assert np.array_equal(out[100:], voice[100:]) and np.isnan(voice[10]).all(), "the caller's samples stay as they are"
