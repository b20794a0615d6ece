"""The picture around the face crop in motion: head, hair, hat and neck turn with the face, the chest breathes.

The still NV12 planes of the moving rectangle are sampled through the backward displacement of the same forward model that moves the
crop (`engines.mini.mesh_deform`), on a coarse lattice of canvas pixels. Then the face is blended in: where the crop's mask is 1
nothing of the rectangle is sampled at all.

Planes are enlarged twice beforehand (cubic): sampling them bilinearly is then as sharp as a cubic sampling of the picture, and a
picture that does not move comes back byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np
import torch

from engines.mini.face_frame import build_frame
from engines.mini.mesh_basis import build_body_field
from engines.mini.mesh_deform import Deformation, NodeField, Pose, posed_displacement
from engines.mini.outline import Outline
from kernels.arrays import F32, U8
from kernels.sampling.remap import remap_bilinear

CELL: Final = 8
"""Side of a lattice block, canvas pixels; even, so that chroma has the same lattice at half the size."""
INVERSION_STEPS: Final = 4
FINER: Final = 2
FULL: Final = 0.999
"""From this share on the face covers everything."""
STILL_PX: Final = 0.02
"""Strips that move less are copied."""


@dataclass(frozen=True)
class Strip:
    """A part of the rectangle that is sampled: even edges, on lattice blocks but for the rectangle's ends."""

    top: int
    bottom: int
    left: int
    right: int


@dataclass(frozen=True)
class BodyWarp:
    """What is fixed about the picture around one face.

    Attributes:
        field: The lattice's nodes in crop pixels, and what moves them.
        scale: Canvas pixels per crop pixel.
        luma: uint8 (2 h, 2 w), the rectangle's Y plane, enlarged.
        chroma: uint8 (h, w, 2), its U and V, enlarged.
        strips: Where the face does not cover the rectangle.
        face: Left, top, right and bottom edge of the face's square in the rectangle.
        masks: Shares of the face and of the rectangle around it in the square, float32 (square h, square w) each, for luma.
        chroma_masks: The same for chroma, half as large.
    """

    field: NodeField
    scale: float
    luma: U8
    chroma: U8
    strips: tuple[Strip, ...]
    face: tuple[int, int, int, int]
    masks: tuple[F32, F32]
    chroma_masks: tuple[F32, F32]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        masks = (*self.masks, *self.chroma_masks)
        return self.luma.nbytes + self.chroma.nbytes + sum(mask.nbytes for mask in masks)


def build_body(
    landmarks: F32,
    outline: Outline,
    y_plane: U8,
    uv_plane: U8,
    face: tuple[int, int, int, int],
    mask: F32,
) -> BodyWarp:
    """Prepare the picture around one face.

    Args:
        landmarks: float32 (468, 3), crop pixels.
        outline: Of the person; its picture is the rectangle.
        y_plane: uint8 (h, w), luma of the rectangle, even sides.
        uv_plane: uint8 (h / 2, w), interleaved U V.
        face: Left, top, right and bottom edge of the face's square in the rectangle, even.
        mask: float32 (bottom - top, right - left), share of the face, 0 along the square's edge.
    """
    height, width = y_plane.shape
    mask = np.where(mask > FULL, np.float32(1.0), mask)
    small = np.asarray(cv2.resize(mask, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA), dtype=np.float32)
    rows, columns = -(-height // CELL), -(-width // CELL)
    middle = (CELL - 1) / 2
    xs, ys = np.arange(columns) * CELL + middle, np.arange(rows) * CELL + middle
    places = np.stack(np.meshgrid(xs, ys), axis=-1) / outline.scale + outline.origin
    return BodyWarp(
        field=build_body_field(build_frame(landmarks), outline, places),
        scale=outline.scale,
        luma=_finer(y_plane),
        chroma=_finer(uv_plane.reshape(height // 2, width // 2, 2)),
        strips=_strips(height, width, _core(face, mask)),
        face=face,
        masks=(mask, np.float32(1.0) - mask),
        chroma_masks=(small, np.float32(1.0) - small),
    )


def draw_body(body: BodyWarp, deformation: Deformation, pose: Pose, face_y: U8, face_uv: U8) -> tuple[U8, U8]:
    """Draw the rectangle of one frame.

    Args:
        body: The picture around the face.
        deformation: The face's motion bases.
        pose: The head's pose in this frame, a batch of one on the CPU.
        face_y: uint8 (h, w), luma of the face's square.
        face_uv: uint8 (h / 2, w), its chroma.

    Returns:
        Luma uint8 (h, w) and chroma uint8 (h / 2, w) of the rectangle.
    """
    height, width = body.luma.shape[0] // FINER, body.luma.shape[1] // FINER
    y_plane, uv_plane = np.zeros((height, width), np.uint8), np.zeros((height // 2, width // 2, 2), np.uint8)
    still = torch.zeros(1, 1, 1, 2)
    forward = posed_displacement(body.field, deformation, still, pose)[0].numpy() * np.float32(body.scale)
    backward = _invert(np.ascontiguousarray(forward))
    for strip in body.strips:
        _draw_strip(body, strip, backward, y_plane, uv_plane)
    left, top, right, bottom = body.face
    square = y_plane[top:bottom, left:right]
    square[...] = cv2.blendLinear(face_y, square, *body.masks)
    square = uv_plane[top // 2 : bottom // 2, left // 2 : right // 2]
    square[...] = cv2.blendLinear(face_uv.reshape(square.shape), square, *body.chroma_masks)
    return y_plane, uv_plane.reshape(height // 2, width)


def _finer(plane: U8) -> U8:
    """A plane (h, w[, 2]) twice as large, texel (2 x, 2 y) exactly the plane's (x, y)."""
    matrix = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    size = (plane.shape[1] * FINER, plane.shape[0] * FINER)
    fine = cv2.warpAffine(plane, matrix, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(fine, dtype=np.uint8)


def _core(face: tuple[int, int, int, int], mask: F32) -> Strip | None:
    """The largest centred rectangle, on lattice blocks, in which the face covers everything."""
    full_rows, full_columns = np.flatnonzero(mask.max(axis=1) >= 1.0), np.flatnonzero(mask.max(axis=0) >= 1.0)
    if not len(full_rows) or not len(full_columns):
        return None
    inner = mask[full_rows[0] : full_rows[-1] + 1, full_columns[0] : full_columns[-1] + 1]
    if inner.min() < 1.0:
        return None
    left, top = face[0] + int(full_columns[0]), face[1] + int(full_rows[0])
    right, bottom = face[0] + int(full_columns[-1]) + 1, face[1] + int(full_rows[-1]) + 1
    core = Strip(-(-top // CELL) * CELL, bottom // CELL * CELL, -(-left // CELL) * CELL, right // CELL * CELL)
    return core if core.top < core.bottom and core.left < core.right else None


def _strips(height: int, width: int, core: Strip | None) -> tuple[Strip, ...]:
    """The rectangle without its core."""
    if core is None:
        return (Strip(0, height, 0, width),)
    around = (
        Strip(0, core.top, 0, width),
        Strip(core.bottom, height, 0, width),
        Strip(core.top, core.bottom, 0, core.left),
        Strip(core.top, core.bottom, core.right, width),
    )
    return tuple(strip for strip in around if strip.top < strip.bottom and strip.left < strip.right)


def _invert(forward: F32) -> F32:
    """Backward displacement b with b(q) = -forward(q + b(q)) at the nodes, canvas pixels, by fixed-point steps.

    The field stretches by less than one pixel per pixel everywhere, so every step takes the same share of the error away; away from
    the outline, where all of the head moves alike, one is enough.
    """
    rows, columns = forward.shape[:2]
    nodes = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), axis=-1).astype(np.float32)
    backward = -forward
    for _ in range(INVERSION_STEPS):
        backward = -remap_bilinear(forward, nodes + backward * np.float32(1.0 / CELL)).astype(np.float32)
    return backward


def _draw_strip(body: BodyWarp, strip: Strip, backward: F32, y_plane: U8, uv_plane: U8) -> None:
    """Sample luma and chroma of one strip."""
    rows = slice(max(strip.top // CELL - 1, 0), -(-strip.bottom // CELL) + 1)
    columns = slice(max(strip.left // CELL - 1, 0), -(-strip.right // CELL) + 1)
    part = backward[rows, columns]
    target = (slice(strip.top, strip.bottom), slice(strip.left, strip.right))
    halves = (slice(strip.top // 2, strip.bottom // 2), slice(strip.left // 2, strip.right // 2))
    if float(np.abs(part).max()) < STILL_PX:
        y_plane[target] = body.luma[::FINER, ::FINER][target]
        uv_plane[halves] = body.chroma[::FINER, ::FINER][halves]
        return
    y_plane[target] = _sample(body.luma, part, strip, (columns.start, rows.start), 1)
    uv_plane[halves] = _sample(body.chroma, part, strip, (columns.start, rows.start), 2)


def _sample(plane: U8, part: F32, strip: Strip, first: tuple[int, int], coarser: int) -> U8:
    """Sample an enlarged plane in a strip.

    Args:
        plane: Luma, or chroma where `coarser` is 2.
        part: Backward displacement of the blocks around the strip, canvas pixels.
        strip: Where.
        first: Column and row of the block that `part` begins with.
        coarser: Canvas pixels per sample.
    """
    cell = CELL // coarser
    size = (part.shape[1] * cell, part.shape[0] * cell)
    dense = cv2.resize(part, size, interpolation=cv2.INTER_LINEAR)
    x0, y0 = strip.left // coarser - first[0] * cell, strip.top // coarser - first[1] * cell
    w, h = (strip.right - strip.left) // coarser, (strip.bottom - strip.top) // coarser
    places: F32 = np.array(dense[y0 : y0 + h, x0 : x0 + w], dtype=np.float32)
    places *= np.float32(FINER / coarser)
    places[..., 0] += (np.arange(w, dtype=np.float32) + np.float32(strip.left // coarser)) * np.float32(FINER)
    places[..., 1] += ((np.arange(h, dtype=np.float32) + np.float32(strip.top // coarser)) * np.float32(FINER))[:, None]
    return np.asarray(remap_bilinear(plane, places), dtype=np.uint8)
