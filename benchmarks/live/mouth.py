"""When a mouth opened in decoded pictures, after speech began."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.aperture import CLOSED_MARGIN, face_mesh_meter
from kernels.arrays import F32, U8

REST_S = 1.0
LATEST_S = 2.5
IN_A_ROW = 2
"""Pictures in a row that must be open: one alone may be the meter's noise."""

Apertures = Callable[[Iterable[U8]], F32]
"""RGB pictures that follow on each other -> their apertures, NaN without a face."""


def mesh_apertures(weights: Path) -> Apertures:
    """The face mesh's.

    Args:
        weights: Folder of `liveanchor weights pull face`.
    """
    meter = face_mesh_meter(weights)
    return lambda pictures: meter.measure(pictures).values


def openings(kept: Sequence[tuple[float, U8]], onsets: Sequence[float], apertures: Apertures) -> list[float | None]:
    """Milliseconds from each onset to the first picture with an open mouth; None where it stayed shut.

    Open is what exceeds the rest value (median over the second before the onset) by more than `CLOSED_MARGIN`.

    Args:
        kept: Time decoded in monotonic seconds and picture as yuv420p (h * 3 / 2, w), in order.
        onsets: Monotonic seconds.
        apertures: Measures pictures.
    """
    found: list[float | None] = []
    for onset in onsets:
        near = [(at, picture) for at, picture in kept if onset - REST_S <= at <= onset + LATEST_S]
        values = apertures(_rgb(picture) for _, picture in near)
        times = np.array([at for at, _ in near])
        rest = values[(times < onset) & np.isfinite(values)] if len(near) else values
        found.append(_first_open(times - onset, values, float(np.median(rest)) + CLOSED_MARGIN) if len(rest) else None)
    return found


def _first_open(after_s: NDArray[np.floating], values: F32, limit: float) -> float | None:
    opened = (values > limit) & (after_s >= 0)  # NaN is not open
    for index in range(len(opened) - IN_A_ROW + 1):
        if opened[index : index + IN_A_ROW].all():
            return float(after_s[index]) * 1000
    return None


def _rgb(picture: U8) -> U8:
    return np.asarray(av.VideoFrame.from_ndarray(picture, format="yuv420p").to_ndarray(format="rgb24"), np.uint8)
