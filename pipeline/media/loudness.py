"""How loud speech is (EBU R128), and what the networks need to hear it as they learnt it.

The networks were trained on speech of ordinary level. What is much quieter or louder is brought to `NETWORK_LUFS` for them; what is
heard stays as it came unless a caller asks otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np

from kernels.arrays import F32, F64
from pipeline.types import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME

NETWORK_LUFS: Final = -20.0
COMFORTABLE_LUFS: Final = (-30.0, -12.0)
"""The networks hear speech in this range as it is."""
VOICE_LUFS: Final = -23.0
"""EBU R128's programme level: a voice that is to be normalised."""
MAX_PEAK: Final = 0.891
"""-1 dBFS: the highest sample of a voice that was brought to the target."""
LEAST_LUFS: Final = -60.0
"""What is quieter holds no speech that could be told from noise."""
SPEECH_SPREAD_DB: Final = 10.0
"""Levels of 40 ms differ by more in speech (syllables and pauses), and by 1 to 5 dB in noise and hum."""
SPEECH_BAND_HZ: Final = (200.0, 3_500.0)
"""Where that is looked for: hum says nothing, also hum that is switched on and off, and a voice is found above hum."""
LEAST_BAND_DB: Final = -20.0
"""Level within that band against all of the sound, at loud moments; speech has most of its power there."""
MOST_LINE_SHARE: Final = 0.9
"""Of the power within that band, what the strongest line has in half of the loud frames; a voice has harmonics, a tone has not."""
_LINE_BINS: Final = 2
"""On each side of the strongest bin of 25 Hz: the main lobe of a Hann window."""
_BLOCK_S: Final = 0.4
_FLOOR: Final = 1e-6


def integrated_lufs(samples: F32, rate_hz: int = SAMPLE_RATE_HZ) -> float:
    """Gated loudness of a whole clip, ITU-R BS.1770 and EBU R128.

    Args:
        samples: float32 (n,) or (n, channels) of one or two channels, -1..1, n >= 1; a clip below 0.4 s is measured as if it were
            repeated.
        rate_hz: Samples per second.

    Returns:
        LUFS; about -70 for silence.
    """
    import av

    table = samples.reshape(len(samples), -1)
    least = round(_BLOCK_S * rate_hz)
    if len(table) < least:
        table = np.tile(table, (-(-least // len(table)), 1))
    layout = "mono" if table.shape[1] == 1 else "stereo"
    graph = av.filter.Graph()
    source = graph.add_abuffer(sample_rate=rate_hz, format="fltp", layout=layout, time_base=Fraction(1, rate_hz))
    meter = graph.add("ebur128", "metadata=1:framelog=quiet")
    sink = graph.add("abuffersink")
    source.link_to(meter)
    meter.link_to(sink)
    graph.configure()
    lufs = -70.0
    for start in [*range(0, len(table), rate_hz), None]:
        if start is None:
            graph.push(None)
        else:
            block = np.ascontiguousarray(table[start : start + rate_hz].T)
            frame = av.AudioFrame.from_ndarray(block, format="fltp", layout=layout)
            frame.sample_rate, frame.pts, frame.time_base = rate_hz, start, Fraction(1, rate_hz)
            graph.push(frame)
        while True:
            try:
                measured = graph.pull()
            except (av.error.EOFError, av.error.BlockingIOError):
                break
            lufs = float(measured.metadata.get("lavfi.r128.I", lufs))
    return lufs


def network_gain(pcm: F32) -> float:
    """What to multiply speech with, so that the networks hear it at the level of their training.

    Args:
        pcm: float32 (n,), mono, 16 kHz, -1..1.

    Returns:
        1 for ordinary levels, and for quiet sound without the ups and downs of speech (noise stays quiet).
    """
    lufs = integrated_lufs(pcm)
    low, high = COMFORTABLE_LUFS
    if lufs > high:
        return float(10 ** ((NETWORK_LUFS - lufs) / 20))
    if LEAST_LUFS <= lufs < low and _varies_like_speech(pcm):
        return float(10 ** ((NETWORK_LUFS - lufs) / 20))
    return 1.0


def voice_gain(samples: F32, rate_hz: int) -> float:
    """What brings a voice to `VOICE_LUFS` without going over -1 dBFS; 1 for silence.

    Args:
        samples: float32 (n, channels), one or two channels, -1..1.
        rate_hz: Samples per second.
    """
    lufs = integrated_lufs(samples, rate_hz)
    peak = float(max(samples.max(), -samples.min()))
    if lufs < LEAST_LUFS or peak == 0.0:
        return 1.0
    return min(float(10 ** ((VOICE_LUFS - lufs) / 20)), MAX_PEAK / peak)


@cache
def speech_band() -> F64:
    """Second-order sections, float64 (4, 6), that let `SPEECH_BAND_HZ` through, for `scipy.signal.sosfilt` at 16 kHz."""
    from scipy.signal import butter  # here, so that importing pipeline stays light

    sections: F64 = butter(4, SPEECH_BAND_HZ, "bandpass", fs=SAMPLE_RATE_HZ, output="sos")
    return sections


def speech_levels(frames: F64) -> F64:
    """Describe frames of sound for `has_ups_and_downs`.

    Args:
        frames: float64 (2, n, 640), frames of 40 ms at 16 kHz: all of the sound, and what is within `SPEECH_BAND_HZ`.

    Returns:
        float64 (3, n): dB of all of the sound, dB within the band, and the share of the band's power in its strongest line, 0..1.
    """
    decibels = 20 * np.log10(np.maximum(frames.std(axis=2), _FLOOR))
    spectrum = np.fft.rfft(frames[1] * _window(frames.shape[2]), axis=1)
    power = np.square(spectrum.real) + np.square(spectrum.imag)
    strongest = power.argmax(axis=1)[:, None] + np.arange(-_LINE_BINS, _LINE_BINS + 1)
    line = np.take_along_axis(power, strongest.clip(0, power.shape[1] - 1), axis=1).sum(axis=1)
    return np.vstack([decibels, line / np.maximum(power.sum(axis=1), _FLOOR**2)])


def has_ups_and_downs(levels: F64) -> bool:
    """Whether levels rise and fall as speech does, within the band of speech, and it is no tone that does so.

    Args:
        levels: float64 (3, n) of `speech_levels`.
    """
    (_, band_quiet), (all_loud, band_loud) = np.percentile(levels[:2], (10, 95), axis=1).tolist()
    return ups_and_downs(LevelRange(band_quiet, band_loud, all_loud), levels)


@dataclass(frozen=True)
class LevelRange:
    """Between what levels a sound lies, in dB.

    Attributes:
        band_quiet: Level within the band of speech that a tenth of the frames does not exceed.
        band_loud: Level within it that 95 in 100 frames do not exceed.
        all_loud: Level of all of the sound that 95 in 100 frames do not exceed.
    """

    band_quiet: float
    band_loud: float
    all_loud: float


def ups_and_downs(found: LevelRange, levels: F64) -> bool:
    """Do what `has_ups_and_downs` does, where the range of the levels is known.

    Args:
        found: Range of the levels.
        levels: float64 (3, n) of `speech_levels`.
    """
    if found.band_loud - found.band_quiet <= SPEECH_SPREAD_DB or found.band_loud - found.all_loud <= LEAST_BAND_DB:
        return False
    lines = levels[2][levels[1] > found.band_loud - SPEECH_SPREAD_DB]
    return bool(np.median(lines) < MOST_LINE_SHARE)


@cache
def _window(length: int) -> F64:
    window: F64 = np.hanning(length)
    return window


def _varies_like_speech(pcm: F32) -> bool:
    from scipy.signal import sosfilt

    whole = len(pcm) - len(pcm) % SAMPLES_PER_FRAME
    if whole == 0:
        return False
    band = sosfilt(speech_band(), pcm[:whole])
    return has_ups_and_downs(speech_levels(np.stack((pcm[:whole], band)).reshape(2, -1, SAMPLES_PER_FRAME)))
