"""Phone timings -> curves of facial actions, with coarticulation and guaranteed closures.

Everything is computed on a 5 ms grid and sampled at frame times `i / fps`:

* the gap is the step function of the targets under a Hann window (short vowels undershoot, consonants open with their neighbours);
* `wide` and `pucker` are dominance blends (Cohen and Massaro, 1993): targets weighted by each phone's dominance, spread by an
  asymmetric exponential, longer ahead than behind, so that rounding is anticipated;
* /m b p/ close the lips, /f v/ tuck the lower lip, by windows that override the rest; pauses close the mouth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from engines.mini.rig import ACTION_INDEX, ACTIONS
from kernels.arrays import F32, F64
from training.phones import BILABIALS, SILENCE, Phone
from training.viseme_table import GLIDES, VISEMES, Viseme

GRID_HZ: Final = 200
JAW_GAP: Final = 0.38
"""Gap of `jaw_open` = 1 in mouth widths, from `engines.mini.rig`."""
LIPS_GAP: Final = 0.18

CLOSURE_MIN_S: Final = 0.068
"""Shortest time the lips stay closed for /m b p/: at 25 fps one or two frames fall into it, whatever their phase."""
CLOSING_S: Final = 0.040
OPENING_S: Final = 0.040
TUCK_MIN_S: Final = 0.070
PAUSE_MIN_S: Final = 0.150
"""A silence longer than this closes the mouth fully."""
PRESS: Final = 0.8
BESIDE_PAUSE_S: Final = 0.06
BENEATH_CLOSURE: Final = 0.7
"""Gap target during /m b p/ before the closure window is applied, as a share of the neighbours' mean."""


@dataclass(frozen=True)
class Style:
    """Describes the manner in which a speaker moves the lips.

    Attributes:
        amplitude: Scales the gap.
        shape: Scales `wide` and `pucker`.
        lead_s: How far the picture runs ahead of the sound, 0..0.05.
        smoothing_s: Full width of the Hann window.
        jaw: Scales the jaw's share of the gap.
    """

    amplitude: float = 1.0
    shape: float = 1.0
    lead_s: float = 0.0
    smoothing_s: float = 0.105
    jaw: float = 1.0

    @staticmethod
    def draw(generator: np.random.Generator) -> Style:
        """A random speaker, amplitude 0.85..1.15."""
        return Style(
            amplitude=float(generator.uniform(0.85, 1.15)),
            shape=float(generator.uniform(0.8, 1.15)),
            lead_s=float(generator.uniform(0.0, 0.006)),
            smoothing_s=float(generator.uniform(0.09, 0.12)),
            jaw=float(generator.uniform(0.88, 1.08)),
        )


def phones_to_actions(
    phones: Sequence[Phone],
    n_frames: int,
    fps: float,
    style: np.random.Generator | Style | None = None,
    loudness: F32 | None = None,
) -> F32:
    """Lip actions of an utterance.

    Args:
        phones: Canonical phones that tile the utterance; silence before and after is assumed.
        n_frames: Frames wanted; frame i is at `i / fps` seconds.
        fps: Frames per second.
        style: A generator draws a random style, None is the plain one.
        loudness: Optional (n,) at `fps`, 1 = usual; scales vowels mildly (power 0.25, clipped to 0.88..1.12).

    Returns:
        float32 (n_frames, n_actions) in the order of `engines.mini.rig.ACTIONS`; only mouth actions are non-zero. During /m b p/
        the gap is -0.029 (pressed), in pauses exactly 0.
    """
    how = Style.draw(style) if isinstance(style, np.random.Generator) else style or Style()
    out = np.zeros((n_frames, len(ACTIONS)), np.float32)
    if n_frames == 0:
        return out
    margin = 0.3
    n_grid = int(np.ceil((n_frames / fps + 2 * margin) * GRID_HZ))
    times = np.arange(n_grid) / GRID_HZ - margin
    table = _rasterise(phones, times)
    gap = _hann(table[:, 0], how.smoothing_s) * how.amplitude
    if loudness is not None and len(loudness):
        level = np.interp(times, np.arange(len(loudness)) / fps, loudness)
        gap = gap * np.clip(np.power(np.maximum(level, 1e-3), 0.25), 0.88, 1.12)
    jaw_share = _dominance(table[:, 1], np.maximum(table[:, 0], 0.02), 0.04, 0.04) * how.jaw
    wide, pucker = (_dominance(table[:, k], table[:, 4], 0.055, 0.085) * how.shape for k in (2, 3))
    closed, tucked, paused = _windows(phones, times, how.lead_s)
    shift = round(how.lead_s * GRID_HZ)
    gap, jaw_share, wide, pucker = (
        np.concatenate([x[shift:], np.zeros(shift)]) for x in (gap, jaw_share, wide, pucker)
    )
    active = 1.0 - paused
    gap = gap * (1.0 - closed) * active * (1.0 - 0.75 * tucked)
    shape = active * (1.0 - 0.3 * tucked)
    columns = {
        "jaw_open": gap * jaw_share / JAW_GAP,
        "lips_part": gap * (1.0 - jaw_share) / LIPS_GAP,
        "wide": wide * shape * (1.0 - 0.35 * closed),
        "pucker": pucker * shape * (1.0 - 0.65 * closed),
        "press": PRESS * np.clip(closed * 1.6 - 0.6, 0.0, 1.0),
        "lower_tuck": 0.9 * tucked * (1.0 - closed) * active,
    }
    at = (np.arange(n_frames) / fps + margin) * GRID_HZ
    low = np.floor(at).astype(np.int64)
    share = at - low
    for name, curve in columns.items():
        out[:, ACTION_INDEX[name]] = curve[low] * (1.0 - share) + curve[np.minimum(low + 1, n_grid - 1)] * share
    return out


def _row(viseme: Viseme) -> tuple[float, float, float, float, float]:
    return viseme.gap, viseme.jaw_share, viseme.wide, viseme.pucker, viseme.weight


def _rasterise(phones: Sequence[Phone], times: F64) -> F64:
    """Targets on the grid, (n, 5): gap, jaw_share, wide, pucker, weight. The last sound rings on a little into a pause."""
    table = np.tile(np.array(_row(VISEMES[SILENCE])), (len(times), 1))
    for i, phone in enumerate(phones):
        start = phone.start_s
        if phone.symbol == SILENCE:
            continue
        end = phone.end_s
        following = phones[i + 1] if i + 1 < len(phones) else Phone(SILENCE, end, end + 1.0)
        if following.symbol == SILENCE and phone.symbol not in BILABIALS:
            end += float(np.clip(following.end_s - following.start_s - 0.13, 0.0, 0.05))
        a, b = np.searchsorted(times, (start, end))
        table[a:b] = _row(VISEMES[phone.symbol])
        if (
            phone.symbol in BILABIALS
        ):  # the closure is a window of its own; beneath it the jaw moves on from vowel to vowel
            around = [VISEMES[other.symbol].gap for other in (*phones[max(i - 1, 0) : i], following)]
            table[a:b, 0] = BENEATH_CLOSURE * sum(around) / len(around)
        if phone.symbol in GLIDES:
            share, second = GLIDES[phone.symbol]
            middle = np.searchsorted(times, start + share * (phone.end_s - start))
            table[middle:b] = _row(second)
    return table


def _hann(x: F64, width_s: float) -> F64:
    """Smooth with a normalised Hann window of full width `width_s`."""
    taps = 2 * round(width_s * GRID_HZ / 2) + 1
    window = np.hanning(taps + 2)[1:-1]
    return np.convolve(x, window / window.sum(), mode="same")


def _dominance(target: F64, weight: F64, after_s: float, ahead_s: float) -> F64:
    """Weighted blend of targets, each spread `after_s` behind and `ahead_s` ahead of its phone, then smoothed."""
    reach = np.arange(-60, 61) / GRID_HZ
    kernel = np.where(reach >= 0, np.exp(-reach / after_s), np.exp(reach / ahead_s))
    blend = np.convolve(target * weight, kernel, mode="same") / np.convolve(weight, kernel, mode="same")
    return _hann(blend, 0.06)


def _windows(phones: Sequence[Phone], times: F64, lead_s: float) -> tuple[F64, F64, F64]:
    """Closed lips, tucked lip and pause as 0..1 curves on the grid; they are never spread over a phone that must be closed."""
    closed, tucked, paused = np.zeros(len(times)), np.zeros(len(times)), np.zeros(len(times))
    for i, phone in enumerate(phones):
        start, end = phone.start_s - lead_s, phone.end_s - lead_s
        quiet_before = i == 0 or phones[i - 1].symbol == SILENCE
        quiet_after = i + 1 == len(phones) or phones[i + 1].symbol == SILENCE
        if phone.symbol in BILABIALS:
            # the release, burst and breath, opens the lips; next to a pause they stay shut
            end += BESIDE_PAUSE_S if quiet_after else -(0.15 if phone.symbol == "p" else 0.05) * (end - start)
            start -= BESIDE_PAUSE_S if quiet_before else 0.0
            _raise(closed, times, start, end, CLOSURE_MIN_S, CLOSING_S, OPENING_S)
        elif phone.symbol in ("f", "v"):
            _raise(tucked, times, start, end, TUCK_MIN_S, 0.06, 0.06)
        elif phone.symbol == SILENCE and phone.end_s - phone.start_s > PAUSE_MIN_S:
            length = phone.end_s - phone.start_s
            release = min(0.18, 0.5 * length - 0.03)
            onset = min(0.10, 0.5 * length - 0.03)
            begin = phone.start_s if phone.start_s > 0.05 else times[0]
            _raise(
                paused,
                times,
                begin + release * (begin >= 0) - lead_s,
                phone.end_s - onset - lead_s,
                0.0,
                release,
                onset,
            )
    if phones:
        _raise(paused, times, phones[-1].end_s + 0.18, times[-1] + 1.0, 0.0, 0.18, 0.05)
        _raise(paused, times, times[0] - 1.0, phones[0].start_s - 0.10, 0.0, 0.05, 0.10)
    else:
        paused[:] = 1.0
    return closed, tucked, paused


def _raise(curve: F64, times: F64, start: float, end: float, shortest: float, rise: float, fall: float) -> None:
    """Lift `curve` to 1 from `start` to `end` (grown around its middle to at least `shortest`), with raised-cosine flanks."""
    if end - start < shortest:
        middle = 0.5 * (start + end)
        start, end = middle - 0.5 * shortest, middle + 0.5 * shortest
    a, b = np.searchsorted(times, (start - rise, end + fall))
    t = times[a:b]
    before = np.clip((start - t) / max(rise, 1e-6), 0.0, 1.0)
    behind = np.clip((t - end) / max(fall, 1e-6), 0.0, 1.0)
    np.maximum(curve[a:b], 0.5 + 0.5 * np.cos(np.pi * np.maximum(before, behind)), out=curve[a:b])
