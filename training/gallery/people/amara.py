"""Amara."""

from __future__ import annotations

from pipeline.presenter.clothing import Suit
from pipeline.presenter.raster import rgb
from pipeline.presenter.skin import Skin
from training.gallery.looks import BROWN_EYES, brows, eyes, suited
from training.gallery.rooms import office
from training.gallery.shape import Shape
from training.gallery.short_hair import curls, ramp
from training.gallery.sitter import Sitter
from training.gallery.strands import Coat


def amara() -> Sitter:
    """The sitter."""
    skin = Skin(rgb("8a573d"), rgb("9a4f3c"), rgb("8e4a45"), gloss=1.45)
    coat = Coat(
        ramp("0c0808", "201613", "46322a", "8a6a57"),
        15000,
        0.03,
        1.25,
        0.9,
        0.5,
        12.0,
        1.3,
        0.0135,
        0.30,
        0.10,
        0.14,
        8.0,
    )
    hair = curls(
        coat,
        skin,
        [(0.0, -0.430), (0.22, -0.400), (0.41, -0.275), (0.525, -0.07), (0.548, 0.16), (0.500, 0.36), (0.425, 0.46)],
        [(0.0, 0.035), (0.13, 0.045), (0.235, 0.090), (0.310, 0.18), (0.345, 0.29), (0.368, 0.40), (0.385, 0.44)],
    )
    return Sitter(
        "Amara",
        33,
        skin,
        Shape(cheeks=0.04, nose=0.30, lips=0.34, mouth=0.05, eyes=0.06, jaw=0.02, chin=0.04, length=-0.06),
        office("cfc6b8", "c26a3d"),
        eyes(*BROWN_EYES),
        brows("120b08", "2a1a14"),
        "pearls",
        clothes=(suited(Suit(rgb("8c3f2b"), rgb("f1e7d8"), microphone=False), skin),),
        front=(hair,),
    )
