"""Finds pauses that a forced alignment or a network's durations hid in the neighbouring phones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32
from pipeline.types import SAMPLE_RATE_HZ
from training.phones import SILENCE, Phone
from training.runs import runs_of_true

FRAME_S: Final = 0.010
PAUSE_MIN_S: Final = 0.10
"""A quiet stretch of a phone this long becomes silence."""
CLOSURE_MORE_S: Final = 0.05
"""The closure of a stop is quiet by itself: there it must be longer by this much."""
STOP_KEEPS_S: Final = 0.06
"""What a stop keeps of a quiet stretch that it begins with."""
STOP_MIN_S: Final = 0.09
SOUND_MIN_S: Final = 0.04
"""What a stop, and any other sound, keeps of its beginning when the pause after it is cut off, however quiet it is."""
_STOPS: Final = frozenset({"p", "t", "k", "b", "d", "ɡ", "tʃ", "dʒ"})


def cut_pauses(phones: Sequence[Phone], pcm: F32) -> list[Phone]:
    """Cut quiet stretches out of phones that are too long to be one sound.

    Args:
        phones: Phones in order.
        pcm: float32 (n,), 16 kHz, of any scale.

    Returns:
        The phones, with silence in their gaps; a phone keeps its longer half.
    """
    quiet = quiet_frames(pcm)
    out: list[Phone] = []
    for phone in phones:
        a, b = round(phone.start_s / FRAME_S), round(phone.end_s / FRAME_S)
        start, length = _longest_run(quiet[a:b])
        is_stop = phone.symbol in _STOPS
        if phone.symbol == SILENCE or length * FRAME_S < PAUSE_MIN_S + (CLOSURE_MORE_S if is_stop else 0.0):
            out.append(phone)
            continue
        gap = Phone(SILENCE, (a + start) * FRAME_S, (a + start + length) * FRAME_S)
        if is_stop and start <= 2:  # its closure stays with it
            gap = Phone(SILENCE, gap.start_s, gap.end_s - STOP_KEEPS_S)
        sound = [Phone(phone.symbol, phone.start_s, gap.start_s), Phone(phone.symbol, gap.end_s, phone.end_s)]
        longer = max(sound, key=lambda part: part.end_s - part.start_s)
        out.extend([longer, gap] if longer is sound[0] else [gap, longer])
    return out


def cut_trailing_pauses(phones: Sequence[Phone], pcm: F32) -> list[Phone]:
    """Give the quiet end of every sound that stands before silence to the silence.

    Args:
        phones: Phones that tile the audio.
        pcm: float32 (n,), 16 kHz, of any scale.

    Returns:
        The phones, with gaps where there was silence in a sound.
    """
    quiet = quiet_frames(pcm)
    out: list[Phone] = []
    for index, phone in enumerate(phones):
        last = index + 1 == len(phones) or phones[index + 1].symbol == SILENCE
        if phone.symbol == SILENCE or not last:
            out.append(phone)
            continue
        a, b = round(phone.start_s / FRAME_S), round(phone.end_s / FRAME_S)
        sounding = np.flatnonzero(~quiet[a:b])
        heard = phone.start_s + (int(sounding[-1]) + 1 if len(sounding) else 0) * FRAME_S
        least = phone.start_s + (STOP_MIN_S if phone.symbol in _STOPS else SOUND_MIN_S)
        out.append(Phone(phone.symbol, phone.start_s, min(max(heard, least), phone.end_s), phone.stress))
    return out


def quiet_frames(pcm: F32) -> NDArray[np.bool_]:
    """Which frames of 10 ms lie in the lowest 30 % of the range of levels in decibels, down to 60 dB below the mean."""
    step = round(FRAME_S * SAMPLE_RATE_HZ)
    frames = pcm[: len(pcm) // step * step].astype(np.float64).reshape(-1, step)
    power = np.square(frames).mean(1)
    level = 10 * np.log10(power + power.mean() * 1e-6 + 1e-12)
    floor, loud = np.percentile(level, (5, 95))
    quiet: NDArray[np.bool_] = level < floor + 0.3 * (loud - floor)
    return quiet


def _longest_run(flags: NDArray[np.bool_]) -> tuple[int, int]:
    """First index and length of the longest run of True."""
    runs = runs_of_true(flags)
    if len(runs) == 0:
        return 0, 0
    start, stop = runs[int((runs[:, 1] - runs[:, 0]).argmax())]
    return int(start), int(stop - start)
