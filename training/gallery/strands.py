"""Hair of any kind: strands that follow a field of directions, lit as thin cylinders on a rounded head."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32, F64
from pipeline.presenter.geometry import FACE_UNIT
from pipeline.presenter.raster import Window, blur, over, smooth_noise, smoothstep
from pipeline.presenter.skin import KEY_FROM

Flow = Callable[[F32, F32], tuple[F32, F32]]
"""From face coordinates to the direction in which hair grows there, of any length."""
_ZOOM: Final = 2
_STOPS: Final = (0.0, 0.30, 0.62, 1.0)


@dataclass(frozen=True)
class Dome:
    """The rounded body that hair lies on: middle and half axes, face coordinates."""

    middle: tuple[float, float] = (0.0, 0.30)
    half: tuple[float, float] = (0.47, 0.64)

    def normal(self, u: F64, v: F64) -> tuple[F64, F64, F64]:
        """The unit normal at face coordinates: right, down, towards the viewer."""
        x, y = (u - self.middle[0]) / self.half[0], (v - self.middle[1]) / self.half[1]
        out = np.hypot(x, y)
        shrink = np.minimum(1.0, 0.97 / np.maximum(out, 1e-6))
        x, y = x * shrink, y * shrink
        return x, y, np.sqrt(np.maximum(1.0 - x * x - y * y, 0.02))


@dataclass(frozen=True)
class Coat:
    """How hair looks and lies.

    Attributes:
        ramp: float32 (4, 3), sRGB 0..1, from the darkest to the brightest.
        count: Strands.
        length: Of a strand, face units.
        width: Of a strand, board pixels.
        stray: How far single strands leave the direction, radians.
        clump: How far bundles of strands leave it together, radians.
        clump_px: Size of a bundle, board pixels.
        curl: Turns of a strand over its length; above 0 strands are curls.
        curl_size: Radius of a curl, face units.
        shine: Strength of the highlight.
        tone: How much single strands differ in brightness.
        ambient: Brightness without light.
        bleed: How far strands may leave their mask, board pixels.
        ragged: How uneven that edge is.
    """

    ramp: F32
    count: int
    length: float
    width: float = 1.3
    stray: float = 0.10
    clump: float = 0.16
    clump_px: float = 16.0
    curl: float = 0.0
    curl_size: float = 0.012
    shine: float = 0.55
    tone: float = 0.11
    ambient: float = 0.20
    bleed: float = 4.0
    ragged: float = 0.10


def paint_strands(
    board: F32,
    window: Window,
    mask: F32,
    flow: Flow,
    coat: Coat,
    rng: np.random.Generator,
    dome: Dome | None = None,
    shade: F32 | None = None,
    within: F32 | None = None,
) -> None:
    """Paint hair on `board` in place.

    Args:
        board: The drawing board.
        window: Where.
        mask: Share of strands that grow at every pixel of the window, 0..1, (h, w).
        flow: Where they go.
        coat: What they look like.
        rng: Where chance comes from.
        dome: What they lie on.
        shade: 1 where light arrives, 0 in shadow, (h, w); None: everywhere.
        within: Where strands may be seen, (h, w); None: where they grow, and a little beyond.
    """
    dome = dome or Dome()
    roots = _roots(mask, coat.count, rng)
    paths = _paths(roots, window, flow, coat, rng)
    uv = _to_face(paths, window)
    level = _levels(uv, coat, dome, rng)
    if shade is not None:
        x = np.clip(paths[:, 1::2, 0].astype(int), 0, window.w - 1)
        y = np.clip(paths[:, 1::2, 1].astype(int), 0, window.h - 1)
        level = level * shade[y, x]
    colours = np.stack([np.interp(level, _STOPS, coat.ramp[:, c]) for c in range(3)], axis=-1)
    shown = mask if within is None else within
    ragged = blur(shown, coat.bleed) + np.float32(coat.ragged) * smooth_noise(rng, (window.h, window.w), 1.8) * (
        shown < 0.98
    )
    keep = smoothstep(0.10, 0.34, ragged) * (blur(shown, coat.bleed) > 0.02)
    _draw(board[window.slices], window, paths, np.clip(colours, 0.0, 1.0), coat, rng, keep)


def _roots(mask: F32, count: int, rng: np.random.Generator) -> F64:
    """Where strands begin: pixels (count, 2), dense where the mask is; sorted from top to bottom, so that upper hair lies below."""
    weight = np.cumsum(mask.ravel().astype(np.float64))
    found = np.searchsorted(weight, rng.random(count) * weight[-1])
    y, x = np.divmod(found, mask.shape[1])
    roots = np.stack([x, y], axis=1) + rng.random((count, 2))
    return np.asarray(roots[np.argsort(roots[:, 1])], dtype=np.float64)


def _paths(roots: F64, window: Window, flow: Flow, coat: Coat, rng: np.random.Generator) -> F64:
    """Points of all strands, pixels of the window, (n, 9, 2)."""
    steps = 9
    noise = smooth_noise(rng, (window.h, window.w), coat.clump_px) * np.float32(coat.clump)
    own = rng.normal(0.0, coat.stray, len(roots))
    length = coat.length * FACE_UNIT * rng.uniform(0.55, 1.15, len(roots)) / (steps - 1)
    paths = np.empty((len(roots), steps, 2))
    paths[:, 0] = at = roots.copy()
    for step in range(1, steps):
        x, y = (np.clip(at[:, axis].astype(int), 0, size - 1) for axis, size in ((0, window.w), (1, window.h)))
        u, v = _to_face(at, window).T.astype(np.float32)
        du, dv = flow(u, v)
        angle = np.arctan2(dv, du) + noise[y, x] + own
        at = at + np.stack([np.cos(angle), np.sin(angle)], axis=1) * length[:, None]
        paths[:, step] = at
    if coat.curl:
        turn = np.linspace(0.0, 2 * np.pi * coat.curl, steps)[None] + rng.uniform(0, 2 * np.pi, (len(roots), 1))
        size = coat.curl_size * FACE_UNIT * rng.uniform(0.6, 1.25, (len(roots), 1))
        flat = rng.uniform(0.55, 1.0, (len(roots), 1))
        paths += np.stack([np.cos(turn) * size, np.sin(turn) * size * flat], axis=-1)
    return paths


def _to_face(pixels: NDArray[np.floating], window: Window) -> F64:
    from pipeline.presenter.geometry import FACE_TOP, FACE_X

    return np.asarray((pixels + (window.x - FACE_X, window.y - FACE_TOP)) / FACE_UNIT, dtype=np.float64)


def _levels(uv: F64, coat: Coat, dome: Dome, rng: np.random.Generator) -> F64:
    """Brightness of every second point of every strand, (n, 4): light on a thin cylinder (Kajiya and Kay 1989)."""
    middle = uv[:, 1::2]
    along = np.gradient(uv, axis=1)[:, 1::2]
    nx, ny, nz = dome.normal(middle[..., 0], middle[..., 1])
    tangent = np.stack([along[..., 0], along[..., 1], -(along[..., 0] * nx + along[..., 1] * ny) / nz], axis=-1)
    tangent /= np.maximum(np.linalg.norm(tangent, axis=-1, keepdims=True), 1e-9)
    half = KEY_FROM.astype(np.float64) + (0.0, 0.0, 1.0)
    half /= np.linalg.norm(half)
    facing = np.clip(nx * KEY_FROM[0] + ny * KEY_FROM[1] + nz * KEY_FROM[2] + 0.25, 0.0, 1.25) / 1.25
    diffuse = np.sqrt(np.maximum(1.0 - (tangent @ KEY_FROM.astype(np.float64)) ** 2, 0.0)) * facing
    tilt = rng.normal(0.0, 0.10, (len(uv), 1))
    shine = np.sqrt(np.maximum(1.0 - (tangent @ half + tilt) ** 2, 0.0)) ** 34.0 * facing
    tone = rng.normal(0.0, coat.tone, (len(uv), 1))
    tip = np.linspace(-0.05, 0.04, middle.shape[1])[None]
    return np.asarray(coat.ambient + 0.42 * diffuse + coat.shine * shine + tone + tip, dtype=np.float64)


def _draw(view: F32, window: Window, paths: F64, colours: F64, coat: Coat, rng: np.random.Generator, keep: F32) -> None:
    """Strands over the view, where they may be, each in four pieces of its own colour; drawn at twice the size."""
    ink = np.empty((window.h * _ZOOM, window.w * _ZOOM, 3), np.uint8)
    ink[:] = np.round(colours.reshape(-1, 3).mean(axis=0) * 255).astype(np.uint8)
    cover = np.zeros(ink.shape[:2], np.uint8)
    fixed = np.round(paths * _ZOOM * 16).astype(np.int32)
    shades = np.round(colours * 255).astype(int).tolist()
    thick = np.maximum(1, np.round(rng.normal(coat.width * _ZOOM, 0.35 * _ZOOM, len(paths)))).astype(int)
    for path, shade, width in zip(fixed, shades, thick.tolist(), strict=True):
        for piece, tone in enumerate(shade):
            part = path[2 * piece : 2 * piece + 3]
            end = max(1, width - 1) if piece == len(shade) - 1 else width
            cv2.polylines(ink, [part], False, tone, end, cv2.LINE_AA, 4)
            cv2.polylines(cover, [part], False, 255, end, cv2.LINE_AA, 4)
    size = (window.w, window.h)
    colour = cv2.resize(ink, size, interpolation=cv2.INTER_AREA).astype(np.float32) / np.float32(255)
    share = cv2.resize(cover, size, interpolation=cv2.INTER_AREA).astype(np.float32) / np.float32(255)
    over(view, colour, np.asarray(blur(share, 0.4) * keep, np.float32))
