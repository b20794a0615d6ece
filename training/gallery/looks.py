"""What several sitters share: eyes, brows, blazers and the hair behind the neck."""

from __future__ import annotations

import numpy as np

from kernels.arrays import F32
from pipeline.presenter.brows import LOWER_EDGE, UPPER_EDGE, BrowLook
from pipeline.presenter.clothing import Suit, paint_clothes
from pipeline.presenter.eyes import EyeLook
from pipeline.presenter.geometry import Points
from pipeline.presenter.raster import Window, over, rgb
from pipeline.presenter.skin import Skin
from training.gallery.short_hair import HEAD, Paint, closed_area


def eyes(
    outer: str, inner: str, glow: tuple[float, float, float], lashes: float = 1.0, make_up: float = 1.0
) -> EyeLook:
    """Eyes: rim and middle of the iris, its glow, lashes and make-up, 0..1."""
    return EyeLook(rgb(outer), rgb(inner), np.array(glow, np.float32), lashes, make_up)


def brows(hair: str, under: str, thick: float = 1.0, deeper: float = 0.0, amount: float = 0.52) -> BrowLook:
    """Brows: hair, what is below it, width of a hair, how much deeper they reach, how dark it is below."""
    lower: Points = [(u, v + deeper) for u, v in LOWER_EDGE]
    return BrowLook(lower, UPPER_EDGE, rgb(hair), rgb(under), amount, thick)


def suited(suit: Suit, skin: Skin) -> Paint:
    """The blazer as a layer."""

    def paint(board: F32, rng: np.random.Generator) -> None:
        paint_clothes(board, rng, suit, skin)

    return paint


def mass(colour: str) -> Paint:
    """The dark hair behind neck and jaw."""
    half: Points = [
        (0.0, -0.28),
        (0.26, -0.205),
        (0.42, -0.03),
        (0.455, 0.30),
        (0.45, 0.62),
        (0.42, 0.82),
        (0.20, 0.86),
        (0.0, 0.86),
    ]

    def paint(board: F32, rng: np.random.Generator) -> None:
        over(board[HEAD.slices], rgb(colour), closed_area(half, 3.0))

    return paint


def nothing(view: F32, window: Window, rng: np.random.Generator) -> None:
    """What is worn under the blazer lies there already."""


BLACK = ("0c0908", "1e1815", "40342d", "7d6a5c")
BROWN_EYES = ("2a1a12", "4a2c18", (0.50, 0.32, 0.18))
