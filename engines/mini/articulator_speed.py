"""Jaw and lips have mass: how fast a mouth may open and shut, without missing a closure.

The motion model may command a mouth that is shut in one frame and wide open in the next, which a viewer sees as a snap. Here the
aperture (inner-lip gap over mouth width) changes by at most `MAX_STEP` between frames at 25 frames/s. With a the apertures that are
commanded in a window, L the step, and b the aperture that is shown before it:

    lower_k  = min_j a_j + L |k - j|        upper_k = max_j a_j - L |k - j|
    middle_k = (lower_k + upper_k) / 2
    cone_k   = min over frames j that stay shut of a_j + L |k - j|
    result_k = clamp(min(middle_k, cone_k), result_(k-1) - L, result_(k-1) + L), result_(-1) = b

`middle` is the curve of slope at most L that strays least from a (each envelope is of slope L, so their mean is; no other curve
has a smaller largest error). `cone` keeps closures: the mouth begins to shut before one, and opens after it. Of a closure of
several frames the outermost ones may be given up to that, never all. Only what the past forbids comes late: a closure right at
the start of a window whose past is shown already.

A frame whose aperture has to change is moved along the line to the nearest frame that lies on the other side of the wanted
aperture, all control points of the mouth by the same share: every shape that comes out lies between two that the model made.
Lids, gaze, brows and the head are not touched.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engines.mini.control_points import INDEX
from engines.motion_layout import EXP
from kernels.arrays import F32, F64, I64

MAX_STEP: Final = 0.12
"""Largest change of the aperture from one frame at 25 frames/s to the next, in mouth widths: 150 mm/s on a mouth 50 mm wide, what
a lower lip reaches in fluent speech. Less of it would shut and open more softly, and follow the sounds less."""
SHUT: Final = 0.03
"""Below this aperture a mouth is meant to be shut."""
MOUTH_POINTS: Final[tuple[str, ...]] = tuple(
    name for name in INDEX if name == "chin" or name.startswith(("lip_", "mouth_", "cheek_"))
)
"""The control points that move together."""
_X, _Y = 0, 1
_LEAST_WIDTH: Final = 0.3
_SAME: Final = 1e-7


def _columns() -> I64:
    start = EXP.start
    return np.array([start + 3 * INDEX[name] + axis for name in MOUTH_POINTS for axis in (_X, _Y)], dtype=np.int64)


_MOUTH: Final = np.append(
    _columns(), [EXP.start + 3 * INDEX[name] + 2 for name in MOUTH_POINTS if name.startswith("lip_")]
)
_GAP: Final = (EXP.start + 3 * INDEX["lip_lower_mid"] + _Y, EXP.start + 3 * INDEX["lip_upper_mid"] + _Y)
_WIDTH: Final = (EXP.start + 3 * INDEX["mouth_corner_left"] + _X, EXP.start + 3 * INDEX["mouth_corner_right"] + _X)


def aperture(motion: F32) -> F64:
    """Commanded aperture: inner-lip gap over the mouth's width as it is drawn; below 0 the lips are pressed together.

    Args:
        motion: float32 (..., 265).

    Returns:
        float64 (...,), mouth widths.
    """
    gap, width = _gap_and_width(motion)
    result: F64 = gap / width
    return result


def limit_speed(shown: F32, motion: F32, max_step: float = MAX_STEP) -> F32:
    """Give jaw and lips a largest speed.

    Args:
        shown: float32 (265,), the frame that is shown before the first one.
        motion: float32 (n, 265), consecutive frames at 25 frames/s.
        max_step: Largest change of the aperture between frames, mouth widths, above 0.

    Returns:
        float32 (n, 265); frames that are slow enough as they are come back bit for bit.
    """
    before = max(float(aperture(shown)), 0.0)
    commanded = np.maximum(aperture(motion), 0.0)
    wanted = _slowed(before, commanded, max_step)
    limited = motion.copy()
    for k in np.flatnonzero(np.abs(wanted - commanded) > _SAME):
        source = _other_side(motion, commanded, int(k), float(wanted[k]))
        _move_towards(
            limited[k], limited[k - 1] if source is None and k else shown if source is None else source, wanted[k]
        )
    return limited


def _slowed(before: float, commanded: F64, step: float) -> F64:
    """The curve of the module's formula, float64 (n,)."""
    count = len(commanded)
    distance = step * np.abs(np.arange(count)[:, None] - np.arange(count))
    curve: F64 = ((commanded + distance).min(axis=1) + (commanded - distance).max(axis=1)) / 2
    shut = _stays_shut(before, commanded, step)
    if shut.any():
        curve = np.minimum(curve, (commanded + distance)[:, shut].min(axis=1))
    last = before
    for k in range(count):
        curve[k] = last = min(max(float(curve[k]), last - step), last + step)
    return curve


def _stays_shut(before: float, commanded: F64, step: float) -> NDArray[np.bool_]:
    """Which frames of each closure have to be shut, bool (n,): all but the outermost, and at least one that can be reached."""
    meant = commanded < SHUT
    kept = np.zeros(len(commanded), bool)
    first = 0
    while first < len(commanded):
        if not meant[first]:
            first += 1
            continue
        last = first
        while last + 1 < len(commanded) and meant[last + 1]:
            last += 1
        begin = first + 1 if 0 < first < last else first
        reached = math.ceil((before - float(commanded[first : last + 1].min())) / step - 1e-9) - 1
        begin = max(begin, min(reached, last))
        end = last - 1 if last < len(commanded) - 1 else last
        kept[begin : max(end, begin) + 1] = True
        first = last + 1
    return kept


def _other_side(motion: F32, commanded: F64, k: int, target: float) -> F32 | None:
    """The nearest frame of the window whose aperture lies beyond `target`, seen from frame k's; None where there is none."""
    closing = target < commanded[k]
    beyond = np.flatnonzero(commanded <= target if closing else commanded >= target)
    if not len(beyond):
        return None
    nearest: F32 = motion[beyond[np.argmin(np.abs(beyond - k))]]
    return nearest


def _gap_and_width(motion: F32) -> tuple[F64, F64]:
    wide = motion.astype(np.float64)
    gap = wide[..., _GAP[0]] - wide[..., _GAP[1]]
    width = np.maximum(1.0 + wide[..., _WIDTH[0]] - wide[..., _WIDTH[1]], _LEAST_WIDTH)
    return gap, width


def _move_towards(frame: F32, other: F32, target: float) -> None:
    """Move the mouth of `frame` along the line to `other`, in place, until its aperture is `target`, which lies between theirs.

    Gap and width are linear along the line: (g + s dg) / (w + s dw) = target gives the share s.
    """
    gap, width = (float(value) for value in _gap_and_width(frame))
    gap_there, width_there = (float(value) for value in _gap_and_width(other))
    slope = (gap_there - gap) - target * (width_there - width)
    if abs(slope) < _SAME:
        return
    share = np.float32(np.clip((target * width - gap) / slope, 0.0, 1.0))
    frame[_MOUTH] += share * (other[_MOUTH] - frame[_MOUTH])
