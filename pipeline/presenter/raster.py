"""Antialiased masks, soft shapes and blending on float pictures."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32, F64, U8
from pipeline.presenter.geometry import BOARD_H, BOARD_W, FACE_TOP, FACE_UNIT, FACE_X, to_board

_SHIFT = 4
_INVISIBLE = 1e-3
"""Coverage below a quarter of a level of 8 bits."""


@dataclass(frozen=True)
class Window:
    """A rectangle of the board in pixels: every part is computed only inside its own window."""

    x: int
    y: int
    w: int
    h: int

    @classmethod
    def around(cls, u0: float, v0: float, u1: float, v1: float) -> Window:
        """The window that covers face coordinates u0..u1, v0..v1, clipped to the board."""
        (x0, y0), (x1, y1) = to_board(np.array([[u0, v0], [u1, v1]]))
        left, top = max(0, int(np.floor(x0))), max(0, int(np.floor(y0)))
        right, bottom = min(BOARD_W, int(np.ceil(x1))), min(BOARD_H, int(np.ceil(y1)))
        return cls(left, top, right - left, bottom - top)

    @property
    def slices(self) -> tuple[slice, slice]:
        """Index of this window into a board-sized array."""
        return slice(self.y, self.y + self.h), slice(self.x, self.x + self.w)

    def grid(self) -> tuple[F32, F32]:
        """Face coordinates of every pixel: u (h, w) and v (h, w), float32."""
        u = (np.arange(self.x, self.x + self.w, dtype=np.float32) - np.float32(FACE_X)) / np.float32(FACE_UNIT)
        v = (np.arange(self.y, self.y + self.h, dtype=np.float32) - np.float32(FACE_TOP)) / np.float32(FACE_UNIT)
        uu, vv = np.meshgrid(u, v)
        return uu, vv

    def polygon(self, uv: NDArray[np.floating], soft: float = 0.0) -> F32:
        """Coverage 0..1 of a closed polygon in face coordinates, float32 (h, w).

        Args:
            uv: (k, 2) corners.
            soft: Standard deviation of an additional blur, in board pixels.
        """
        zoom = self._zoom(soft)
        mask = np.zeros((self.h * zoom, self.w * zoom), np.uint8)
        cv2.fillPoly(
            mask, [np.round(self._pixels(uv, zoom) * (1 << _SHIFT)).astype(np.int32)], 255, cv2.LINE_AA, _SHIFT
        )
        return self._coverage(mask, soft)

    def line(self, uv: NDArray[np.floating], width: float, soft: float = 0.0) -> F32:
        """Coverage 0..1 of a line of constant width (board pixels) through face coordinates, float32 (h, w)."""
        return self.ribbon(uv, np.full(len(uv), width), soft)

    def ribbon(self, uv: NDArray[np.floating], widths: NDArray[np.floating], soft: float = 0.0) -> F32:
        """Coverage 0..1 of a line whose width (board pixels) varies along it, float32 (h, w)."""
        zoom = self._zoom(soft)
        mask = np.zeros((self.h * zoom, self.w * zoom), np.uint8)
        fill_ribbon(mask, self._pixels(uv, zoom), np.asarray(widths) * zoom, 255)
        return self._coverage(mask, soft)

    def _zoom(self, soft: float) -> int:
        """Sharp shapes in small windows are drawn at four times the size: thin lines would show steps otherwise."""
        return 4 if soft < 3.0 and self.w * self.h < 150_000 else 1

    def _pixels(self, uv: NDArray[np.floating], zoom: int) -> F64:
        board = to_board(uv).astype(np.float64) - (self.x, self.y)
        return np.asarray((board + 0.5) * zoom - 0.5, dtype=np.float64)

    def _coverage(self, mask: U8, soft: float) -> F32:
        if mask.shape != (self.h, self.w):
            mask = np.asarray(cv2.resize(mask, (self.w, self.h), interpolation=cv2.INTER_AREA), dtype=np.uint8)
        return blur(mask.astype(np.float32) / np.float32(255.0), soft)


def fill_ribbon(
    target: U8, xy: NDArray[np.floating], widths: NDArray[np.floating], colour: int | tuple[int, ...]
) -> None:
    """Fill a ribbon around the polyline `xy` (k, 2) in pixels of `target`; widths (k,) in the same pixels."""
    tangent = np.gradient(np.asarray(xy, dtype=np.float64), axis=0)
    tangent /= np.maximum(np.linalg.norm(tangent, axis=1, keepdims=True), 1e-9)
    normal = np.stack([-tangent[:, 1], tangent[:, 0]], axis=1) * (np.asarray(widths)[:, None] / 2.0)
    ring = np.concatenate([xy + normal, (xy - normal)[::-1]]) * (1 << _SHIFT)
    value = (colour,) if isinstance(colour, int) else colour
    cv2.fillPoly(target, [np.round(ring).astype(np.int32)], value, cv2.LINE_AA, _SHIFT)


def smoothstep(low: float, high: float, x: NDArray[np.floating]) -> F32:
    """0 below `low`, 1 above `high`, a smooth cubic between; `low` > `high` turns it round."""
    t = np.clip((x - low) / (high - low), 0.0, 1.0)
    return np.asarray(t * t * (3.0 - 2.0 * t), dtype=np.float32)


def bump(u: F32, v: F32, cu: float, cv: float, su: float, sv: float, turn_deg: float = 0.0) -> F32:
    """A Gaussian hill of height 1 at (cu, cv) with standard deviations (su, sv), turned clockwise on the board."""
    du, dv = u - np.float32(cu), v - np.float32(cv)
    if turn_deg:
        c, s = np.float32(np.cos(np.radians(turn_deg))), np.float32(np.sin(np.radians(turn_deg)))
        du, dv = c * du + s * dv, c * dv - s * du
    return np.asarray(np.exp(-0.5 * ((du / np.float32(su)) ** 2 + (dv / np.float32(sv)) ** 2)), dtype=np.float32)


def blur(picture: F32, sigma: float) -> F32:
    """Gaussian blur with standard deviation `sigma` in pixels; 0 returns the picture itself."""
    if sigma <= 0.0:
        return picture
    if sigma > 12.0:  # large blurs at a quarter of the size: the eye cannot tell, the clock can
        small = cv2.resize(picture, None, fx=0.25, fy=0.25, interpolation=cv2.INTER_AREA)
        small = cv2.GaussianBlur(small, (0, 0), sigma / 4.0, borderType=cv2.BORDER_REPLICATE)
        return np.asarray(cv2.resize(small, picture.shape[1::-1], interpolation=cv2.INTER_LINEAR), dtype=np.float32)
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), sigma, borderType=cv2.BORDER_REPLICATE), dtype=np.float32)


def rgb(hex_code: str) -> F32:
    """`"d9a58a"` -> float32 (3,) in 0..1, sRGB."""
    return np.array([int(hex_code[i : i + 2], 16) / 255.0 for i in (0, 2, 4)], dtype=np.float32)


def over(base: F32, colour: NDArray[np.floating], alpha: NDArray[np.floating]) -> None:
    """Paint `colour` ((3,) or (h, w, 3)) over `base` (h, w, 3) in place with coverage `alpha` (h, w)."""
    rows, columns = np.flatnonzero(alpha.max(axis=1) > _INVISIBLE), np.flatnonzero(alpha.max(axis=0) > _INVISIBLE)
    if not len(rows) or not len(columns):
        return
    part = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)  # most strokes touch a small part
    cover = np.ascontiguousarray(alpha[part], dtype=np.float32)[..., None]
    paint = colour[part] if colour.ndim == 3 else colour
    view = base[part]
    view += (paint - view) * cover


def to_linear(srgb: F32) -> F32:
    """SRGB 0..1 -> linear light (gamma 2.2, close enough for paint)."""
    return np.asarray(np.maximum(srgb, 0.0) ** np.float32(2.2), dtype=np.float32)


def to_srgb(linear: F32) -> F32:
    """Linear light -> sRGB 0..1, highlights rolled off softly above 0.8 of white."""
    knee = np.float32(0.72)
    rolled = np.where(linear > knee, knee + (1 - knee) * np.tanh((linear - knee) / (1 - knee)), linear)
    return np.asarray(np.maximum(rolled, 0.0) ** np.float32(1 / 2.2), dtype=np.float32)


def smooth_noise(rng: np.random.Generator, shape: tuple[int, int], sigma: float) -> F32:
    """Blurred white noise with standard deviation 1, float32 (h, w)."""
    h, w = shape
    scale = max(1.0, sigma / 3.0)
    sh, sw = max(4, int(np.ceil(h / scale))), max(4, int(np.ceil(w / scale)))
    field = rng.standard_normal((sh, sw), dtype=np.float32)
    field = np.asarray(cv2.GaussianBlur(field, (0, 0), sigma / scale), dtype=np.float32)
    field = np.asarray(cv2.resize(field, (w, h), interpolation=cv2.INTER_CUBIC), dtype=np.float32)
    return np.asarray(field / np.float32(field.std() + 1e-9), dtype=np.float32)
