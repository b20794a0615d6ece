"""Measures of how a talking picture looks: pure functions of curves and pictures.

Definitions of the cases of `python -m benchmarks.picture`; every one is taken from decoded video.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.face import topology
from kernels.arrays import F32, F64, U8
from kernels.errors import InvalidInputError

LUMA: Final = np.array([0.299, 0.587, 0.114])
LEAST_NOSE_PX: Final = 2.0
"""Frames in which the nose moved less from its mean say nothing about what follows it."""
TOOTH_MIN_LUMA: Final = 60.0
TOOTH_MAX_CHROMA: Final = 0.40
"""A tooth's colours differ by at most this share of the brightest: lips, tongue and gums are redder."""
LEAST_TOOTH_SHARE: Final = 0.25
"""Share of the opening that has to be tooth before a picture counts as one that shows them."""
LEAST_TOOTH_PIXELS: Final = 24


def aperture_steps(aperture: F32) -> F64:
    """Changes from frame to frame over the clip's range (p1 to p99), float64 (n - 1,); none to or from a frame without a face.

    Args:
        aperture: float32 (n,), NaN where no face was found.

    Raises:
        InvalidInputError: A mouth that never moves, or fewer than two frames.
    """
    seen = aperture[np.isfinite(aperture)].astype(np.float64)
    low, high = np.percentile(seen, (1, 99)) if seen.size else (0.0, 0.0)
    if seen.size < 2 or high <= low:
        raise InvalidInputError("aperture", f"{seen.size} frames of one value", "a mouth that moves")
    steps = np.abs(np.diff(aperture.astype(np.float64))) / (high - low)
    result: F64 = steps[np.isfinite(steps)]
    return result


def tooth_luma(rgb: U8, points: F32) -> float | None:
    """90th percentile of the luma of the teeth that a picture shows; None where it shows none.

    Args:
        rgb: uint8 (H, W, 3).
        points: float32 (468, 2 or 3), picture pixels.
    """
    ring = [*topology.UPPER_LIP_INNER, *topology.LOWER_LIP_INNER[::-1]]
    inside = np.zeros(rgb.shape[:2], np.uint8)
    cv2.fillPoly(inside, [np.round(points[ring, :2]).astype(np.int32)], 1)
    colours = rgb[inside > 0].astype(np.float64)
    if not len(colours):
        return None
    luma = colours @ LUMA
    brightest = np.maximum(colours.max(axis=1), 1.0)
    teeth = (luma > TOOTH_MIN_LUMA) & ((brightest - colours.min(axis=1)) / brightest < TOOTH_MAX_CHROMA)
    if teeth.sum() < max(LEAST_TOOTH_PIXELS, LEAST_TOOTH_SHARE * len(colours)):
        return None
    return float(np.percentile(luma[teeth], 90))


def following(nose: F64, other: F64) -> tuple[float, float]:
    """Slopes, x and y, of a place's motion on the nose tip's, over the frames in which the nose moved.

    Args:
        nose: float64 (n, 2), pixels.
        other: float64 (n, 2), pixels.

    Returns:
        Least-squares slopes through the means: 1 for pure translation. NaN in an axis in which the nose moves too little.
    """
    slopes = []
    for axis in (0, 1):
        a, b = nose[:, axis] - nose[:, axis].mean(), other[:, axis] - other[:, axis].mean()
        moved = np.abs(a) >= LEAST_NOSE_PX
        slopes.append(float(a[moved] @ b[moved] / (a[moved] @ a[moved])) if moved.sum() >= 5 else float("nan"))
    return slopes[0], slopes[1]


def breath_px(chest: F64, head: F64, canvas_height: int) -> float:
    """Peak to peak of the chest's vertical motion with the head's regressed out, pixels of a canvas 1280 high.

    Args:
        chest: float64 (n,), vertical places of the chest, pixels.
        head: float64 (n, 2), places of the nose tip.
        canvas_height: Height of the canvas, pixels.
    """
    causes = np.column_stack([np.ones(len(head)), head - head.mean(axis=0)])
    rest = chest - causes @ np.linalg.lstsq(causes, chest, rcond=None)[0]
    low, high = np.percentile(rest, (2, 98))
    return float(high - low) * 1280.0 / canvas_height


def detail(rgb: U8, box: tuple[int, int, int, int]) -> float:
    """Variance of the luma's Laplacian in a box (left, top, right, bottom)."""
    left, top, right, bottom = box
    luma = rgb[top:bottom, left:right].astype(np.float64) @ LUMA
    return float(cv2.Laplacian(luma, cv2.CV_64F).var())


@dataclass(frozen=True)
class Track:
    """Places of followed points, float64 (n, k, 2), picture pixels."""

    places: F64

    def middle(self) -> F64:
        """Median of the points in every frame, (n, 2)."""
        result: F64 = np.median(self.places, axis=1)
        return result


def follow(frames: Sequence[U8], points: NDArray[np.floating]) -> Track:
    """Follow points of the first frame through a film by optical flow (pyramidal Lucas-Kanade), always from the first frame.

    Args:
        frames: uint8 (H, W, 3) each.
        points: (k, 2), pixels of the first frame.
    """
    grey = [cv2.cvtColor(frame, cv2.COLOR_RGB2GRAY) for frame in frames]
    start = points.astype(np.float32).reshape(-1, 1, 2)
    guess, places = start.copy(), [start[:, 0].astype(np.float64)]
    for picture in grey[1:]:
        found, _, _ = cv2.calcOpticalFlowPyrLK(
            grey[0],
            picture,
            start,
            guess.copy(),
            winSize=(21, 21),
            maxLevel=3,
            criteria=(cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 40, 0.003),
            flags=cv2.OPTFLOW_USE_INITIAL_FLOW,
        )
        guess = np.asarray(found, dtype=np.float32)
        places.append(guess[:, 0].astype(np.float64))
    return Track(np.stack(places))


def textured_points(rgb: U8, mask: U8, count: int, apart: float = 6.0) -> F32:
    """Up to `count` places (k, 2) inside a mask that optical flow can hold on to; k may be 0."""
    found = cv2.goodFeaturesToTrack(cv2.cvtColor(rgb, cv2.COLOR_RGB2GRAY), count, 0.02, apart, mask=mask)
    return np.zeros((0, 2), np.float32) if found is None else np.asarray(found[:, 0], dtype=np.float32)
