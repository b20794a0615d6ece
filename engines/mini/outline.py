"""What of a picture is the person, and how far each place of it follows the head, the shoulders and the breath.

Shares are functions of a place's distance below the chin and of the person's outline:

* head: 1 on head, hair, hat and ears, falling to 0 along the neck;
* shoulders: what the neck lets through of the head's shift, on shoulders and chest, fading out below them;
* breath: the part that rises and sinks, from the collar bones down to the lower chest.

All of them end within `BAND_PX` canvas pixels outside the outline: the background stands still, and what a moving edge uncovers or
covers is taken from that narrow band.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np

from engines.face import topology
from engines.mini.easing import smoothstep
from engines.mini.face_frame import FaceFrame
from kernels.arrays import F32, F64, U8
from kernels.errors import ShapeError
from kernels.sampling.remap import remap_bilinear

BAND_PX: Final = 22.0
"""Canvas pixels outside the outline over which motion fades out."""
SOLID: Final = 128
"""Level of the matte from which a pixel belongs to the person."""
NECK: Final = (0.04, 0.62)
"""Where the neck gives way: it begins and ends this far below the chin, in face heights."""
CHEST_ENDS: Final = (0.95, 1.55)
"""Where the motion of the chest fades out, likewise."""
COLLAR: Final = (0.12, 0.55)
"""Where breath begins to lift, likewise."""
SHOULDERS_FOLLOW: Final = 0.3
"""Share of the head's shift that shoulders follow."""


@dataclass(frozen=True)
class Shares:
    """How far places follow: `head`, `shoulders` and `breath`, each float32, 0..1, of the places' shape."""

    head: F32
    shoulders: F32
    breath: F32


@dataclass(frozen=True)
class Outline:
    """A person's outline around a face crop.

    Attributes:
        near: float32 (h, w), 1 on the person, falling to 0 `BAND_PX` outside.
        origin: Place (x, y) of pixel (0, 0) of `near`, in crop pixels.
        scale: Pixels of `near` per crop pixel.
    """

    near: F32
    origin: tuple[float, float]
    scale: float

    def shares(self, frame: FaceFrame, places: F64) -> Shares:
        """Shares of places.

        Args:
            frame: The face's axes and units, crop pixels.
            places: float64 (..., 2), crop pixels; outside of the outline's picture its edge pixels count.
        """
        pixels = ((places - self.origin) * self.scale).astype(np.float32)
        near = remap_bilinear(self.near, pixels.reshape(1, -1, 2)).reshape(places.shape[:-1])
        below = (places - frame.points[topology.CHIN]) @ frame.y_axis / frame.face_height
        neck = 1.0 - smoothstep(*NECK, below)
        chest = 1.0 - smoothstep(*CHEST_ENDS, below)
        return Shares(
            head=(near * neck).astype(np.float32),
            shoulders=(near * (1.0 - neck) * chest * SHOULDERS_FOLLOW).astype(np.float32),
            breath=(near * smoothstep(*COLLAR, below) * chest).astype(np.float32),
        )


def make_outline(matte: U8, origin: tuple[float, float], scale: float) -> Outline:
    """The outline of a matte.

    Args:
        matte: uint8 (h, w), 0 background to 255 person, canvas pixels.
        origin: Place (x, y) of the matte's pixel (0, 0), in crop pixels.
        scale: Canvas pixels per crop pixel.

    Raises:
        ShapeError: Not a uint8 matte.
    """
    if matte.ndim != 2 or matte.dtype != np.uint8 or matte.size == 0:
        raise ShapeError("matte", f"{matte.dtype} {matte.shape}", "uint8 (h, w)")
    outside = np.where(matte >= SOLID, 0, 255).astype(np.uint8)
    distance = cv2.distanceTransform(outside, cv2.DIST_L2, 5)
    near = 1.0 - smoothstep(0.0, BAND_PX, distance.astype(np.float64))
    return Outline(near.astype(np.float32), origin, scale)


def one_person(matte: U8, inside: tuple[float, float]) -> U8:
    """Keep the connected part of a matte that holds a point; holes in it are filled.

    Args:
        matte: uint8 (h, w).
        inside: A point (x, y) of the person, matte pixels.

    Returns:
        uint8 (h, w); all 0 where the point is not on a person.
    """
    solid = (matte >= SOLID).astype(np.uint8)
    _, labels = cv2.connectedComponents(solid)
    height, width = matte.shape
    x, y = int(np.clip(inside[0], 0, width - 1)), int(np.clip(inside[1], 0, height - 1))
    if labels[y, x] == 0:
        return np.zeros_like(matte)
    mine = (labels == labels[y, x]).astype(np.uint8)
    shape, _ = cv2.findContours(mine, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    filled = np.zeros_like(mine)
    cv2.drawContours(filled, shape, -1, 1, cv2.FILLED)
    near = cv2.dilate(filled, np.ones((5, 5), np.uint8))  # soft edges stay
    return np.where(filled > 0, np.maximum(matte, SOLID), np.where(near > 0, matte, 0)).astype(np.uint8)
