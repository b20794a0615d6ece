"""One person of the gallery, and how the picture is put together."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np

from kernels.arrays import F32, U8
from pipeline.avatars.portrait_header import STUDIO_GREY
from pipeline.presenter.brows import BrowLook, paint_brow
from pipeline.presenter.ears import paint_ear
from pipeline.presenter.eyes import EyeLook, paint_eye
from pipeline.presenter.face import paint_face
from pipeline.presenter.geometry import BOARD_H, BOARD_W
from pipeline.presenter.lips import paint_lips
from pipeline.presenter.neck import paint_neck
from pipeline.presenter.skin import Skin
from pipeline.presenter.template import landmarks_on
from training.gallery.age import carve, tint
from training.gallery.shape import Shape
from training.gallery.short_hair import Paint

_LIFT = 0.25


@dataclass(frozen=True)
class Sitter:
    """A person who does not exist.

    Attributes:
        name: As people call them.
        years: Their age.
        skin: Colours of the skin.
        shape: How the face differs from the drawing.
        room: What is behind; None: nothing, the picture is transparent there.
        eyes: Colours of the eyes.
        brows: Shape and colour of the brows.
        ears: Whether ears are seen, and whether with pearls.
        freckles: How many, 0..1.
        beard_shadow: Of a shaved beard, 0..1.
        behind: What is painted before the neck.
        clothes: What is painted over the neck.
        front: What is painted over the face, in order.
    """

    name: str
    years: float
    skin: Skin
    shape: Shape
    room: Paint | None
    eyes: EyeLook = field(default_factory=EyeLook)
    brows: BrowLook = field(default_factory=BrowLook)
    ears: str = "none"
    freckles: float = 0.0
    beard_shadow: float = 0.0
    behind: Sequence[Paint] = ()
    clothes: Sequence[Paint] = ()
    front: Sequence[Paint] = ()


@dataclass(frozen=True)
class Painting:
    """A finished picture.

    Attributes:
        rgba: uint8 (1280, 720, 4): the picture, and the person's share of every pixel.
        landmarks: float32 (468, 3), canvas pixels.
    """

    rgba: U8
    landmarks: F32


def paint(sitter: Sitter, width: int = 720) -> Painting:
    """Paint a sitter; the same bytes on every call."""
    base = person(sitter, 0.0)
    cover = 1.0 - (person(sitter, _LIFT) - base).mean(axis=-1) / _LIFT
    layers = sitter.shape.apply(np.dstack([base, np.clip(cover, 0.0, 1.0)]).astype(np.float32))
    cover = np.clip(layers[..., 3:], 0.0, 1.0)
    board = np.full((BOARD_H, BOARD_W, 3), np.float32(STUDIO_GREY[0] / 255), np.float32)
    if sitter.room is not None:
        sitter.room(board, np.random.default_rng(_seed(sitter.name)))
    picture = layers[..., :3] + (1.0 - cover) * board
    height = width * BOARD_H // BOARD_W
    small = cv2.resize(np.dstack([picture, cover]), (width, height), interpolation=cv2.INTER_AREA)
    noise = np.random.default_rng(0).random((height, width, 1), dtype=np.float32) * np.float32(0.98)
    colour = np.floor(np.clip(small[..., :3], 0.0, 1.0) * np.float32(255.0) + noise)
    rgba = np.dstack([colour, np.round(255.0 * np.clip(small[..., 3], 0.0, 1.0))]).astype(np.uint8)
    return Painting(rgba, landmarks(sitter, width))


def landmarks(sitter: Sitter, width: int = 720) -> F32:
    """The face-mesh points of a sitter, float32 (468, 3), canvas pixels."""
    scale = np.float32(width / BOARD_W)
    points = sitter.shape.points(landmarks_on(BOARD_W))
    points[:, :2] = (points[:, :2] + np.float32(0.5)) * scale - np.float32(0.5)
    points[:, 2] *= scale
    return points


def person(sitter: Sitter, lift: float) -> F32:
    """The person over a plain ground of brightness `lift`, not displaced yet; float32 (1920, 1080, 3), sRGB 0..1."""
    rng = np.random.default_rng(_seed(sitter.name))
    board = np.full((BOARD_H, BOARD_W, 3), lift, np.float32)
    for layer in sitter.behind:
        layer(board, rng)
    paint_neck(board, rng, sitter.skin)
    for layer in sitter.clothes:
        layer(board, rng)
    skin, rim = sitter.skin, 1.0 if sitter.ears == "none" else 0.15
    if sitter.ears != "none":
        for side in (-1.0, 1.0):
            paint_ear(board, side, skin, pearl=sitter.ears == "pearls")
    paint_face(
        board, rng, skin, carve(sitter.years), tint(sitter.years, skin, sitter.freckles, sitter.beard_shadow), rim
    )
    paint_lips(board, rng, skin)
    for side in (-1.0, 1.0):
        paint_brow(board, side, rng, sitter.brows)
        paint_eye(board, side, rng, skin, sitter.eyes)
    for layer in sitter.front:
        layer(board, rng)
    return board


def _seed(name: str) -> int:
    return zlib.crc32(name.encode())
