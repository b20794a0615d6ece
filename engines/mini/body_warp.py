"""The picture around the face crop in motion: head, hair, hat and neck turn with the face, the chest breathes.

The still NV12 planes of the moving rectangle are sampled through the backward displacement of the same forward model that moves the
crop (`engines.mini.mesh_deform`), on a coarse lattice of canvas pixels. Then the face is blended in: where the crop's mask is 1
nothing of the rectangle is sampled at all.

Planes are enlarged twice beforehand (cubic): sampling them bilinearly is then as sharp as a cubic sampling of the picture, and a
picture that does not move comes back byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

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
"""Strips that move less are left as they are."""
STRIP_BLOCKS: Final = 16
"""Height of a strip, lattice blocks: low ones fit the outline closely, every one costs two calls."""
REACH_BLOCKS: Final = 2
"""How far beyond what moves a picture is drawn anew: where pixels may have come from."""


@dataclass(frozen=True)
class Strip:
    """A part of the rectangle that is sampled: even edges, on lattice blocks but for the rectangle's ends."""

    top: int
    bottom: int
    left: int
    right: int

    @property
    def blocks(self) -> tuple[slice, slice]:
        """Lattice rows and columns whose nodes are felt in the strip."""
        return (
            slice(max(self.top // CELL - 1, 0), -(-self.bottom // CELL) + 1),
            slice(max(self.left // CELL - 1, 0), -(-self.right // CELL) + 1),
        )

    def pixels(self, coarser: int) -> tuple[slice, slice]:
        """Rows and columns of the strip in a plane of `coarser` pixels per sample."""
        return (
            slice(self.top // coarser, self.bottom // coarser),
            slice(self.left // coarser, self.right // coarser),
        )


@dataclass(frozen=True)
class BodyWarp:
    """What is fixed about the picture around one face.

    Attributes:
        field: The lattice's nodes in crop pixels, and what moves them; None where nothing around the face moves.
        scale: Canvas pixels per crop pixel.
        still: The rectangle at rest: luma uint8 (h, w) and chroma uint8 (h / 2, w / 2, 2).
        luma: uint8 (2 h, 2 w), the same luma, enlarged.
        chroma: uint8 (h, w, 2), U and V, enlarged.
        places: Texels of `luma` and of `chroma` under the samples at rest, float32 (rows, columns, 2) each, whole lattice blocks.
        strips: Where something moves that the face does not cover.
        face: Left, top, right and bottom edge, in the rectangle, of the part that the face is drawn into.
        masks: Shares of the face and of the rectangle around it in that part, float32 (part h, part w) each, for luma.
        chroma_masks: The same for chroma, half as large.
    """

    field: NodeField | None
    scale: float
    still: tuple[U8, U8]
    luma: U8
    chroma: U8
    places: tuple[F32, ...]
    strips: tuple[Strip, ...]
    face: tuple[int, int, int, int]
    masks: tuple[F32, F32]
    chroma_masks: tuple[F32, F32]

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        arrays: tuple[U8 | F32, ...] = (
            *self.still,
            self.luma,
            self.chroma,
            *self.places,
            *self.masks,
            *self.chroma_masks,
        )
        return sum(array.nbytes for array in arrays)


def build_body(
    landmarks: F32,
    outline: Outline | None,
    y_plane: U8,
    uv_plane: U8,
    face: tuple[int, int, int, int],
    mask: F32,
) -> BodyWarp:
    """Prepare the picture around one face.

    Args:
        landmarks: float32 (468, 3), crop pixels.
        outline: Of the person; its picture is the rectangle. None keeps all but the face still.
        y_plane: uint8 (h, w), luma of the rectangle, even sides.
        uv_plane: uint8 (h / 2, w), interleaved U V.
        face: Left, top, right and bottom edge, in the rectangle, of the part that the face is drawn into; even.
        mask: float32 (bottom - top, right - left), share of the face, 0 along the part's edge.
    """
    height, width = y_plane.shape
    mask = np.where(mask > FULL, np.float32(1.0), mask)
    small = np.asarray(cv2.resize(mask, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA), dtype=np.float32)
    chroma = uv_plane.reshape(height // 2, width // 2, 2)
    body = BodyWarp(
        field=None,
        scale=1.0,
        still=(y_plane, chroma),
        luma=y_plane,
        chroma=chroma,
        places=(),
        strips=(),
        face=face,
        masks=(mask, np.float32(1.0) - mask),
        chroma_masks=(small, np.float32(1.0) - small),
    )
    if outline is None:
        return body
    rows, columns = -(-height // CELL), -(-width // CELL)
    middle = (CELL - 1) / 2
    xs, ys = np.arange(columns) * CELL + middle, np.arange(rows) * CELL + middle
    places = np.stack(np.meshgrid(xs, ys), axis=-1) / outline.scale + outline.origin
    field = build_body_field(build_frame(landmarks), outline, places)
    moving = (field.weight + field.shoulders + field.breath).numpy() > 0
    strips = _strips(height, width, moving, _core(face, mask))
    return replace(
        body,
        field=field,
        scale=outline.scale,
        luma=_finer(y_plane),
        chroma=_finer(chroma),
        places=tuple(_rest(rows * CELL // coarser, columns * CELL // coarser) for coarser in (1, 2)),
        strips=strips,
    )


class BodyPainter:
    """Draws consecutive frames of the rectangle; holds room for what it works out, so it is for one thread."""

    def __init__(self, body: BodyWarp) -> None:
        self._body = body
        rows, columns = (0, 0) if body.field is None else body.field.weight.shape
        self._nodes = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), axis=-1).astype(np.float32)
        self._dense = tuple(np.empty_like(places) for places in body.places)

    def draw(self, deformation: Deformation, pose: Pose, face: tuple[U8, U8], out: tuple[U8, U8]) -> None:
        """Draw the rectangle of one frame.

        Args:
            deformation: The face's motion bases.
            pose: The head's pose in this frame, a batch of one on the CPU.
            face: The face's part: luma uint8 (h, w) and chroma uint8 (h / 2, w / 2, 2).
            out: Where to write the rectangle: luma uint8 (h, w) and chroma uint8 (h / 2, w / 2, 2).
        """
        body = self._body
        for plane, still in zip(out, body.still, strict=True):
            np.copyto(plane, still)
        if body.field is not None:
            forward = posed_displacement(body.field, deformation, torch.zeros(1, 1, 1, 2), pose)[0].numpy()
            self._move(self._invert(forward * np.float32(body.scale)), out)
        left, top, right, bottom = body.face
        _blend(face[0], out[0][top:bottom, left:right], body.masks)
        _blend(face[1], out[1][top // 2 : bottom // 2, left // 2 : right // 2], body.chroma_masks)

    def _move(self, backward: F32, out: tuple[U8, U8]) -> None:
        """Draw the strips."""
        body = self._body
        for plane, source, places, dense, coarser in zip(
            out, (body.luma, body.chroma), body.places, self._dense, (1, 2), strict=True
        ):
            size = (dense.shape[1], dense.shape[0])
            cv2.resize(backward * np.float32(FINER / coarser), size, dst=dense, interpolation=cv2.INTER_LINEAR)
            np.add(dense, places, out=dense)
            for strip in body.strips:
                if float(np.abs(backward[strip.blocks]).max()) >= STILL_PX:
                    at = strip.pixels(coarser)
                    plane[at] = remap_bilinear(source, dense[at])

    def _invert(self, forward: F32) -> F32:
        """Backward displacement b with b(q) = -forward(q + b(q)) at the nodes, canvas pixels, by fixed-point steps.

        The field stretches by less than one pixel per pixel everywhere, so every step takes the same share of the error away; away
        from the outline, where all of the head moves alike, one is enough.
        """
        backward = -forward
        for _ in range(INVERSION_STEPS):
            backward = -remap_bilinear(forward, self._nodes + backward * np.float32(1.0 / CELL)).astype(np.float32)
        return backward


def _blend(over: U8, under: U8, shares: tuple[F32, F32]) -> None:
    """Mix a picture into another one, in place."""
    under[...] = cv2.blendLinear(over, under, *shares)


def _rest(height: int, width: int) -> F32:
    """Texels of an enlarged plane under the samples at rest, float32 (height, width, 2)."""
    xs, ys = np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32)
    return np.ascontiguousarray(np.stack(np.meshgrid(xs, ys), axis=-1) * np.float32(FINER))


def _finer(plane: U8) -> U8:
    """A plane (h, w[, 2]) twice as large, texel (2 x, 2 y) exactly the plane's (x, y)."""
    matrix = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    size = (plane.shape[1] * FINER, plane.shape[0] * FINER)
    fine = cv2.warpAffine(plane, matrix, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(fine, dtype=np.uint8)


def _core(face: tuple[int, int, int, int], mask: F32) -> Strip | None:
    """The largest centred rectangle, on lattice blocks, in which the face covers everything."""
    height, width = mask.shape
    ends = range(min(height, width) // 2)
    inset = next((i for i in ends if mask[i : height - i, i : width - i].min() >= 1.0), None)
    if inset is None:
        return None
    left, top, right, bottom = face[0] + inset, face[1] + inset, face[2] - inset, face[3] - inset
    core = Strip(-(-top // CELL) * CELL, bottom // CELL * CELL, -(-left // CELL) * CELL, right // CELL * CELL)
    return core if core.top < core.bottom and core.left < core.right else None


def _strips(height: int, width: int, moving: NDArray[np.bool_], core: Strip | None) -> tuple[Strip, ...]:
    """What moves in the rectangle, without its core.

    Args:
        height: Of the rectangle, pixels.
        width: Likewise.
        moving: bool (rows, columns), blocks whose node moves.
        core: What the face covers.
    """
    size = 2 * REACH_BLOCKS + 1
    wide = cv2.dilate(moving.astype(np.uint8), np.ones((size, size), np.uint8)) > 0
    tall = STRIP_BLOCKS * CELL
    edges = {0, height, *range(0, height, tall)}
    if core is not None:
        edges |= {core.top, core.bottom}
    strips = []
    for top, bottom in pairwise(sorted(edges)):
        columns = np.flatnonzero(wide[top // CELL : -(-bottom // CELL)].any(axis=0))
        if not len(columns):
            continue
        left, right = int(columns[0]) * CELL, min((int(columns[-1]) + 1) * CELL, width)
        if core is not None and core.top <= top and bottom <= core.bottom:
            strips += [Strip(top, bottom, left, core.left), Strip(top, bottom, core.right, right)]
        else:
            strips.append(Strip(top, bottom, left, right))
    return tuple(strip for strip in strips if strip.left < strip.right)
