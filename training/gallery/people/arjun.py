"""Arjun."""

from __future__ import annotations

from pipeline.presenter.clothing import Suit
from pipeline.presenter.raster import rgb
from pipeline.presenter.skin import Skin
from training.gallery.beard import beard
from training.gallery.knitwear import collar, shirt
from training.gallery.looks import BLACK, BROWN_EYES, brows, eyes, suited
from training.gallery.rooms import office
from training.gallery.shape import Shape
from training.gallery.short_hair import cropped, ramp
from training.gallery.sitter import Sitter
from training.gallery.strands import Coat


def arjun() -> Sitter:
    """The sitter."""
    skin = Skin(rgb("c08e6a"), rgb("b8735a"), rgb("a4655a"), gloss=1.15)
    coat = Coat(ramp(*BLACK), 11000, 0.15, 1.1, 0.12, 0.26, 13.0, shine=0.30, bleed=7.0)
    hair = cropped(
        coat,
        skin,
        [(0.0, -0.330), (0.17, -0.312), (0.305, -0.225), (0.385, -0.08), (0.412, 0.08), (0.408, 0.22), (0.398, 0.36)],
        [(0.0, 0.022), (0.12, 0.012), (0.215, 0.030), (0.290, 0.115), (0.330, 0.22), (0.350, 0.31), (0.366, 0.40)],
        part=0.17,
        lift=0.75,
    )
    stubble = Coat(
        ramp("0d0b0b", "1f1a19", "3a302c", "6a5a50"), 8000, 0.020, 0.8, 0.35, 0.20, 12.0, shine=0.25, bleed=2.5
    )
    return Sitter(
        "Arjun",
        41,
        skin,
        Shape(
            jaw=0.07,
            chin=0.14,
            nose=0.10,
            nose_length=0.2,
            eyes=-0.05,
            brows=0.020,
            lips=-0.10,
            neck=0.18,
            shoulders=0.06,
            length=0.03,
        ),
        office("b9c0c4", "2f5d7c"),
        eyes(*BROWN_EYES, 0.35, 0.15),
        brows("0f0b0a", "231a17", 1.25, 0.006, 0.62),
        "plain",
        clothes=(
            suited(Suit(rgb("4a4f57"), shirt=shirt("c9d8e6", skin), necklace=False, microphone=False), skin),
            collar("c9d8e6", False),
        ),
        front=(beard(stubble, skin, -0.02, 0.40, 0.965), hair),
    )
