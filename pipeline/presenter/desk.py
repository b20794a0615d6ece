"""The front edge of the studio desk: dark glass with a lit rim, out of focus towards the viewer."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32
from pipeline.presenter.raster import Window, blur, over, rgb, smooth_noise, smoothstep

_TOP = 2.425
"""Height of the desk's rim on the axis, face coordinates."""


def paint_desk(board: F32, rng: np.random.Generator) -> None:
    """Paint the desk over the lowest part of `board` in place, with a soft mirror image of the jacket in the glass."""
    window = Window.around(-1.0, 2.20, 1.0, 2.80)
    u, v = window.grid()
    view = board[window.slices]
    depth = v - (_TOP + 0.035 * u**2)
    mirror = blur(np.ascontiguousarray(view[::-1]), 14.0)
    glass = np.empty_like(view)
    glass[:] = rgb("0c1626") + (rgb("1d3350") - rgb("0c1626")) * np.exp(-np.maximum(depth, 0.0) / 0.07)[..., None]
    glass += 0.16 * mirror * np.exp(-np.maximum(depth, 0.0) / 0.10)[..., None]
    sheen = np.exp(-0.5 * ((u + 0.35 - 0.6 * depth) / 0.22) ** 2) + 0.6 * np.exp(
        -0.5 * ((u - 0.62 - 0.6 * depth) / 0.12) ** 2
    )
    glass += (0.055 * sheen)[..., None] * rgb("9cc4ee")
    glass *= (1.0 + 0.006 * smooth_noise(rng, (u.shape[0], u.shape[1]), 6.0))[..., None]
    over(view, rgb("04070d"), 0.55 * smoothstep(-0.075, 0.0, depth))
    over(view, glass, smoothstep(-0.0030, 0.0030, depth))
    along = 0.55 + 0.45 * np.exp(-0.5 * ((u + 0.30) / 0.38) ** 2)
    over(view, rgb("59a4e8"), 0.34 * along * np.exp(-0.5 * ((depth - 0.004) / 0.016) ** 2))
    over(view, rgb("d6ecff"), 0.80 * along * np.exp(-0.5 * ((depth - 0.002) / 0.0030) ** 2))
