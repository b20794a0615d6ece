"""The two lip layers: the picture above and below the mouth line, each continued past its lip's edge.

Each layer is a texture twice as fine as the crop with four channels: RGB and the signed distance to the lip's edge
(positive inside the layer), so that one sampling yields colour, an anti-aliased edge and the shadow that the lip casts
into the mouth. Beyond its edge a layer shows a mirror image of the lip, never the teeth or the other lip.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from engines.face import topology
from engines.mini.face_frame import FaceFrame, LipLines
from engines.mini.mesh_lattice import CROP, FACE_CELL, MOUTH_CELL, Lattice
from kernels.arrays import F64, U8
from kernels.sampling.remap import remap_bilinear

TEXTURE_SCALE = 2
DISTANCE_ZERO = 128.0
DISTANCE_GAIN = 6.0
"""Signed distance in crop pixels = (byte - 128) / 6."""
OPEN_INSET_PX = 0.9
"""How far inside an open source's lip outline its layers end, so that no tooth sticks to a lip."""
MOUTH_PADDING = 6
"""Blocks around the rendered mouth region in which motion may come from."""


@dataclass(frozen=True)
class MouthRegion:
    """Where the mouth is rendered.

    Attributes:
        inner: The rendered region, in crop pixels.
        padded: The region that it may draw from.
    """

    inner: Lattice
    padded: Lattice


@dataclass(frozen=True)
class TextureGrid:
    """Mouth coordinates of every texel of the padded region: crop position, u, v (all float64 (h, w))."""

    u: F64
    v: F64


def mouth_region(frame: FaceFrame) -> MouthRegion:
    """A region that holds the moving mouth in every allowed pose, clipped to the crop."""
    width = frame.mouth_width
    centre = frame.mouth_centre
    _, chin = frame.to_mouth(frame.points[topology.CHIN])
    left, right = centre[0] - 0.95 * width, centre[0] + 0.95 * width
    top, bottom = centre[1] - 0.62 * width, centre[1] + max(float(chin) + 0.40 * width, 1.0 * width)
    cell = MOUTH_CELL
    last = CROP // FACE_CELL - 1  # both lattices share the region's edges
    x0, y0 = 2 * max(int(left) // FACE_CELL, 1), 2 * max(int(top) // FACE_CELL, 1)
    x1, y1 = 2 * min(int(right) // FACE_CELL + 1, last), 2 * min(int(bottom) // FACE_CELL + 1, last)
    x1, y1 = max(x1, x0 + 4), max(y1, y0 + 4)
    inner = Lattice(x0 * cell, y0 * cell, x1 - x0, y1 - y0, cell)
    px0, py0 = max(x0 - MOUTH_PADDING, 0), max(y0 - MOUTH_PADDING, 0)
    px1, py1 = min(x1 + MOUTH_PADDING, CROP // cell), min(y1 + MOUTH_PADDING, CROP // cell)
    return MouthRegion(inner, Lattice(px0 * cell, py0 * cell, px1 - px0, py1 - py0, cell))


def finer_texture(crop: U8) -> U8:
    """Crop (512, 512, 3) -> (1024, 1024, 3) with texel (2x, 2y) exactly the crop's pixel (x, y)."""
    matrix = np.array([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]])
    size = (crop.shape[1] * TEXTURE_SCALE, crop.shape[0] * TEXTURE_SCALE)
    fine = cv2.warpAffine(crop, matrix, size, flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(fine, dtype=np.uint8)


def texture_grid(frame: FaceFrame, region: Lattice) -> TextureGrid:
    """Mouth coordinates of the texels of a region."""
    xs = region.x + np.arange(region.columns * region.cell * TEXTURE_SCALE) / TEXTURE_SCALE
    ys = region.y + np.arange(region.rows * region.cell * TEXTURE_SCALE) / TEXTURE_SCALE
    u, v = frame.to_mouth(np.stack(np.meshgrid(xs, ys), axis=-1))
    return TextureGrid(u, v)


def lip_layers(frame: FaceFrame, lips: LipLines, fine: U8, grid: TextureGrid) -> tuple[U8, U8]:
    """Upper and lower lip textures, uint8 (h, w, 4) each: RGB and coded signed distance."""
    u, v = grid.u, grid.v
    upper_edge, lower_edge = lips.at(u)
    beyond = lips.beyond(u)
    inset = 0.0 if lips.closed_source else OPEN_INSET_PX
    keep = (1.0 if lips.closed_source else 0.0) + 60.0 * beyond
    thick_upper = _thickness(frame, u, topology.UPPER_LIP_OUTER, upper_edge, -1.0)
    thick_lower = _thickness(frame, u, topology.LOWER_LIP_OUTER, lower_edge, 1.0)

    inside_upper = (upper_edge - inset) - v
    past = np.maximum(-inside_upper - keep, 0.0)
    mirrored = np.where(past > 0, upper_edge - inset + keep - _bounce(past, thick_upper), v)
    upper = _sample(frame, fine, u, mirrored)
    upper_distance = inside_upper / (1.0 + 9.0 * beyond)

    inside_lower = v - (lower_edge + inset)
    past = np.maximum(-inside_lower - keep, 0.0)
    mirrored = np.where(past > 0, lower_edge + inset - keep + _bounce(past, thick_lower), v)
    lower = _sample(frame, fine, u, mirrored)
    lower_distance = inside_lower + 60.0 * beyond
    return _with_distance(upper, upper_distance), _with_distance(lower, lower_distance)


def calm_corners(lips: LipLines, part: U8, grid: TextureGrid, mouth_width: float) -> U8:
    """Skin in place of the dark line that a smile leaves beyond the lips' corners, RGBA (h, w, 4) on the texel grid."""
    line = np.mean(np.stack(lips.at(grid.u)), axis=0)
    across = np.abs(grid.u)
    side = np.clip((across - 0.80) / 0.16, 0.0, 1.0) * np.clip((1.5 - across) / 0.25, 0.0, 1.0)
    near = np.exp(-(((grid.v - line) / (0.055 * mouth_width)) ** 2))
    mask = ((across > 0.84) & (across < 1.4) & (np.abs(grid.v - line) < 0.075 * mouth_width)).astype(np.uint8) * 255
    small = (part.shape[1] // 2, part.shape[0] // 2)
    filled = cv2.inpaint(
        cv2.resize(part, small, interpolation=cv2.INTER_AREA),
        cv2.resize(mask, small, interpolation=cv2.INTER_NEAREST),
        5.0,
        cv2.INPAINT_TELEA,
    )
    filled = cv2.GaussianBlur(
        cv2.resize(filled, (part.shape[1], part.shape[0]), interpolation=cv2.INTER_CUBIC), (0, 0), 2.0
    )
    alpha = np.clip(np.round(255.0 * side * near), 0, 255).astype(np.uint8)
    return np.concatenate([np.asarray(filled, dtype=np.uint8), alpha[..., None]], axis=-1)


def _thickness(frame: FaceFrame, u: F64, outer: tuple[int, ...], edge: F64, sign: float) -> F64:
    """Lip thickness at every texel, pixels, at least 2."""
    lip_u, lip_v = frame.to_mouth(frame.points[list(outer)])
    order = np.argsort(lip_u)
    result: F64 = np.maximum(sign * (np.interp(u, lip_u[order], lip_v[order]) - edge), 2.0)
    return result


def _bounce(distance: F64, thickness: F64) -> F64:
    """Reflect a distance back and forth inside 70 % of the lip."""
    limit = 0.7 * thickness
    phase = np.mod(distance, 2 * limit)
    result: F64 = np.minimum(phase, 2 * limit - phase)
    return result


def _sample(frame: FaceFrame, fine: U8, u: F64, v: F64) -> U8:
    places = (frame.from_mouth(u, v) * TEXTURE_SCALE).astype(np.float32)
    sampled: U8 = remap_bilinear(fine, places)
    return sampled


def _with_distance(rgb: U8, distance: F64) -> U8:
    coded = np.clip(np.round(DISTANCE_ZERO + DISTANCE_GAIN * distance), 0, 255).astype(np.uint8)
    return np.concatenate([rgb, coded[..., None]], axis=-1)
