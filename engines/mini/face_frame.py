"""Geometry of one registered face: its own axes, its units of length, its lip lines and the seam between closed lips."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from scipy.interpolate import PchipInterpolator

from engines.face import topology
from kernels.arrays import F32, F64, U8
from kernels.sampling.remap import remap_bilinear

CLOSED_GAP = 0.04
"""Mean inner-lip gap, in mouth widths, below which the source's mouth counts as closed."""


@dataclass(frozen=True)
class FaceFrame:
    """Axes and units of a face, crop pixels, x right, y down.

    Attributes:
        points: float64 (468, 2), landmarks.
        depth: float64 (468,), in pixels, away from the viewer positive, zero at the sides of the face.
        x_axis: Unit vector towards the viewer's right along the eye line.
        y_axis: Unit vector towards the chin, perpendicular to `x_axis`.
        face_width: Distance between the sides of the face.
        face_height: Forehead top to chin.
        mouth_width: Outer corner to outer corner.
        mouth_centre: Midpoint of the outer corners.
    """

    points: F64
    depth: F64
    x_axis: F64
    y_axis: F64
    face_width: float
    face_height: float
    mouth_width: float
    mouth_centre: F64

    def to_mouth(self, xy: F64) -> tuple[F64, F64]:
        """Points (..., 2) -> u in half mouth widths (-1 right corner, 1 left corner), v in pixels below the corner line."""
        relative = xy - self.mouth_centre
        return relative @ self.x_axis / (0.5 * self.mouth_width), relative @ self.y_axis

    def from_mouth(self, u: F64, v: F64) -> F64:
        """Inverse of `to_mouth`: (...,), (...,) -> (..., 2)."""
        across = np.multiply.outer(u * (0.5 * self.mouth_width), self.x_axis)
        result: F64 = self.mouth_centre + across + np.multiply.outer(v, self.y_axis)
        return result


def build_frame(landmarks: F32) -> FaceFrame:
    """Landmarks float32 (468, 3), crop pixels -> axes and units."""
    xyz = landmarks.astype(np.float64)
    points = xyz[:, :2]
    eyes = points[topology.EYE_OUTER_LEFT] - points[topology.EYE_OUTER_RIGHT]
    corners = points[topology.CORNER_LEFT] - points[topology.CORNER_RIGHT]
    direction = eyes / np.linalg.norm(eyes) + 0.5 * corners / np.linalg.norm(corners)
    x_axis = direction / np.linalg.norm(direction)
    sides = [topology.FACE_SIDE_RIGHT, topology.FACE_SIDE_LEFT]
    return FaceFrame(
        points=points,
        depth=xyz[:, 2] - xyz[sides, 2].mean(),
        x_axis=x_axis,
        y_axis=np.array([-x_axis[1], x_axis[0]]),
        face_width=float(np.linalg.norm(points[sides[1]] - points[sides[0]])),
        face_height=float(np.linalg.norm(points[topology.CHIN] - points[topology.FOREHEAD_TOP])),
        mouth_width=float(np.linalg.norm(corners)),
        mouth_centre=(points[topology.CORNER_LEFT] + points[topology.CORNER_RIGHT]) / 2,
    )


@dataclass(frozen=True)
class LipLines:
    """Where the lips end, as functions of u (half mouth widths), v in pixels below the corner line.

    Attributes:
        u: float64 (m,), increasing, from beyond the right corner to beyond the left one.
        upper: float64 (m,), lower edge of the upper lip.
        lower: float64 (m,), upper edge of the lower lip; equal to `upper` outside the mouth and on a closed source.
        closed_source: Whether the source picture shows closed lips.
        gap: Gap of the source at the middle of the mouth, pixels; 0 on a closed source.
        corners: u of the right and of the left inner corner, where the opening ends.
    """

    u: F64
    upper: F64
    lower: F64
    closed_source: bool
    gap: float
    corners: tuple[float, float]

    def beyond(self, u: F64) -> F64:
        """How far outside the opening a place is, half mouth widths; 0 between the corners."""
        result: F64 = np.maximum(np.maximum(self.corners[0] - u, u - self.corners[1]), 0.0)
        return result

    def at(self, u: F64) -> tuple[F64, F64]:
        """Edges (upper, lower) at any u, edge values continued outside."""
        return np.interp(u, self.u, self.upper), np.interp(u, self.u, self.lower)


def build_lip_lines(frame: FaceFrame, crop: U8) -> LipLines:
    """Find the lip edges; on a closed source both are the dark seam between the lips."""
    u_up, v_up = frame.to_mouth(frame.points[list(topology.UPPER_LIP_INNER)])
    u_lo, v_lo = frame.to_mouth(frame.points[list(topology.LOWER_LIP_INNER)])
    u = np.linspace(-1.6, 1.6, 321)
    corners = (float(min(u_up[0], -0.5)), float(max(u_up[-1], 0.5)))
    inner = (u > u_up[0]) & (u < u_up[-1])
    upper = _continue_line(u, u_up, v_up)
    lower = _continue_line(u, u_lo, v_lo)
    middle = np.abs(u) < 0.35
    gap = float((lower - upper)[middle].mean())
    if gap < CLOSED_GAP * frame.mouth_width:
        seam = _dark_seam(frame, crop, u, (upper + lower) / 2)
        return LipLines(u, seam, seam, True, 0.0, corners)
    lower = np.where(inner, np.maximum(lower, upper), upper)
    return LipLines(u, upper, lower, False, gap, corners)


def _continue_line(u: F64, knots_u: F64, knots_v: F64) -> F64:
    """A lip edge through the inner contour, both outer corners and a short, flattening stretch beyond them."""
    rise = 0.25 * knots_v[[0, -1]]
    order = np.argsort(knots_u)
    xs = np.concatenate([[-1.6, -1.0], knots_u[order], [1.0, 1.6]])
    ys = np.concatenate([[-rise[0], 0.0], knots_v[order], [0.0, -rise[1]]])
    keep = np.concatenate([[True], np.diff(xs) > 1e-3])
    result: F64 = np.asarray(PchipInterpolator(xs[keep], ys[keep])(u))
    return result


def _dark_seam(frame: FaceFrame, crop: U8, u: F64, guess: F64) -> F64:
    """The darkest connected path along the mouth near `guess`, by dynamic programming over luminance."""
    reach = 0.055 * frame.mouth_width
    offsets = np.linspace(-reach, reach, 41)
    inside = np.abs(u) <= 0.96
    luma = cv2.GaussianBlur(cv2.cvtColor(crop, cv2.COLOR_RGB2GRAY), (0, 0), 0.7).astype(np.float32)
    places = frame.from_mouth(
        np.repeat(u[inside][:, None], len(offsets), 1), guess[inside][:, None] + offsets[None, :]
    ).astype(np.float32)
    cost = remap_bilinear(luma, places).astype(np.float64)
    cost = (cost - cost.min()) / max(float(np.ptp(cost)), 1.0) + 0.25 * (offsets / reach) ** 2
    total = cost.copy()
    back = np.zeros(cost.shape, np.int64)
    for i in range(1, len(total)):
        padded = np.pad(total[i - 1], 1, constant_values=np.inf)
        choices = np.stack([padded[:-2] + 0.02, padded[1:-1], padded[2:] + 0.02])
        back[i] = choices.argmin(0) - 1
        total[i] += choices.min(0)
    path = np.empty(len(total), np.int64)
    path[-1] = int(total[-1].argmin())
    for i in range(len(total) - 1, 0, -1):
        path[i - 1] = path[i] + back[i, path[i]]
    shift = np.zeros_like(u)
    shift[inside] = offsets[path]
    smooth = cv2.GaussianBlur(shift[None, :].astype(np.float64), (0, 0), 3.0, borderType=cv2.BORDER_REPLICATE)[0]
    fade = np.clip((1.25 - np.abs(u)) / 0.3, 0.0, 1.0)
    result: F64 = guess + smooth * fade
    return result
