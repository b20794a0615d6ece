"""What is fixed about one eye: its margins, the eyeball behind the lids, the skin that a lid unrolls; see `eyelids`."""

from __future__ import annotations

from dataclasses import dataclass, fields

import cv2
import numpy as np
import torch
from scipy.interpolate import PchipInterpolator

from engines.face import topology
from engines.mini.easing import smoothstep
from engines.mini.face_frame import FaceFrame
from engines.mini.lid_skin import Lids, in_front, lid_sheet
from engines.mini.mouth_layers import TEXTURE_SCALE
from kernels.arrays import F64, U8
from kernels.sampling.remap import remap_bilinear


@dataclass(frozen=True)
class EyePatch:
    """Everything fixed about one eye; texels of the fine texture, float32 unless said otherwise.

    Attributes:
        box: int64 (4,): x, y, width, height of the patch in the fine texture.
        source: uint8 (1, h, w, 3), the source picture.
        source_planar: (3, h, w), the same.
        eyeball: uint8 (1, h, w, 3), the eyeball, continued behind the lids.
        sheet: (3, h, w), the lid's skin.
        sheet_ramp: (h, w), how far the sheet may replace the source above the resting margin.
        front: (h, w), share of the source that stays before everything: spectacle frames, reflections; (0, 0) where there is none.
        upper: (w,), row of the upper margin at rest.
        opening: (w,), lower margin minus upper margin.
        sight: (h, w), share of the eyeball that shows while the lids are at rest.
        sight_rows: int64 (2,): first row in which it shows, and the one after the last.
        iris: (h, w), share of the gaze that each texel follows.
        taper: (w,), 0 at the eye's corners, 1 in between.
        units: (2,), texels per unit of gaze (x, y).
        strip: (3,), thickness of the lash strip above and below the margin, greatest height of the opening.
    """

    box: torch.Tensor
    source: torch.Tensor
    source_planar: torch.Tensor
    eyeball: torch.Tensor
    sheet: torch.Tensor
    sheet_ramp: torch.Tensor
    front: torch.Tensor
    upper: torch.Tensor
    opening: torch.Tensor
    sight: torch.Tensor
    sight_rows: torch.Tensor
    iris: torch.Tensor
    taper: torch.Tensor
    units: torch.Tensor
    strip: torch.Tensor

    def to(self, device: torch.device) -> EyePatch:
        """The same patch on another device; whole numbers stay on the CPU."""
        parts = {f.name: getattr(self, f.name) for f in fields(self)}
        return EyePatch(**{k: v if v.dtype == torch.int64 else v.to(device) for k, v in parts.items()})


def build_eye(frame: FaceFrame, fine: U8, *, right: bool) -> EyePatch:
    """Prepare one eye from the fine texture (1024, 1024, 3)."""
    upper_ids = topology.RIGHT_EYE_UPPER if right else topology.LEFT_EYE_UPPER
    lower_ids = topology.RIGHT_EYE_LOWER if right else topology.LEFT_EYE_LOWER
    brow_ids = (
        (70, 63, 105, 66, 107, 46, 53, 52, 65, 55) if right else (336, 296, 334, 293, 300, 285, 295, 282, 283, 276)
    )
    upper_xy = frame.points[list(upper_ids)] * TEXTURE_SCALE
    lower_xy = frame.points[list(lower_ids)] * TEXTURE_SCALE
    brow_y = float(np.sort(frame.points[list(brow_ids), 1])[-5:].mean()) * TEXTURE_SCALE
    x_min, x_max = float(upper_xy[0, 0]), float(upper_xy[-1, 0])
    span = max(x_max - x_min, 8.0)
    tall = max(float((lower_xy[:, 1] - upper_xy[:, 1]).max()), 3.0)
    room = max(float(upper_xy[:, 1].min()) - brow_y, 0.25 * tall + 4.0)
    top = float(upper_xy[:, 1].min()) - 0.65 * room - 0.2 * tall
    x0, y0 = (int(max(edge, 0)) // TEXTURE_SCALE * TEXTURE_SCALE for edge in (x_min - 0.1 * span, top))
    x1 = int(min(x_max + 0.1 * span, fine.shape[1]))
    y1 = int(min(float(lower_xy[:, 1].max()) + 1.05 * tall, fine.shape[0]))
    patch = fine[y0:y1, x0:x1].astype(np.float64)
    height, width = patch.shape[:2]
    columns = np.arange(width, dtype=np.float64)
    upper = _margin(upper_xy - (x0, y0), columns)
    lower = np.maximum(_margin(lower_xy - (x0, y0), columns), upper)
    opening = lower - upper
    rows = np.arange(height, dtype=np.float64)[:, None]
    lid_room = np.maximum(upper - (brow_y - y0), 0.25 * tall + 4.0)
    taper = smoothstep(0.05, 0.45, opening / tall)
    ramp = smoothstep(0.0, 1.0, (rows - (upper - 0.60 * lid_room)) / (0.34 * lid_room)) * taper
    iris_x, iris_y, radius = _find_iris(patch, upper, lower, span)
    distance = np.hypot(columns[None, :] - iris_x, rows - iris_y) / radius
    iris = 1.0 - smoothstep(1.0, 2.1, distance)
    crease = 0.15 * np.exp(-(((rows - (upper - 0.42 * lid_room)) / (0.10 * lid_room + 1.0)) ** 2)) * taper
    middle = (columns - (x_min + x_max) / 2 + x0) / (0.5 * span)
    lids = Lids(upper, lower, lid_room, tall)
    skin = lid_sheet(patch, lids)
    sheet = skin * ((1.0 - 0.09 * middle**2) * (1.0 - crease))[..., None]

    strip = np.array([max(0.26 * tall, 3.0), max(0.12 * tall, 1.5), tall])
    front = in_front(patch, skin, lids, float(strip[0]))
    sight = _sight(rows, upper, opening, strip)
    seen = np.flatnonzero(sight.max(axis=1) > 0)

    def tensor(value: F64) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(value, dtype=np.float32))

    return EyePatch(
        box=torch.tensor([x0, y0, width, height]),
        source=_bytes(patch),
        source_planar=tensor(patch.transpose(2, 0, 1)),
        eyeball=_bytes(_extend_eyeball(patch, upper, lower, distance)),
        sheet=tensor(sheet.transpose(2, 0, 1)),
        sheet_ramp=tensor(ramp),
        front=tensor(front if front.max() > 0.0 else np.zeros((0, 0))),
        upper=tensor(upper),
        opening=tensor(opening),
        sight=tensor(sight),
        sight_rows=torch.tensor([int(seen[0]), int(seen[-1]) + 1] if len(seen) else [0, 0]),
        iris=tensor(iris),
        taper=tensor(taper),
        units=tensor(np.array([span, span])),
        strip=tensor(strip),
    )


def _sight(rows: F64, upper: F64, opening: F64, strip: F64) -> F64:
    """Share of the eyeball between lids at rest, behind the lashes; `engines.mini.eyelids.render_eye` has it for moving ones."""
    above = upper - rows
    lashes = (1.0 - smoothstep(0.0, 1.0, (above / strip[0] - 0.45) / 0.55)) * smoothstep(
        0.0, 1.0, 1.0 + above / strip[1]
    )
    top = np.clip(0.5 - above / 1.6, 0.0, 1.0)
    bottom = np.clip((upper + opening - rows) / 1.6 + 0.5, 0.0, 1.0) * smoothstep(0.0, 1.0, opening * 0.25)
    result: F64 = top * bottom * (1.0 - lashes)
    return result


def _margin(knots: F64, columns: F64) -> F64:
    """Lid margin row for every column; level outside the corners."""
    order = np.argsort(knots[:, 0])
    xs, ys = knots[order, 0], knots[order, 1]
    keep = np.concatenate([[True], np.diff(xs) > 0.05])
    result: F64 = np.asarray(PchipInterpolator(xs[keep], ys[keep])(np.clip(columns, xs[0], xs[-1])))
    return result


def _find_iris(patch: F64, upper: F64, lower: F64, span: float) -> tuple[float, float, float]:
    """Centre and radius of the iris: the darkest disc of 0.2 eye widths inside the opening."""
    height, width = patch.shape[:2]
    rows = np.arange(height)[:, None]
    radius = 0.20 * span
    inside = ((rows >= upper) & (rows <= lower)).astype(np.float64)
    dark = (255.0 - patch.mean(-1)) * inside
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * int(radius) + 1,) * 2).astype(np.float64)
    covered = cv2.filter2D(inside, -1, disc, borderType=cv2.BORDER_CONSTANT)
    score = cv2.filter2D(dark, -1, disc, borderType=cv2.BORDER_CONSTANT) / np.maximum(covered, 0.35 * disc.sum())
    columns = np.arange(width)[None, :]
    centre_x = float((np.arange(width) * (lower - upper)).sum() / max((lower - upper).sum(), 1e-6))
    score = score * np.exp(-(((columns - centre_x) / (0.28 * span)) ** 2))
    middle = (upper + lower) / 2
    score = np.where(np.abs(rows - middle) < 0.2 * (lower - upper) + 1.0, score, -1.0)
    y, x = np.unravel_index(int(score.argmax()), score.shape)
    return float(x), float(y), radius


def _extend_eyeball(patch: F64, upper: F64, lower: F64, iris_distance: F64) -> F64:
    """The opening's colours continued behind the lids: mirrored, and sclera where the mirror would repeat the iris."""
    height, width = patch.shape[:2]
    rows = np.repeat(np.arange(height, dtype=np.float64)[:, None], width, 1)
    inset = 0.10 * float((lower - upper).max())  # lashes and the edge of the lid stay behind
    top, bottom = upper + 1.0 + inset, np.maximum(lower - 1.0, upper + 2.0 + inset)
    mirrored = np.where(rows < top, np.minimum(2 * top - rows, bottom), rows)
    mirrored = np.where(rows > bottom + 2.0, np.maximum(2 * bottom + 2.0 - rows, top), mirrored)
    columns = np.repeat(np.arange(width, dtype=np.float64)[None, :], height, 0)
    places = np.stack([columns, mirrored], axis=-1).astype(np.float32)
    result: F64 = remap_bilinear(patch.astype(np.float32), places).astype(np.float64)
    white = (rows > upper + 2) & (rows < lower - 2) & (iris_distance > 1.15)
    if not white.any():
        return result
    luma = patch.mean(-1)
    bright = white & (luma >= np.percentile(luma[white], 50))
    sclera = np.median(patch[bright], axis=0) * 0.92
    hidden = smoothstep(0.0, 2.5, rows - (bottom + 0.5)) * smoothstep(0.96, 1.12, iris_distance)
    result = result * (1 - hidden[..., None]) + sclera * hidden[..., None]
    return result


def _bytes(picture: F64) -> torch.Tensor:
    return torch.from_numpy(np.clip(np.round(picture), 0, 255).astype(np.uint8))[None].contiguous()
