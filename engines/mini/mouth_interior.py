"""What an open mouth shows: teeth of the upper jaw (fixed to the skull), teeth of the lower jaw and the tongue (fixed to the jaw).

Drawn once per avatar as textures in the face's own units, in the portrait's own light; where the source shows its own upper
teeth, they take the place of the drawn ones, at the very spot where they were.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from engines.mini.easing import smoothstep
from engines.mini.face_frame import FaceFrame, LipLines
from engines.mini.mesh_handles import UPPER_LIP_CLOSING
from engines.mini.mouth_layers import TextureGrid
from engines.mini.portrait_light import PortraitLight, measure_light
from kernels.arrays import F64, I64, U8
from kernels.sampling.remap import remap_bilinear

IVORY = np.array([240.0, 228.0, 210.0])
GUM = np.array([176.0, 98.0, 94.0])
TONGUE = np.array([172.0, 86.0, 84.0])
CAVITY = np.array([46.0, 15.0, 16.0])

UPPER_BOUNDS = np.array([0.0, 0.155, 0.275, 0.375, 0.445, 0.50, 0.54])
UPPER_LIFT = np.array([0.0, 0.009, 0.003, 0.012, 0.022, 0.032])
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
        jaw_parts: Lower teeth in front of the tongue; moves with the jaw.
        cavity: Colour of the dark, float64 (3,), 0..255.
        haze: Level of black in the picture, 0..255; neither texture nor `cavity` holds it: it lies in front of their shadows.
        own_teeth: Whether the upper teeth are the portrait's own.
    """

    upper_teeth: U8
    jaw_parts: U8
    cavity: F64
    haze: float
    own_teeth: bool


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
    light = measure_light(frame, crop)
    tone = light.tone
    x = grid.u * 0.5
    edge_upper, edge_lower = lips.at(grid.u)
    middle_upper, middle_lower = lips.at(np.array([0.0, -0.7, 0.7]))
    closed = middle_upper + UPPER_LIP_CLOSING * (middle_lower - middle_upper)
    rest = float(closed[0])
    curl = float(np.clip((rest - (closed[1] + closed[2]) / 2) / width, 0.0, 0.12))
    y = (grid.v - rest) / width
    own = None if lips.closed_source else _own_teeth(fine_rgb, grid, edge_upper, edge_lower, light)
    drop: float | F64 = INCISAL_DROP
    tint = tone
    if own is not None:
        visible = own.rgba[own.rgba[..., 3] > 200.0][:, :3]
        tint = np.clip(light.off(np.percentile(visible, 60, axis=0)) / (IVORY * 0.93), 0.5, 1.15)
        ends = np.clip((own.side_drop - rest) / width + _bend(own.side * 0.5, curl), -0.02, 0.16)
        drop = ends[0] + (ends[1] - ends[0]) * smoothstep(float(own.side[0]), float(own.side[1]), grid.u)
    bend = _bend(x, curl)
    upper = _teeth(x, drop - bend - y, UPPER_BOUNDS, UPPER_LIFT, width, TOOTH_HEIGHT, 1.0, 0.75)
    lower = _teeth(x, y - (INCISAL_DROP - 0.065) + 0.5 * bend, LOWER_BOUNDS, LOWER_LIFT, width, 0.16, 0.88, 0.0)
    tongue = _tongue(x, y)
    for part, colour in ((upper, tint), (lower, tint), (tongue, tone)):
        part[..., :3] = light.on(part[..., :3] * colour)
    if own is not None:
        upper[..., 3] *= 1.0 - smoothstep(0.7, 1.0, own.share)
        upper = _stack(upper, own.rgba)
    cavity = light.on(CAVITY * (0.35 + 0.65 * tone))
    return InteriorTextures(_to_u8(upper), _to_u8(_stack(tongue, lower)), cavity, light.lift, own is not None)


def _stack(back: F64, front: F64) -> F64:
    """Two straight-alpha RGBA pictures as one."""
    a, b = front[..., 3:] / 255.0, back[..., 3:] / 255.0
    alpha = a + b * (1 - a)
    rgb = (front[..., :3] * a + back[..., :3] * b * (1 - a)) / np.maximum(alpha, 1e-3)
    return np.concatenate([rgb, 255.0 * alpha], axis=-1)


def _bend(x: F64, curl: float) -> F64:
    """How far the row of teeth rises towards the sides of the arch, mouth widths."""
    result: F64 = 0.6 * (0.10 + 1.2 * curl) * (2 * x) ** 2
    return result


def _to_u8(rgba: F64) -> U8:
    return np.clip(np.round(rgba), 0, 255).astype(np.uint8)


def _teeth(x: F64, depth: F64, bounds: F64, lift: F64, width: float, height: float, light: float, shadow: float) -> F64:
    """A row of teeth.

    Args:
        x: Across, mouth widths, 0 at the midline.
        depth: Into the tooth from its row's cutting edge, mouth widths.
        bounds: Right edges of the teeth from the midline outwards.
        lift: How far each tooth's edge stays behind the row's.
        width: Mouth width in pixels.
        height: Tooth height in mouth widths.
        light: Brightness.
        shadow: Depth of the shadow that the row throws on what lies beyond its edge.
    """
    across = np.abs(x)
    tooth = np.clip(np.searchsorted(bounds, across, side="right") - 1, 0, len(lift) - 1)
    left, right = bounds[tooth], bounds[tooth + 1]
    t = np.clip((across - left) / (right - left), 0.0, 1.0)
    rounding = 0.009 * np.abs(2 * t - 1) ** 3.5
    inside = depth - lift[tooth] - rounding
    texel = 1.0 / width
    alpha = smoothstep(-0.9 * texel, 1.1 * texel, inside) * (1.0 - smoothstep(bounds[-1] - 0.03, bounds[-1], across))
    angle = np.clip(across / (bounds[-1] * 1.08), 0.0, 1.0)
    shade = light * (0.30 + 0.70 * np.sqrt(1.0 - angle**2))
    to_side = np.minimum(across - left, right - across)
    to_side = np.where((tooth == 0) & (across - left < right - across), across, to_side)
    groove = 1.0 - 0.13 * np.exp(-((to_side / (1.0 * texel)) ** 2)) * smoothstep(0.0, 0.05, inside)
    bulge = 1.0 - 0.07 * (2 * t - 1) ** 2
    edge = 1.0 - 0.12 * np.exp(-((inside / 0.016) ** 2))
    root = 1.0 - 0.25 * smoothstep(0.3 * height, height, inside)
    rgb = IVORY * (shade * groove * bulge * edge * root)[..., None]
    scallop = height - 0.03 * np.abs(2 * t - 1) ** 2
    gum = smoothstep(-1.2 * texel, 1.2 * texel, inside - scallop)[..., None]
    rgb = rgb * (1 - gum) + (GUM * (0.9 * shade)[..., None]) * gum
    if shadow > 0:
        below = (
            shadow * np.exp(np.minimum(inside, 0.0) / 0.03) * (1.0 - smoothstep(bounds[-1] - 0.06, bounds[-1], across))
        )
        rgb = rgb * alpha[..., None] + np.array([26.0, 10.0, 10.0]) * (1.0 - alpha[..., None])
        alpha = np.maximum(alpha, below)
    return np.concatenate([rgb, 255.0 * alpha[..., None]], axis=-1)


def _tongue(x: F64, y: F64) -> F64:
    """A soft mound behind the lower teeth."""
    across = x / 0.40
    top = -0.15 + 0.17 * across**2
    inside = y - top
    alpha = smoothstep(-0.02, 0.05, inside) * (1.0 - smoothstep(0.75, 1.05, np.abs(across)))
    light = 0.50 + 0.50 * smoothstep(0.0, 0.16, inside)
    light = light * (1.0 - 0.35 * across**2) * (1.0 - 0.10 * np.exp(-((x / 0.02) ** 2)))
    rgb = TONGUE * np.clip(light, 0.0, 1.0)[..., None]
    return np.concatenate([rgb, 245.0 * alpha[..., None]], axis=-1)


@dataclass(frozen=True)
class _OwnTeeth:
    """The source's visible upper teeth.

    Attributes:
        rgba: float64 (h, w, 4), continued upwards under the lip.
        share: (w,), 1 where a texel column shows them.
        side_drop: (2,), their lower edge at the outermost visible tooth of either side, v in pixels.
        side: (2,), where those teeth end, u: the row that is drawn on continues there, each side at its own height.
    """

    rgba: F64
    share: F64
    side_drop: F64
    side: F64


def _own_teeth(fine_rgb: U8, grid: TextureGrid, upper: F64, lower: F64, light: PortraitLight) -> _OwnTeeth | None:
    """Find the source's upper teeth; None where it shows none."""
    inside = (grid.v > upper + 1.0) & (grid.v < lower - 1.5) & (np.abs(grid.u) < 0.95)
    if inside.sum() < 40:
        return None
    luma = cv2.cvtColor(fine_rgb, cv2.COLOR_RGB2GRAY).astype(np.float64)
    bright = float(np.percentile(luma[inside], 85))
    if bright - light.lift < light.gain * 90.0:
        return None
    soft = cv2.GaussianBlur(fine_rgb, (0, 0), 1.2).astype(np.float64)
    green = soft[..., 1] / np.maximum(soft[..., 0], 1.0)  # teeth are white, lips are red
    white = float(np.percentile(green[inside & (luma > 0.7 * bright)], 70))
    teeth = (
        smoothstep(0.40 * bright, 0.60 * bright, soft.mean(-1)) * smoothstep(white - 0.13, white - 0.07, green) * inside
    )
    solid = teeth > 0.5
    rows = np.arange(teeth.shape[0])[:, None]
    first = np.where(solid.any(0), np.argmax(solid, axis=0), 0) + 2
    last = np.where(solid.any(0), teeth.shape[0] - 1 - np.argmax(solid[::-1], axis=0), 0)
    tall = np.maximum(last - first, 0)
    full = solid.sum(0) > 0.85 * (tall + 2)
    kept = _main_run(np.where(full, tall, 0))
    filled = np.flatnonzero(kept)
    if len(filled) < 12:
        return None
    every = np.arange(len(kept))

    def across(values: I64) -> F64:
        line = np.interp(every, filled, values[filled])[None]
        return np.asarray(cv2.GaussianBlur(line, (0, 0), 2.5, borderType=cv2.BORDER_REPLICATE)[0], dtype=np.float64)

    top, height = across(first), across(tall)
    share = cv2.GaussianBlur((kept > 0).astype(np.float64)[None], (0, 0), 4.0)[0]
    share = smoothstep(0.30, 0.95, share)
    reach = np.maximum(0.6 * height, 1.0)
    phase = np.mod(np.maximum(top - rows, 0), 2 * reach)
    source_row = np.where(rows < top, top + np.minimum(phase, 2 * reach - phase), rows)
    columns = np.broadcast_to(every, source_row.shape)
    places = np.stack([columns, source_row], axis=-1).astype(np.float32)
    rgb = np.maximum(remap_bilinear(fine_rgb, places) - light.lift, 0.0)
    alpha = np.where(rows < top, 1.0, cv2.GaussianBlur(teeth, (0, 0), 0.8)) * share[None, :]
    ends = filled[[0, -1]]
    edge = (top + height).round().astype(int)[ends]
    return _OwnTeeth(
        rgba=np.concatenate([rgb, 255.0 * alpha[..., None]], axis=-1),
        share=share,
        side_drop=grid.v[edge, ends],
        side=grid.u[edge, ends],
    )


def _main_run(tall: I64) -> I64:
    """Keep the one run of tooth columns that holds the middle of the row, less its ragged ends."""
    kept = np.zeros_like(tall)
    if not (tall > 0).any():
        return kept
    strong = (
        cv2.dilate((tall > 0.45 * np.percentile(tall[tall > 0], 80)).astype(np.uint8)[None], np.ones((1, 3), np.uint8))[
            0
        ]
        > 0
    )
    middle = int(np.average(np.arange(len(tall)), weights=np.where(strong, tall, 0)))
    left = right = middle
    while left > 0 and strong[left - 1]:
        left -= 1
    while right < len(tall) - 1 and strong[right + 1]:
        right += 1
    kept[left + 3 : right - 2] = tall[left + 3 : right - 2]
    return kept
