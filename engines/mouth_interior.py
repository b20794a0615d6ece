"""What an open mouth shows: teeth of the upper jaw (fixed to the skull), teeth of the lower jaw and the tongue (fixed to the jaw).

Drawn once per avatar as textures in the face's own units, toned to the picture's exposure; where the source shows its own upper
teeth, they take the place of the drawn ones, at the very spot where they were.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.face_frame import FaceFrame, LipLines
from engines.mesh_handles import UPPER_LIP_CLOSING
from engines.mouth_layers import TextureGrid

U8 = NDArray[np.uint8]
F64 = NDArray[np.float64]

IVORY = np.array([232.0, 221.0, 205.0])
GUM = np.array([176.0, 98.0, 94.0])
TONGUE = np.array([172.0, 86.0, 84.0])
CAVITY = np.array([46.0, 15.0, 16.0])

UPPER_BOUNDS = np.array([0.0, 0.155, 0.275, 0.375, 0.445, 0.50, 0.54])
UPPER_LIFT = np.array([0.0, 0.016, 0.006, 0.022, 0.035, 0.045])
LOWER_BOUNDS = np.array([0.0, 0.095, 0.195, 0.30, 0.385, 0.45, 0.50])
LOWER_LIFT = np.array([0.0, 0.004, 0.0, 0.012, 0.02, 0.03])
INCISAL_DROP = 0.05
"""Upper incisal edge below the closed lip line, in mouth widths."""
TOOTH_HEIGHT = 0.20


@dataclass(frozen=True)
class InteriorTextures:
    """RGBA textures, uint8 (h, w, 4), on the texel grid of the padded mouth region; straight alpha.

    Attributes:
        upper_teeth: Moves with the skull.
        lower_teeth: Moves with the jaw.
        tongue: Moves with the jaw.
        cavity: Colour of the dark, float64 (3,), 0..255.
    """

    upper_teeth: U8
    lower_teeth: U8
    tongue: U8
    cavity: F64


def draw_interior(frame: FaceFrame, lips: LipLines, crop: U8, fine_rgb: U8, grid: TextureGrid) -> InteriorTextures:
    """Draw the mouth of one face.

    Args:
        frame: Axes and units.
        lips: Lip edges of the source.
        crop: uint8 (512, 512, 3), RGB.
        fine_rgb: uint8 (h, w, 3), the source picture on the texel grid.
        grid: Mouth coordinates of the texels.
    """
    width = frame.mouth_width
    tone = _tone(frame, crop)
    x = grid.u * 0.5
    edge_upper, edge_lower = lips.at(grid.u)
    middle_upper, middle_lower = lips.at(np.array([0.0, -0.7, 0.7]))
    closed = middle_upper + UPPER_LIP_CLOSING * (middle_lower - middle_upper)
    rest = float(closed[0])
    curl = float(np.clip((rest - (closed[1] + closed[2]) / 2) / width, 0.0, 0.12))
    y = (grid.v - rest) / width
    bend = (0.10 + 1.2 * curl) * (2 * x) ** 2 * 0.6
    upper = _teeth(x, INCISAL_DROP - bend - y, UPPER_BOUNDS, UPPER_LIFT, width, TOOTH_HEIGHT, 1.0)
    lower = _teeth(x, y - (INCISAL_DROP - 0.065) + 0.5 * bend, LOWER_BOUNDS, LOWER_LIFT, width, 0.16, 0.80)
    tongue = _tongue(x, y, width)
    upper[..., :3] *= tone
    if not lips.closed_source:
        upper = _own_teeth(upper, fine_rgb, grid, edge_upper, edge_lower, width)
    lower[..., :3] *= tone
    tongue[..., :3] *= tone
    return InteriorTextures(_to_u8(upper), _to_u8(lower), _to_u8(tongue), CAVITY * (0.35 + 0.65 * tone))


def _to_u8(rgba: F64) -> U8:
    return np.clip(np.round(rgba), 0, 255).astype(np.uint8)


def _smooth(edge0: float, edge1: float, value: F64) -> F64:
    t = np.clip((value - edge0) / (edge1 - edge0), 0.0, 1.0)
    result: F64 = t * t * (3 - 2 * t)
    return result


def _tone(frame: FaceFrame, crop: U8) -> F64:
    """Exposure and tint of the picture, from the brighter skin of the cheeks; (3,), about 0.6..1.05."""
    ids = [50, 280, 205, 425, 117, 346, 4, 151]
    places = np.clip(np.round(frame.points[ids]), 0, crop.shape[0] - 1).astype(int)
    blurred = cv2.GaussianBlur(crop, (0, 0), 3.0)
    skin = np.percentile(blurred[places[:, 1], places[:, 0]].astype(np.float64), 70, axis=0)
    exposure = float(np.clip(skin.mean() / 175.0, 0.55, 1.04))
    tint = skin / max(float(skin.mean()), 1.0)
    result: F64 = exposure * (1.0 + 0.18 * (tint - np.array([1.18, 0.96, 0.86])))
    return result


def _teeth(x: F64, depth: F64, bounds: F64, lift: F64, width: float, height: float, light: float) -> F64:
    """One row of teeth.

    Args:
        x: Across, mouth widths, 0 at the midline.
        depth: Into the tooth from its row's cutting edge, mouth widths.
        bounds: Right edges of the teeth from the midline outwards.
        lift: How far each tooth's edge stays behind the row's.
        width: Mouth width in pixels.
        height: Tooth height in mouth widths.
        light: Brightness.
    """
    across = np.abs(x)
    tooth = np.clip(np.searchsorted(bounds, across, side="right") - 1, 0, len(lift) - 1)
    left, right = bounds[tooth], bounds[tooth + 1]
    t = np.clip((across - left) / (right - left), 0.0, 1.0)
    rounding = 0.012 * np.abs(2 * t - 1) ** 3.5
    inside = depth - lift[tooth] - rounding
    texel = 1.0 / width
    alpha = _smooth(-0.5 * texel, 0.9 * texel, inside) * (1.0 - _smooth(bounds[-1] - 0.03, bounds[-1], across))
    angle = np.clip(across / (bounds[-1] * 1.08), 0.0, 1.0)
    shade = light * (0.30 + 0.70 * np.sqrt(1.0 - angle**2))
    to_side = np.minimum(across - left, right - across)
    to_side = np.where((tooth == 0) & (across - left < right - across), across, to_side)
    groove = 1.0 - 0.26 * np.exp(-((to_side / (1.1 * texel)) ** 2)) * _smooth(0.0, 0.05, inside)
    bulge = 1.0 - 0.07 * (2 * t - 1) ** 2
    edge = 1.0 - 0.12 * np.exp(-((inside / 0.016) ** 2))
    root = 1.0 - 0.25 * _smooth(0.3 * height, height, inside)
    rgb = IVORY * (shade * groove * bulge * edge * root)[..., None]
    scallop = height - 0.03 * np.abs(2 * t - 1) ** 2
    gum = _smooth(-1.2 * texel, 1.2 * texel, inside - scallop)[..., None]
    rgb = rgb * (1 - gum) + (GUM * (0.9 * shade)[..., None]) * gum
    return np.concatenate([rgb, 255.0 * alpha[..., None]], axis=-1)


def _tongue(x: F64, y: F64, width: float) -> F64:
    """A soft mound behind the lower teeth."""
    across = x / 0.40
    top = -0.075 + 0.16 * across**2
    inside = y - top
    alpha = _smooth(-0.02, 0.05, inside) * (1.0 - _smooth(0.75, 1.05, np.abs(across)))
    light = 0.42 + 0.58 * _smooth(0.0, 0.14, inside)
    light = light * (1.0 - 0.35 * across**2) * (1.0 - 0.10 * np.exp(-((x / 0.02) ** 2)))
    rgb = TONGUE * np.clip(light, 0.0, 1.0)[..., None]
    return np.concatenate([rgb, 245.0 * alpha[..., None]], axis=-1)


def _own_teeth(drawn: F64, fine_rgb: U8, grid: TextureGrid, upper: F64, lower: F64, width: float) -> F64:
    """Put the source's visible teeth over the drawn row; below their lower edge nothing is left of the drawn one."""
    inside = (grid.v > upper + 1.2) & (grid.v < lower - 1.2) & (np.abs(grid.u) < 0.93)
    luma = cv2.cvtColor(fine_rgb, cv2.COLOR_RGB2GRAY).astype(np.float64)
    if not inside.any():
        return drawn
    bright = float(np.percentile(luma[inside], 85))
    if bright < 90.0:
        return drawn
    teeth = (_smooth(0.42 * bright, 0.62 * bright, cv2.GaussianBlur(luma, (0, 0), 1.0)) * inside).astype(np.float64)
    teeth = cv2.GaussianBlur(teeth, (0, 0), 1.0)
    weight = teeth[..., None]
    band = _smooth(0.0, 2.0, np.minimum(grid.v - upper, lower - grid.v)) * (np.abs(grid.u) < 0.95)
    own = fine_rgb.astype(np.float64)
    # columns with own teeth: continue them upwards under the lip, and hide the drawn edge below them
    has = _smooth(0.15, 0.5, (teeth * inside).max(0))[None, :]
    above = grid.v <= upper + 1.5
    first = np.clip(np.argmax(teeth > 0.5, axis=0), 0, teeth.shape[0] - 1)
    rows = np.arange(teeth.shape[0])[:, None]
    mirror = np.clip(2 * first[None, :] - rows, 0, teeth.shape[0] - 1)
    limit = first + np.maximum((teeth > 0.5).sum(0) * 0.6, 1).astype(int)
    mirror = np.minimum(mirror, limit[None, :])
    continued = own[mirror, np.arange(teeth.shape[1])[None, :]]
    rgb = np.where(above[..., None], continued, own)
    keep = np.where(above, has, weight[..., 0] * band)[..., None]
    colour = drawn[..., :3] * (1 - keep) + rgb * keep
    alpha = np.where(above, drawn[..., 3] * (1 - has) + 255.0 * has, drawn[..., 3] * (1 - has) + 255.0 * teeth * has)
    return np.concatenate([colour, alpha[..., None]], axis=-1)
