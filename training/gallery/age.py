"""What years do to a face: lines, folds, bags and a skin that is less even."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32
from pipeline.presenter.face import FACE_WINDOW, Carve, Tint
from pipeline.presenter.geometry import Points, spline
from pipeline.presenter.raster import blur, bump, over, smooth_noise, smoothstep
from pipeline.presenter.skin import Skin

_FOREHEAD: tuple[Points, ...] = (
    [(-0.21, 0.105), (-0.11, 0.092), (0.0, 0.098), (0.11, 0.090), (0.21, 0.104)],
    [(-0.23, 0.150), (-0.12, 0.136), (0.0, 0.142), (0.12, 0.135), (0.22, 0.150)],
    [(-0.17, 0.062), (-0.08, 0.052), (0.0, 0.055), (0.08, 0.050), (0.16, 0.062)],
)
# From here at u > 0, both sides alike.
_NASOLABIAL: Points = [(0.092, 0.560), (0.128, 0.605), (0.160, 0.655), (0.178, 0.705), (0.180, 0.735)]
_MARIONETTE: Points = [(0.163, 0.735), (0.172, 0.775), (0.170, 0.815), (0.158, 0.845)]
_BAG: Points = [(0.098, 0.392), (0.145, 0.418), (0.195, 0.424), (0.240, 0.405), (0.262, 0.384)]
_CROW: tuple[Points, ...] = (
    [(0.285, 0.330), (0.312, 0.318), (0.335, 0.312)],
    [(0.288, 0.347), (0.316, 0.346), (0.340, 0.352)],
    [(0.284, 0.366), (0.310, 0.376), (0.330, 0.392)],
)
_FROWN: Points = [(0.026, 0.205), (0.022, 0.230), (0.026, 0.258)]
_LID: Points = [(0.11, 0.300), (0.16, 0.282), (0.22, 0.284), (0.275, 0.312)]


def _line(points: Points, width: float, soft: float) -> F32:
    curve = spline(points, 60)
    taper = width * np.sin(np.pi * np.linspace(0.03, 0.97, 60)) ** 0.6
    return FACE_WINDOW.ribbon(curve, taper, soft)


def _both(points: Points, width: float, soft: float) -> F32:
    other = [(-u, v) for u, v in points]
    return _line(points, width, soft) + _line(other, width, soft)


def _furrow(line: F32, wide: F32) -> F32:
    """A line with its soft shoulders, depth 1."""
    return np.asarray(line - 0.45 * wide, dtype=np.float32)


def carve(years: float) -> Carve:
    """Relief that `years` of life leave: 25 nearly none, 70 much."""
    deep = np.float32(np.clip((years - 24.0) / 46.0, 0.0, 1.1))

    def relief(u: F32, v: F32) -> F32:
        z = np.zeros_like(u)
        z -= 0.0052 * deep * _furrow(_both(_NASOLABIAL, 5.0, 2.4), _both(_NASOLABIAL, 22.0, 9.0))
        z += 0.010 * deep * (bump(u, v, 0.205, 0.625, 0.045, 0.060, -20) + bump(u, v, -0.205, 0.625, 0.045, 0.060, 20))
        late = deep**1.6
        for row in _FOREHEAD:
            z -= 0.0030 * late * _furrow(_line(row, 3.6, 1.8), _line(row, 14.0, 5.0))
        for row in _CROW:
            z -= 0.0022 * late * _furrow(_both(row, 2.6, 1.2), _both(row, 8.0, 3.0))
        z -= 0.0030 * late * _furrow(_both(_MARIONETTE, 4.0, 2.2), _both(_MARIONETTE, 16.0, 7.0))
        z -= 0.0026 * late * _furrow(_both(_BAG, 3.4, 1.8), _both(_BAG, 14.0, 6.0))
        z += 0.0060 * late * (bump(u, v, 0.18, 0.402, 0.060, 0.014, 2) + bump(u, v, -0.18, 0.402, 0.060, 0.014, -2))
        z -= 0.0024 * late * _both(_FROWN, 3.0, 1.6)
        z -= 0.0020 * late * _both(_LID, 4.0, 2.6)
        z += 0.012 * late * (bump(u, v, 0.25, 0.84, 0.05, 0.05) + bump(u, v, -0.25, 0.84, 0.05, 0.05))  # jowls
        grain = smooth_noise(np.random.default_rng(round(years)), (u.shape[0], u.shape[1]), 1.6)
        return np.asarray(z + 0.00022 * (0.4 + late) * grain, dtype=np.float32)

    return relief


def tint(years: float, skin: Skin, freckles: float = 0.0, beard_shadow: float = 0.0) -> Tint:
    """Colour that years, sun and a shaved beard leave in the skin."""
    old = np.clip((years - 30.0) / 40.0, 0.0, 1.0)

    def paint(colour: F32, u: F32, v: F32) -> None:
        rng = np.random.default_rng(100 + round(years))
        shape = (u.shape[0], u.shape[1])
        patches = np.clip(smooth_noise(rng, shape, 22.0) - 0.2, 0.0, 2.0)
        over(colour, skin.tone("c98066"), np.asarray(0.10 * old * patches, np.float32))
        bags = bump(u, v, -0.172, 0.402, 0.062, 0.018, -6) + bump(u, v, 0.172, 0.402, 0.062, 0.018, 6)
        over(colour, skin.tone("9d7078"), np.asarray((0.14 + 0.20 * old) * bags, np.float32))
        if freckles:
            spots = np.zeros(shape, np.float32)
            where = bump(u, v, 0.0, 0.46, 0.26, 0.10)
            for _ in range(240):
                y, x = rng.integers(0, shape[0]), rng.integers(0, shape[1])
                spots[y, x] = rng.uniform(0.4, 1.0) * where[y, x]
            over(colour, skin.tone("a9694a"), np.clip(freckles * 26.0 * blur(spots, 1.9), 0.0, 0.6))
        if beard_shadow:
            low = smoothstep(0.60, 0.70, v + 0.35 * np.maximum(np.abs(u) - 0.17, 0.0))
            low = low * smoothstep(0.40, 0.30, np.abs(u) - 0.1 * (v - 0.6))
            low = np.maximum(low, bump(u, v, 0.0, 0.642, 0.13, 0.026))
            over(colour, skin.tone("7d6a68"), np.asarray(beard_shadow * low, np.float32))

    return paint
