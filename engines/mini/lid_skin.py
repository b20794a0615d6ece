"""The skin that a closing lid shows, and what stays in front of it: the frames of glasses and reflections in them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np

from engines.mini.easing import smoothstep
from kernels.arrays import F64
from kernels.sampling.remap import remap_bilinear

LID_FROM, LID_TO = 0.80, 0.32
"""Where clean skin is looked for above the eye, in lid rooms (brow to margin) above the margin."""
GRAIN_SIGMA: Final = 0.05
"""Finer than this share of the patch's width is grain of the skin; coarser is light and colour."""
GRAIN_LIMIT: Final = 2.5
"""A hair, a wrinkle or a spectacle frame is no grain: what exceeds the usual by this factor is cut."""
OWN_TOP: Final = 0.5
"""Share of the colour that the skin over the eye really has, against that of its lighter half."""
FRAME_DARK, FRAME_BRIGHT = 0.50, 1.30
"""Luma over the lid's, below and above which something in front of the eye is taken for a frame or a reflection."""
LEAST_BRIGHT: Final = 190.0
FRAME_AREA, GLINT_AREA = 0.012, 0.0015
"""Least share of the patch that a frame and a reflection cover."""


@dataclass(frozen=True)
class Lids:
    """Where an eye's lids are, texels of its patch.

    Attributes:
        upper: float64 (w,), row of the upper margin at rest.
        lower: float64 (w,), row of the lower one.
        room: float64 (w,), from the brow down to the upper margin.
        tall: Greatest height of the opening.
    """

    upper: F64
    lower: F64
    room: F64
    tall: float


def lid_sheet(patch: F64, lids: Lids) -> F64:
    """Skin between the skin below the brow and that under the eye, with the grain of one of them, float64 (h, w, 3)."""
    height = len(patch)
    rows = np.arange(height, dtype=np.float64)[:, None]
    over = (lids.upper - LID_FROM * lids.room, lids.upper - LID_TO * lids.room)
    under = (lids.lower + 0.45 * lids.tall, lids.lower + 1.05 * lids.tall)
    lighter, bottom = _band(patch, *over, 50.0), _band(patch, *under, 50.0)
    top = OWN_TOP * _band(patch, *over, 25.0) + (1.0 - OWN_TOP) * lighter
    # a shadow, a brow or a spectacle frame above the eye is not the lid's colour
    level = np.clip(bottom.mean(-1, keepdims=True) * 0.80 / np.maximum(top.mean(-1, keepdims=True), 1.0), 1.0, 1.15)
    top = top * level
    t = smoothstep(0.0, 1.0, (rows - over[1]) / np.maximum(under[0] - over[1], 1.0))[..., None]
    mixed = 0.6 * top + 0.4 * bottom
    smooth: F64 = mixed * (1 - t) + (0.4 * mixed + 0.6 * bottom) * t
    return smooth + _grain(patch, over, under)


def in_front(patch: F64, sheet: F64, lids: Lids, lashes: float) -> F64:
    """Share of every texel that stays before a closing lid, float64 (h, w); all 0 where no glasses are worn.

    Args:
        patch: float64 (h, w, 3).
        sheet: From `lid_sheet`.
        lids: Where they are.
        lashes: Thickness of the strip of lashes, texels.
    """
    rows = np.arange(len(patch), dtype=np.float64)[:, None]
    luma = patch.mean(-1)
    ratio = luma / np.maximum(sheet.mean(-1), 1.0)
    eye = (rows > lids.upper - 1.5 * lashes) & (rows < lids.lower + 0.25 * lids.tall)
    dark = _parts(ratio < FRAME_DARK, eye, FRAME_AREA)
    bright = _parts((ratio > FRAME_BRIGHT) & (luma > LEAST_BRIGHT), eye, GLINT_AREA)
    front = cv2.dilate((dark | bright).astype(np.uint8), np.ones((3, 3), np.uint8)).astype(np.float64)
    return np.asarray(cv2.GaussianBlur(front, (0, 0), 1.2), dtype=np.float64)


def _parts(found: np.ndarray, eye: np.ndarray, least: float) -> np.ndarray:
    """Connected parts of at least a share of the patch that lie for the most part outside the eye itself."""
    count, labels = cv2.connectedComponents(found.astype(np.uint8))
    area = np.bincount(labels.ravel(), minlength=count)
    own = np.bincount(labels[eye], minlength=count)
    keep = (area >= least * found.size) & (own < 0.35 * area)
    keep[0] = False
    return np.asarray(keep[labels])


def _band(patch: F64, first: F64, last: F64, percentile: float) -> F64:
    """Colour of a band's lighter texels along the patch, smooth, float64 (w, 3)."""
    height, width = patch.shape[:2]
    rows, luma = np.arange(height, dtype=np.float64)[:, None], patch.mean(-1)
    inside = (rows >= first) & (rows <= last)
    limit = np.where(inside, luma, np.nan)
    limit = np.nanpercentile(np.where(inside.any(0), limit, luma), percentile, axis=0)
    chosen = (inside & (luma >= limit - 1.0)).astype(np.float64)
    colour = (patch * chosen[..., None]).sum(0) / np.maximum(chosen.sum(0), 1.0)[:, None]
    weight = chosen.sum(0) + 1e-3
    joined = np.concatenate([colour * weight[:, None], weight[:, None]], axis=1)[None].astype(np.float32)
    smooth = cv2.GaussianBlur(joined, (0, 0), 0.10 * width, borderType=cv2.BORDER_REPLICATE)[0].astype(np.float64)
    result: F64 = smooth[:, :3] / smooth[:, 3:]
    return result


def _grain(patch: F64, over: tuple[F64, F64], under: tuple[F64, F64]) -> F64:
    """The grain of the skin over or under the eye, whichever is calmer, folded over all of the patch, float64 (h, w, 3)."""
    height, width = patch.shape[:2]
    fine = patch - cv2.GaussianBlur(patch, (0, 0), max(GRAIN_SIGMA * width, 1.0), borderType=cv2.BORDER_REPLICATE)
    rows = np.repeat(np.arange(height, dtype=np.float64)[:, None], width, 1)
    usual, first, last = min((_usual(fine, rows, *band), *band) for band in (over, under))
    first, last = np.clip(first, 0.0, height - 3.0), np.clip(last, 2.0, height - 1.0)
    size = np.maximum(last - first, 2.0)
    phase = np.mod(rows - first, 2.0 * size)
    folded = first + np.minimum(phase, 2.0 * size - phase)
    columns = np.repeat(np.arange(width, dtype=np.float64)[None, :], height, 0)
    places = np.stack([columns, folded], axis=-1).astype(np.float32)
    limit = GRAIN_LIMIT * usual
    return np.asarray(remap_bilinear(np.clip(fine, -limit, limit).astype(np.float32), places), dtype=np.float64)


def _usual(fine: F64, rows: F64, first: F64, last: F64) -> float:
    inside = (rows >= first) & (rows <= last)
    return 1.48 * float(np.median(np.abs(fine[inside]))) if inside.any() else 0.0
