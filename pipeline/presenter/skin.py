"""Skin: albedo, light, and the soft reddish transport that keeps it from looking like plaster."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import cv2
import numpy as np

from kernels.arrays import F32
from pipeline.presenter.geometry import FACE_UNIT
from pipeline.presenter.raster import blur, rgb, smoothstep, to_linear, to_srgb

KEY_FROM = np.array([-0.54, -0.44, 0.717], dtype=np.float32)
"""Unit vector to the key light: viewer's left, above, in front (x right, y down, z to the viewer)."""
FILL_FROM = np.array([0.62, -0.12, 0.775], dtype=np.float32)
RIM_FROM = np.array([0.93, -0.30, -0.20], dtype=np.float32)

SKIN = rgb("e9b99d")
BLUSH = rgb("d97f6c")


@dataclass(frozen=True)
class Skin:
    """Colours of a skin; everything that is painted on it is named as on the default one and toned from there.

    Attributes:
        base: sRGB 0..1, float32 (3,).
        blush: Of cheeks, nose and ears, float32 (3,).
        lip: Of the lips, float32 (3,).
        gloss: Strength of the sheen; dark skin shows it more.
    """

    base: F32 = field(default_factory=lambda: SKIN)
    blush: F32 = field(default_factory=lambda: BLUSH)
    lip: F32 = field(default_factory=lambda: rgb("c06a61"))
    gloss: float = 1.0

    def tone(self, hex_code: str) -> F32:
        """A colour that was chosen for the default skin, on this one; float32 (3,)."""
        return np.asarray(rgb(hex_code) * (self.base / SKIN), dtype=np.float32)

    def lip_tone(self, hex_code: str) -> F32:
        """A colour that was chosen for the default lips, on these; float32 (3,)."""
        return np.asarray(rgb(hex_code) * (self.lip / rgb("c06a61")), dtype=np.float32)


DEFAULT_SKIN: Final = Skin()


def normals(relief: F32, flatten: float = 1.0) -> F32:
    """Surface normals of a relief given in face units per pixel; float32 (h, w, 3), z towards the viewer."""
    depth = relief * np.float32(FACE_UNIT * flatten)
    dx = cv2.Sobel(depth, cv2.CV_32F, 1, 0, ksize=3, scale=1 / 8.0)
    dy = cv2.Sobel(depth, cv2.CV_32F, 0, 1, ksize=3, scale=1 / 8.0)
    n = np.stack([-dx, -dy, np.ones_like(depth)], axis=-1)
    return np.asarray(n / np.linalg.norm(n, axis=-1, keepdims=True), dtype=np.float32)


def _occlusion(relief: F32) -> F32:
    """1 in the open, lower in hollows: how far the relief lies below its own surroundings at three sizes."""
    depth = relief * np.float32(FACE_UNIT)
    dark = np.zeros_like(depth)
    for sigma, weight in ((4.0, 0.055), (10.0, 0.030), (26.0, 0.012)):
        dark += np.float32(weight) * np.maximum(blur(depth, sigma) - depth, 0.0)
    return np.asarray(np.exp(-dark), dtype=np.float32)


def _lambert(n: F32, to_light: F32, wrap: float) -> F32:
    return np.asarray(np.clip((n @ to_light + wrap) / (1.0 + wrap), 0.0, 1.0), dtype=np.float32)


def shade(relief: F32, albedo: F32, shadow: F32 | None = None, gloss: F32 | float = 1.0, rim: F32 | float = 1.0) -> F32:
    """Light a patch of skin.

    Args:
        relief: Depth towards the viewer, face units, float32 (h, w).
        albedo: sRGB 0..1, float32 (h, w, 3).
        shadow: 1 where the key light arrives, 0 in cast shadow, float32 (h, w); None means lit everywhere.
        gloss: Strength of the sheen, scalar or (h, w).
        rim: Strength of the cool light from behind, scalar or (h, w).

    Returns:
        sRGB 0..1, float32 (h, w, 3).

    Wrapped Lambert light per colour channel (red wraps furthest: a cheap stand-in for scattering below the skin), a broad
    and a tight Blinn-Phong lobe, occlusion from the relief, and a cool rim from behind on the viewer's right.
    """
    n = normals(relief)
    soft = normals(blur(relief, 3.0))
    ao = _occlusion(relief)
    lit = np.ones_like(relief) if shadow is None else shadow
    light = np.empty_like(albedo)
    key_tint, fill_tint, sky_tint = (1.10, 1.02, 0.93), (0.80, 0.90, 1.06), (0.98, 0.98, 1.04)
    for c, wrap in enumerate((0.42, 0.24, 0.18)):
        facing = n if c else soft
        key = _lambert(facing, KEY_FROM, wrap) * lit
        fill = _lambert(facing, FILL_FROM, wrap)
        sky = 0.5 - 0.5 * facing[..., 1]
        bounce = np.clip(facing[..., 1], 0.0, 1.0)
        occluded = ao ** np.float32((0.75, 1.10, 1.25)[c])
        light[..., c] = 0.80 * key_tint[c] * key + occluded * (0.21 * fill_tint[c] * fill + 0.25 * sky_tint[c] * sky)
        light[..., c] += (0.16, 0.13, 0.11)[c] * bounce
        light[..., c] *= 0.45 + 0.55 * occluded
    linear = to_linear(albedo) * light * np.float32(1.06)
    half = KEY_FROM + np.array([0.0, 0.0, 1.0], dtype=np.float32)
    half /= np.linalg.norm(half)
    facing = np.clip(soft @ half, 0.0, 1.0)
    sheen = (0.075 * facing**14 + 0.110 * np.clip(n @ half, 0.0, 1.0) ** 60) * lit * ao * gloss
    grazing = (1.0 - np.clip(n[..., 2], 0.0, 1.0)) ** 3.4
    edge = rim * grazing * smoothstep(0.05, 0.75, n @ RIM_FROM) * np.float32(0.58)
    linear += sheen[..., None] * np.array([1.0, 0.95, 0.88], dtype=np.float32)
    linear += np.asarray(edge)[..., None] * np.array([0.50, 0.72, 1.0], dtype=np.float32)
    return to_srgb(np.asarray(linear, dtype=np.float32))
