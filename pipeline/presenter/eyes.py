"""Eyes: lids, lashes, eyeball, iris fibres, limbal ring, pupil and catch lights, painted at four times the board's size."""

from __future__ import annotations

from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32, F64
from pipeline.presenter.geometry import FACE_UNIT, spline, to_board
from pipeline.presenter.raster import Window, blur, fill_ribbon, over, rgb, smoothstep
from pipeline.presenter.skin import DEFAULT_SKIN, Skin

INNER = (0.0905, 0.3485)
"""Inner corner of the eye at u > 0, face coordinates."""
LENGTH = 0.176
"""Corner to corner, face units."""
TILT_DEG = 4.5
"""The outer corner sits this much higher."""

# Lid curves in eye coordinates: a = 0 inner corner, 1 outer corner; b up; unit = LENGTH.
UPPER_LID = [
    (0.0, 0.0),
    (0.06, 0.055),
    (0.20, 0.162),
    (0.36, 0.224),
    (0.53, 0.238),
    (0.70, 0.206),
    (0.86, 0.122),
    (1.0, 0.0),
]
LOWER_LID = [
    (0.0, 0.0),
    (0.07, -0.028),
    (0.22, -0.064),
    (0.42, -0.104),
    (0.62, -0.116),
    (0.80, -0.084),
    (0.93, -0.034),
    (1.0, 0.0),
]
CREASE = [(0.04, 0.13), (0.18, 0.262), (0.36, 0.338), (0.55, 0.358), (0.74, 0.322), (0.92, 0.222), (1.06, 0.100)]
IRIS = (0.500, 0.074)
IRIS_RADIUS = 0.218
PUPIL_RADIUS = 0.078

_ZOOM = 4
_PATCH_A = (-0.35, 1.45)
_PATCH_B = (0.75, -0.55)


@dataclass(frozen=True)
class EyeLook:
    """Colours of the iris (float32 (3,), sRGB 0..1), and how strong lashes and make-up are, 0..1."""

    iris_outer: F32 = field(default_factory=lambda: rgb("49372a"))
    iris_inner: F32 = field(default_factory=lambda: rgb("7d5734"))
    iris_glow: F32 = field(default_factory=lambda: np.array([0.72, 0.52, 0.30], np.float32))
    lashes: float = 1.0
    make_up: float = 1.0


@dataclass(frozen=True)
class Eye:
    """The place of an eye on the board: side +1 is the viewer's right."""

    side: float

    def to_face(self, ab: NDArray[np.floating]) -> F64:
        """Eye coordinates (..., 2) -> face coordinates (..., 2)."""
        c, s = np.cos(np.radians(TILT_DEG)), np.sin(np.radians(TILT_DEG))
        a, b = np.asarray(ab, dtype=np.float64)[..., 0], np.asarray(ab, dtype=np.float64)[..., 1]
        u = INNER[0] + LENGTH * (c * a - s * b)
        v = INNER[1] - LENGTH * (s * a + c * b)
        return np.stack([self.side * u, v], axis=-1)

    def window(self) -> Window:
        """The part of the board this eye paints on, with the lashes."""
        corners = self.to_face(np.array([(a, b) for a in _PATCH_A for b in _PATCH_B]))
        (u0, v0), (u1, v1) = corners.min(axis=0), corners.max(axis=0)
        return Window.around(u0, v0, u1, v1)


@dataclass(frozen=True)
class _Patch:
    """A magnified window around one eye with its eye coordinates."""

    eye: Eye
    window: Window
    a: F32
    b: F32

    def points(self, ab: NDArray[np.floating]) -> F64:
        """Eye coordinates -> patch pixels."""
        board = to_board(self.eye.to_face(ab)) - (self.window.x, self.window.y)
        return np.asarray((board + 0.5) * _ZOOM - 0.5, dtype=np.float64)

    def polygon(self, ab: NDArray[np.floating], soft: float) -> F32:
        mask = np.zeros(self.a.shape, np.uint8)
        cv2.fillPoly(mask, [np.round(self.points(ab) * 16).astype(np.int32)], 255, cv2.LINE_AA, 4)
        return blur(mask.astype(np.float32) / np.float32(255), soft * _ZOOM)

    def ribbon(self, ab: NDArray[np.floating], widths: NDArray[np.floating], soft: float) -> F32:
        """Line of varying width; widths and softness in board pixels."""
        mask = np.zeros(self.a.shape, np.uint8)
        fill_ribbon(mask, self.points(ab), np.asarray(widths) * _ZOOM, 255)
        return blur(mask.astype(np.float32) / np.float32(255), soft * _ZOOM)


def _patch(eye: Eye) -> _Patch:
    window = eye.window()
    x = (np.arange(window.w * _ZOOM, dtype=np.float32) + 0.5) / _ZOOM - 0.5 + window.x
    y = (np.arange(window.h * _ZOOM, dtype=np.float32) + 0.5) / _ZOOM - 0.5 + window.y
    xx, yy = np.meshgrid(x, y)
    corner = to_board(np.array([INNER[0] * eye.side, INNER[1]]))
    du, dv = (xx - corner[0]) * np.float32(eye.side) / (FACE_UNIT * LENGTH), (yy - corner[1]) / (FACE_UNIT * LENGTH)
    c, s = np.float32(np.cos(np.radians(TILT_DEG))), np.float32(np.sin(np.radians(TILT_DEG)))
    a, b = c * du - s * dv, -(s * du + c * dv)
    return _Patch(eye, window, a.astype(np.float32), b.astype(np.float32))


def _iris(patch: _Patch, rng: np.random.Generator, look: EyeLook) -> tuple[F32, F32]:
    """Colour (h, w, 3) and coverage (h, w) of iris and pupil."""
    da, db = (patch.a - IRIS[0]) * np.float32(patch.eye.side), patch.b - IRIS[1]
    radius = np.hypot(da, db) / IRIS_RADIUS
    angle = np.arctan2(db, da)
    fibres = np.zeros_like(radius)
    for count, weight in ((17, 0.5), (41, 0.8), (83, 0.6), (131, 0.35)):
        phase = rng.uniform(0, 2 * np.pi)
        sway = rng.uniform(1.2, 2.6)
        fibres += weight * np.sin(count * angle + phase + sway * np.sin(3 * radius * np.pi + phase)).astype(np.float32)
    fibres *= smoothstep(0.30, 0.5, radius) * smoothstep(1.0, 0.80, radius)
    colour = np.empty((*radius.shape, 3), np.float32)
    outer, inner = look.iris_outer, look.iris_inner
    mix = np.exp(-0.5 * ((radius - 0.48) / 0.22) ** 2)[..., None]
    colour[:] = outer + (inner - outer) * mix
    colour *= (1.0 + 0.16 * fibres)[..., None]
    lift = smoothstep(0.35, -0.9, db / IRIS_RADIUS) * smoothstep(0.30, 0.62, radius) * smoothstep(1.0, 0.75, radius)
    colour += (0.26 * lift)[..., None] * look.iris_glow  # light gathers opposite to the lamp
    limbal = smoothstep(0.72, 0.99, radius)
    over(colour, rgb("20150f"), 0.86 * limbal)
    over(
        colour, rgb("0c0807"), smoothstep(PUPIL_RADIUS / IRIS_RADIUS + 0.07, PUPIL_RADIUS / IRIS_RADIUS - 0.03, radius)
    )
    return colour, smoothstep(1.035, 0.95, radius)


def _eyeball(patch: _Patch, rng: np.random.Generator, look: EyeLook) -> F32:
    a, b = patch.a, patch.b
    white = np.empty((*a.shape, 3), np.float32)
    white[:] = rgb("eee4db")
    round_off = np.clip(np.hypot((a - 0.5) / 0.62, (b - 0.06) / 0.42), 0.0, 1.5)
    white *= (1.0 - 0.34 * round_off**2.2)[..., None]
    pink = smoothstep(0.22, 0.02, a) + 0.7 * smoothstep(0.84, 1.0, a)
    over(white, rgb("cf8f84"), 0.55 * pink)
    caruncle = np.exp(-0.5 * (((a - 0.055) / 0.035) ** 2 + ((b - 0.006) / 0.028) ** 2))
    over(white, rgb("c4776c"), 0.75 * caruncle)
    white += (0.16 * np.exp(-0.5 * (((a - 0.045) / 0.010) ** 2 + ((b - 0.020) / 0.008) ** 2)))[..., None]
    colour, cover = _iris(patch, rng, look)
    ring = np.exp(-0.5 * ((np.hypot(a - IRIS[0], b - IRIS[1]) / IRIS_RADIUS - 1.03) / 0.09) ** 2)
    over(white, rgb("8d7568"), 0.30 * ring)
    over(white, colour, cover)
    lid = spline(UPPER_LID, 120)
    below_lid = np.interp(a, lid[:, 0], lid[:, 1]).astype(np.float32) - b
    shadow = np.exp(-np.maximum(below_lid, 0.0) / 0.062)
    white *= (1.0 - 0.66 * shadow)[..., None]
    return white


def _catch_lights(patch: _Patch, picture: F32) -> None:
    """Both eyes see the same lamps: a soft box upper left, a faint screen lower right, whatever the side."""
    s = np.float32(patch.eye.side)
    da, db = (patch.a - IRIS[0]) * s, patch.b - IRIS[1]
    box = (((da + 0.070) / 0.036) ** 4 + ((db - 0.062 + 0.12 * (da + 0.070)) / 0.044) ** 4) ** 0.25
    over(picture, rgb("fffdf8"), 0.96 * smoothstep(1.15, 0.78, box))
    screen = np.exp(-0.5 * (((da - 0.088) / 0.026) ** 2 + ((db + 0.088) / 0.022) ** 2))
    over(picture, rgb("cfe2ff"), 0.42 * screen)


def _lash(root: tuple[float, float], lean: float, length: float, rise: float) -> F64:
    t = np.linspace(0.0, 1.0, 9)
    a = root[0] + lean * length * (t + 0.35 * t * t)
    b = root[1] + rise * length * (0.25 * t + 0.75 * t**1.7)
    return np.stack([a, b], axis=1)


def _lashes(patch: _Patch, rng: np.random.Generator) -> F32:
    """Coverage of both rows of lashes."""
    dark = np.zeros(patch.a.shape, np.uint8)
    upper, lower = spline(UPPER_LID, 200), spline(LOWER_LID, 200)
    taper = np.linspace(1.0, 0.12, 9)
    for s in np.linspace(0.10, 0.985, 74):
        s = float(s + rng.normal(0, 0.006))
        k = int(np.clip(s, 0, 1) * 199)
        root = (float(upper[k, 0]), float(upper[k, 1]) + 0.006)
        lean = (upper[k, 0] - 0.30) * 1.6 + rng.normal(0, 0.12)
        length = (0.034 + 0.060 * upper[k, 0] ** 1.6) * rng.uniform(0.6, 1.1)
        fill_ribbon(
            dark, patch.points(_lash(root, lean, length, 0.95)), 1.0 * _ZOOM * taper, int(rng.integers(110, 225))
        )
    faint = np.zeros(patch.a.shape, np.uint8)
    for s in np.linspace(0.28, 0.96, 30):
        k = int(np.clip(s + rng.normal(0, 0.008), 0, 1) * 199)
        root = (float(lower[k, 0]), float(lower[k, 1]) - 0.022)
        lean = (lower[k, 0] - 0.45) * 0.9 + rng.normal(0, 0.12)
        length = (0.030 + 0.034 * lower[k, 0]) * rng.uniform(0.7, 1.1)
        fill_ribbon(
            faint, patch.points(_lash(root, lean, length, -1.0)), 0.70 * _ZOOM * taper, int(rng.integers(45, 85))
        )
    return blur(np.maximum(dark, faint).astype(np.float32) / np.float32(255), 0.45 * _ZOOM)


def _lids(patch: _Patch, picture: F32, skin: Skin, look: EyeLook) -> None:
    """Soft shadow of the socket, the crease, the make-up along the lash line and the wet rim below."""
    crease, upper, lower = spline(CREASE, 120), spline(UPPER_LID, 120), spline(LOWER_LID, 120)
    t = np.linspace(0.0, 1.0, 120)
    fold = np.sin(np.pi * np.clip(t * 0.92 + 0.08, 0, 1)) ** 0.7
    over(picture, skin.tone("8c5544"), 0.30 * patch.ribbon(crease + (0.0, 0.030), 8.0 * fold, 4.0))
    over(picture, skin.tone("7a4434"), 0.62 * patch.ribbon(crease, 1.9 * fold, 0.9))
    over(picture, skin.tone("f3cdb2"), 0.30 * patch.ribbon((crease + upper) / 2.0 + (0.0, 0.01), 4.5 * fold, 2.6))
    over(
        picture,
        skin.tone("7d4b3f"),
        0.46 * look.make_up * patch.ribbon(upper + (0.0, 0.035), 4.6 * (0.25 + 0.75 * t), 2.4),
    )
    over(picture, skin.tone("8d5a4c"), 0.30 * patch.ribbon(lower + (0.0, -0.040), 5.0 * np.sin(np.pi * t) ** 0.6, 2.6))


def paint_eye(
    board: F32,
    side: float,
    rng: np.random.Generator,
    skin: Skin = DEFAULT_SKIN,
    look: EyeLook | None = None,
) -> None:
    """Paint one eye on `board` (1920, 1080, 3), sRGB 0..1, in place; side -1 viewer's left, +1 viewer's right."""
    look = look or EyeLook()
    patch = _patch(Eye(side))
    view = board[patch.window.slices]
    size = (patch.window.w * _ZOOM, patch.window.h * _ZOOM)
    picture = np.asarray(cv2.resize(view, size, interpolation=cv2.INTER_CUBIC), dtype=np.float32)
    _lids(patch, picture, skin, look)
    upper, lower = spline(UPPER_LID, 160), spline(LOWER_LID, 160)
    opening = patch.polygon(np.concatenate([upper, lower[::-1]]), 0.35)
    ball = _eyeball(patch, rng, look)
    _catch_lights(patch, ball)
    over(picture, ball, opening)
    t = np.linspace(0.0, 1.0, 160)
    over(picture, skin.tone("dba393"), 0.66 * patch.ribbon(lower + (0.0, 0.008), 1.5 * np.sin(np.pi * t) ** 0.4, 0.5))
    over(picture, skin.tone("fff1e8"), 0.40 * patch.ribbon(lower + (0.0, 0.019), 0.6 * np.sin(np.pi * t) ** 0.4, 0.35))
    over(picture, skin.tone("6e4035"), 0.55 * patch.ribbon(lower + (0.0, -0.010), 1.3 * t, 0.7))
    over(
        picture, rgb("1d120e"), 0.94 * patch.ribbon(upper + (0.0, 0.004), 1.2 + 2.5 * t**0.8 * (1.04 - t) ** 0.12, 0.4)
    )
    over(picture, rgb("1c110d"), 0.90 * look.lashes * _lashes(patch, rng))
    view[:] = cv2.resize(picture, (patch.window.w, patch.window.h), interpolation=cv2.INTER_AREA)
