"""Ingrid."""

from __future__ import annotations

import numpy as np

from pipeline.presenter.raster import rgb
from pipeline.presenter.skin import Skin
from training.gallery.knitwear import pullover
from training.gallery.looks import brows, eyes, mass
from training.gallery.shape import Shape
from training.gallery.short_hair import falling, free_area, ramp
from training.gallery.sitter import Sitter
from training.gallery.strands import Coat


def ingrid() -> Sitter:
    """The sitter."""
    skin = Skin(rgb("ecc0a8"), rgb("d9826f"), rgb("b8605f"), gloss=0.95)
    silver = Coat(
        ramp("4f4b48", "8f8a84", "c6c1b9", "f8f5ef"),
        10000,
        0.34,
        1.15,
        0.03,
        0.09,
        24.0,
        shine=0.42,
        tone=0.09,
        ambient=0.20,
        ragged=0.05,
        bleed=5.0,
    )
    left = free_area(
        [
            (0.16, -0.290),
            (-0.10, -0.312),
            (-0.36, -0.180),
            (-0.475, 0.05),
            (-0.505, 0.32),
            (-0.500, 0.58),
            (-0.470, 0.78),
            (-0.440, 0.850),
            (-0.380, 0.868),
            (-0.326, 0.850),
            (-0.318, 0.78),
            (-0.345, 0.60),
            (-0.368, 0.42),
            (-0.345, 0.27),
            (-0.25, 0.165),
            (-0.08, 0.095),
            (0.08, 0.020),
            (0.17, -0.07),
        ]
    )
    right = free_area(
        [
            (0.02, -0.290),
            (0.25, -0.270),
            (0.40, -0.150),
            (0.482, 0.06),
            (0.503, 0.32),
            (0.498, 0.58),
            (0.468, 0.78),
            (0.438, 0.845),
            (0.380, 0.862),
            (0.330, 0.845),
            (0.322, 0.77),
            (0.348, 0.60),
            (0.368, 0.42),
            (0.352, 0.27),
            (0.285, 0.125),
            (0.20, 0.015),
            (0.13, -0.06),
            (0.06, -0.16),
        ]
    )
    area = np.asarray(np.maximum(left, right), np.float32)
    return Sitter(
        "Ingrid",
        59,
        skin,
        Shape(
            jaw=0.06,
            cheeks=0.05,
            chin=0.06,
            nose=0.08,
            nose_length=0.15,
            eyes=-0.06,
            lips=-0.10,
            brows=0.008,
            length=-0.04,
        ),
        None,
        eyes("435a58", "8a9f94", (0.55, 0.62, 0.45), 0.8, 0.8),
        brows("7a6a5c", "8c7462", 0.95, 0.0, 0.40),
        "none",
        behind=(mass("45423f"),),
        clothes=(pullover("2f4f5f", [(0.0, 1.330), (0.10, 1.318), (0.20, 1.262), (0.285, 1.165)], 0.062),),
        front=(falling(silver, skin, area, (0.11, -0.20), 0.40, 0.10),),
    )
