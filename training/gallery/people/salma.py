"""Salma."""

from __future__ import annotations

from pipeline.presenter.clothing import Suit
from pipeline.presenter.raster import rgb
from pipeline.presenter.skin import Skin
from training.gallery.looks import brows, eyes, nothing, suited
from training.gallery.rooms import plain
from training.gallery.scarf import lining, scarf
from training.gallery.shape import Shape
from training.gallery.sitter import Sitter


def salma() -> Sitter:
    """The sitter."""
    skin = Skin(rgb("d9a683"), rgb("c9745f"), rgb("b25c58"), gloss=1.05)
    return Sitter(
        "Salma",
        37,
        skin,
        Shape(
            jaw=-0.05,
            chin=-0.06,
            nose=0.02,
            nose_length=0.30,
            eyes=0.12,
            lips=0.16,
            cheeks=-0.02,
            tilt=0.08,
            length=0.03,
        ),
        plain("c9b8a0", "9a8871"),
        eyes("2d2014", "5a3d20", (0.58, 0.42, 0.22)),
        brows("17100c", "2e2019", 1.1, 0.003, 0.58),
        "none",
        behind=(lining("b06a6c"),),
        clothes=(
            scarf("b06a6c", "6d3a42", skin, tucked=False),
            suited(Suit(rgb("3c3348"), shirt=nothing, necklace=False, microphone=False), skin),
        ),
        front=(scarf("b06a6c", "6d3a42", skin, tucked=True),),
    )
