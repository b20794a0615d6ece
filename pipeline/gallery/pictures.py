"""The pictures of the gallery as they lie in the package, written by `python -m training.gallery`."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np

from kernels.arrays import F32, U8
from kernels.errors import InvalidInputError
from pipeline.avatars.portrait_header import STUDIO_GREY

FOLDER: Final = Path(__file__).parent / "pictures"
POINTS_FILE: Final = FOLDER / "landmarks.npy"
"""float32 (presenters, 468, 3) in the order of `NAMES`: canvas pixels, x right, y down, z away from the viewer."""
NAMES: Final = ("Amara", "Arjun", "Henrik", "Ingrid", "Mei", "Salma")
TRANSPARENT: Final = frozenset({"Ingrid"})
"""Who stands before nothing."""


@dataclass(frozen=True)
class GalleryPicture:
    """A presenter of the gallery.

    Attributes:
        name: One of `NAMES`.
        rgb: uint8 (1280, 720, 3); a transparent picture stands before the grey that every portrait with alpha gets.
        person: uint8 (1280, 720), the presenter's share of every pixel, 0..255.
        landmarks: float32 (468, 3), face-mesh points, canvas pixels.
    """

    name: str
    rgb: U8
    person: U8
    landmarks: F32


def picture_file(name: str) -> Path:
    """Where the picture of a presenter lies: WebP, its alpha is the presenter's share of every pixel."""
    return FOLDER / f"{name.lower()}.webp"


@cache
def gallery_version() -> str:
    """Hash of the pictures, the landmarks and the code of the crop: another picture, another version."""
    digest = hashlib.sha256()
    for path in (*map(picture_file, NAMES), POINTS_FILE, FOLDER.parents[1] / "avatars" / "face_crop.py"):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def read_picture(name: str) -> GalleryPicture:
    """Read a presenter of the gallery.

    Raises:
        InvalidInputError: There is no such presenter.
    """
    from PIL import Image

    if name not in NAMES:
        raise InvalidInputError("name", repr(name[:80]), ", ".join(NAMES))
    with Image.open(io.BytesIO(picture_file(name).read_bytes()), formats=["WEBP"]) as image:
        rgba = np.asarray(image.convert("RGBA"))
    rgb, person = np.ascontiguousarray(rgba[..., :3]), np.ascontiguousarray(rgba[..., 3])
    points = np.load(POINTS_FILE, allow_pickle=False)[NAMES.index(name)]
    return GalleryPicture(name, rgb, person, np.ascontiguousarray(points, np.float32))


def with_alpha(name: str, canvas: U8) -> U8:
    """What is transparent in a picture of the gallery, given back to it.

    Args:
        name: Name of a presenter, of the gallery or not.
        canvas: uint8 (H, W, 3), its picture.

    Returns:
        uint8 (H, W, 4) where it is a picture of `TRANSPARENT`, else the canvas itself.
    """
    if name not in TRANSPARENT:
        return canvas
    picture = read_picture(name)
    if not np.array_equal(picture.rgb, canvas):  # another one of that name
        return canvas
    share = picture.person[..., None].astype(np.float32) / np.float32(255)
    own = (canvas - (1 - share) * np.asarray(STUDIO_GREY, np.float32)) / np.maximum(share, 0.02)
    return np.dstack([np.round(np.clip(own, 0, 255)).astype(np.uint8), picture.person])
