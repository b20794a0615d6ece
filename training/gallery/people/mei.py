"""Mei."""

from __future__ import annotations

from pipeline.presenter.raster import rgb
from pipeline.presenter.skin import Skin
from training.gallery.glasses import glasses
from training.gallery.knitwear import pullover
from training.gallery.looks import brows, eyes, mass
from training.gallery.rooms import plain
from training.gallery.shape import Shape
from training.gallery.short_hair import closed_area, falling, ramp
from training.gallery.sitter import Sitter
from training.gallery.strands import Coat


def mei() -> Sitter:
    """The sitter."""
    skin = Skin(rgb("efc8a6"), rgb("e58f7c"), rgb("c9656a"), gloss=1.05)
    black = Coat(
        ramp("08080b", "17161b", "35333c", "9a97a4"),
        11000,
        0.30,
        1.2,
        0.025,
        0.05,
        18.0,
        shine=0.42,
        tone=0.07,
        ambient=0.14,
        ragged=0.02,
    )
    bob = closed_area(
        [
            (0.0, -0.300),
            (0.20, -0.280),
            (0.385, -0.150),
            (0.470, 0.06),
            (0.490, 0.32),
            (0.485, 0.62),
            (0.474, 0.80),
            (0.462, 0.880),
            (0.405, 0.900),
            (0.348, 0.885),
            (0.336, 0.80),
            (0.345, 0.66),
            (0.362, 0.50),
            (0.356, 0.32),
            (0.320, 0.215),
            (0.24, 0.178),
            (0.12, 0.170),
            (0.0, 0.172),
        ]
    )
    return Sitter(
        "Mei",
        25,
        skin,
        Shape(
            jaw=0.0,
            chin=0.04,
            nose=-0.02,
            nose_length=-0.25,
            eyes=0.02,
            tilt=0.16,
            cheeks=0.03,
            lips=0.08,
            mouth=-0.06,
            length=-0.05,
        ),
        plain("d9d3ea", "b7b0d0"),
        eyes("1c1210", "3a2418", (0.40, 0.26, 0.16), 0.8, 0.7),
        brows("17120f", "2e2420", 0.95, 0.0, 0.40),
        "none",
        behind=(mass("08080b"),),
        clothes=(pullover("e3d6bf", [(0.0, 1.110), (0.09, 1.104), (0.17, 1.078), (0.226, 1.036)], 0.150),),
        front=(glasses(skin, "2b1c17", (0.122, 0.108), 2.3, 8.0), falling(black, skin, bob, (0.0, -0.26), 0.30)),
    )
