"""Henrik."""

from __future__ import annotations

from pipeline.presenter.clothing import Suit
from pipeline.presenter.raster import rgb
from pipeline.presenter.skin import Skin
from training.gallery.beard import beard
from training.gallery.knitwear import collar, shirt
from training.gallery.looks import brows, eyes, suited
from training.gallery.rooms import studio
from training.gallery.shape import Shape
from training.gallery.short_hair import cropped, ramp
from training.gallery.sitter import Sitter
from training.gallery.strands import Coat


def henrik() -> Sitter:
    """The sitter."""
    skin = Skin(rgb("e6b598"), rgb("d47a68"), rgb("b8746a"), gloss=0.9)
    grey = ramp("5c5853", "8b8781", "bdb9b2", "f1efea")
    coat = Coat(grey, 6500, 0.20, 1.2, 0.08, 0.14, 16.0, shine=0.45, tone=0.14, ambient=0.22, bleed=6.0)
    hair = cropped(
        coat,
        skin,
        [(0.0, -0.285), (0.17, -0.265), (0.300, -0.180), (0.378, -0.05), (0.402, 0.09), (0.402, 0.22), (0.394, 0.36)],
        [(0.0, -0.045), (0.10, -0.050), (0.190, -0.055), (0.265, 0.00), (0.330, 0.16), (0.350, 0.28), (0.364, 0.38)],
        part=0.16,
        lift=0.45,
    )
    whiskers = Coat(
        ramp("6b6660", "98938c", "c9c5be", "f7f5f1"),
        9500,
        0.085,
        1.15,
        0.22,
        0.26,
        12.0,
        shine=0.35,
        tone=0.14,
        ambient=0.26,
        bleed=8.0,
    )
    return Sitter(
        "Henrik",
        69,
        skin,
        Shape(
            jaw=0.05,
            chin=0.12,
            nose=0.16,
            nose_length=0.28,
            eyes=-0.10,
            brows=0.016,
            lips=-0.16,
            neck=0.16,
            shoulders=0.05,
            length=0.04,
        ),
        studio(0.35),
        eyes("4a6474", "8fb0be", (0.55, 0.62, 0.66), 0.25, 0.1),
        brows("8f8a82", "85796f", 1.25, 0.005, 0.42),
        "plain",
        clothes=(
            suited(Suit(rgb("33363b"), shirt=shirt("eceef0", skin, "6d2430"), necklace=False), skin),
            collar("eceef0", True),
        ),
        front=(beard(whiskers, skin, 0.075, 0.50), hair),
    )
