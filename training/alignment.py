"""Phoneme timings turned into what the lip-sync measures compare with: expected opening, closures, pauses.

The definitions are those of the checks: silence and /m b p/ 0, open vowels 1, mid vowels 0.6, close vowels 0.35, other consonants
0.25; a step function smoothed by a 120 ms Hann window and sampled at frame times `i / fps`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32, I64
from training.phones import BILABIALS, PHONE_CLASS, SILENCE, Phone, PhoneClass

OPENING: Final[dict[PhoneClass, float]] = {
    PhoneClass.SILENCE: 0.0,
    PhoneClass.BILABIAL: 0.0,
    PhoneClass.OPEN: 1.0,
    PhoneClass.MID: 0.6,
    PhoneClass.CLOSE: 0.35,
    PhoneClass.LABIODENTAL: 0.25,
    PhoneClass.ROUNDED: 0.25,
    PhoneClass.OTHER: 0.25,
}
SMOOTHING_S: Final = 0.120
GRID_HZ: Final = 1000
CLOSURE_TOLERANCE_S: Final = 0.040


@dataclass(frozen=True)
class Window:
    """A stretch of time in seconds.

    Attributes:
        start_s: First instant.
        end_s: Last instant.
        symbol: Phone that it belongs to; `sil` for a pause.
    """

    start_s: float
    end_s: float
    symbol: str

    def frames(self, fps: float, n_frames: int) -> I64:
        """Indices of the frames whose time `i / fps` lies inside; may be empty."""
        first, last = int(np.ceil(self.start_s * fps - 1e-9)), int(np.floor(self.end_s * fps + 1e-9))
        return np.arange(max(first, 0), min(last, n_frames - 1) + 1)


def expected_opening(phones: Sequence[Phone], n_frames: int, fps: float) -> F32:
    """Expected mouth opening 0..1 at every frame time, float32 (n_frames,); silence outside the phones."""
    half = int(round(SMOOTHING_S / 2 * GRID_HZ))
    n_grid = int(np.ceil(n_frames / fps * GRID_HZ)) + 1
    centres = np.arange(-half, n_grid + half) / GRID_HZ
    steps = np.zeros(len(centres))
    for phone in phones:
        a, b = np.searchsorted(centres, (phone.start_s, phone.end_s))
        steps[a:b] = OPENING[PHONE_CLASS[phone.symbol]]
    window = np.hanning(2 * half + 1)
    smooth = np.convolve(steps, window / window.sum(), mode="valid")
    at = np.minimum(np.round(np.arange(n_frames) / fps * GRID_HZ).astype(np.int64), n_grid - 1)
    return smooth[at].astype(np.float32)


def closures(phones: Sequence[Phone]) -> list[Window]:
    """Every /m b p/ with its tolerance of 40 ms on both sides."""
    return [
        Window(phone.start_s - CLOSURE_TOLERANCE_S, phone.end_s + CLOSURE_TOLERANCE_S, phone.symbol)
        for phone in phones
        if phone.symbol in BILABIALS
    ]


def pauses(phones: Sequence[Phone], shortest_s: float = 0.3, settle_s: float = 0.2) -> list[Window]:
    """Silences of at least `shortest_s`, without the first `settle_s` after speech and the 0.1 s in which lips part again."""
    found = []
    for phone in phones:
        if phone.symbol == SILENCE and phone.end_s - phone.start_s >= shortest_s:
            start = phone.start_s + (settle_s if phone.start_s > 0 else 0.0)
            if phone.end_s - 0.1 > start:
                found.append(Window(start, phone.end_s - 0.1, SILENCE))
    return found


def share_closed(gap: NDArray[np.floating], windows: Sequence[Window], fps: float, threshold: float) -> tuple[int, int]:
    """How many windows hold a frame whose gap is below `threshold`.

    Returns:
        (closed, counted); windows outside the clip are not counted.
    """
    hits = counted = 0
    for window in windows:
        frames = window.frames(fps, len(gap))
        if len(frames):
            counted += 1
            hits += bool(np.min(gap[frames]) < threshold)
    return hits, counted
