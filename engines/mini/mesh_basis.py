"""Precompute the motion bases of one face: splines through its handles, its depth, and how far each place follows the head."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

import cv2
import numpy as np
import torch

from engines.face import topology
from engines.mini.face_frame import FaceFrame, LipLines
from engines.mini.mesh_deform import Deformation, NodeField
from engines.mini.mesh_handles import COEFFICIENTS, HandleBuilder, Handles
from engines.mini.mesh_lattice import CROP, FACE_CELL, Lattice
from engines.mini.outline import Outline, Shares
from engines.mini.thin_plate import thin_plate_matrix
from kernels.arrays import F32, F64
from kernels.sampling.remap import remap_bilinear

COMMON_SMOOTHING: Final = 3e-6
LIP_SMOOTHING: Final = 1e-8
PIVOT_BELOW: Final = 0.27
PIVOT_BEHIND: Final = 0.20
"""Where a head turns: on its neck. Face heights below the middle of the face, face widths behind its sides."""
SIDES_BEHIND: Final = 0.22
"""Depth of the head half a face beside it, in face widths behind its sides."""
CROWN_BEHIND: Final = -0.30
"""The same above the forehead: in front of them."""
NOSE_GIVE: Final = 1.4
"""How far up the upper lip's motion fades out, relative to the base of the nose."""


def build_deformation(frame: FaceFrame, lips: LipLines, mouth: Lattice, outline: Outline | None = None) -> Deformation:
    """Solve the splines of one face (about 0.1 s).

    Args:
        frame: Axes and units.
        lips: Lip edges.
        mouth: The padded mouth region.
        outline: Of the person, where the picture around the crop moves too; None keeps the crop's border still.
    """
    builder = HandleBuilder(frame, lips)
    common, upper, lower = builder.common(), builder.upper_lip(), builder.lower_lip()
    whole = Lattice(0, 0, CROP // FACE_CELL, CROP // FACE_CELL, FACE_CELL)
    face_basis = _common_basis(common, whole.nodes().reshape(-1, 2))
    mouth_nodes = mouth.nodes().reshape(-1, 2)
    mouth_basis = _common_basis(common, mouth_nodes)
    upper_basis = mouth_basis + _lip_residual(frame, common, upper, mouth_nodes, upper_side=True)
    lower_basis = mouth_basis + _lip_residual(frame, common, lower, mouth_nodes, upper_side=False)
    used = np.flatnonzero(np.abs(np.concatenate([face_basis, upper_basis, lower_basis])).max((0, 1)) > 1e-6)

    def pack(basis: F64) -> torch.Tensor:
        return torch.from_numpy(basis[..., used].transpose(2, 0, 1).reshape(len(used), -1).astype(np.float32).copy())

    middle = frame.points[list(topology.FACE_OVAL)].mean(0)
    pivot = np.append(middle + PIVOT_BELOW * frame.face_height * frame.y_axis, PIVOT_BEHIND * frame.face_width)
    depth = _Depth(frame)
    share = _still_border(frame) if outline is None else partial(outline.shares, frame)
    return Deformation(
        face=_node_field(whole.nodes(), share, depth),
        mouth=_node_field(mouth.nodes(), share, depth),
        face_basis=pack(face_basis),
        upper_basis=pack(upper_basis),
        lower_basis=pack(lower_basis),
        jaw_basis=pack(builder.jaw()[None]),
        used=torch.from_numpy(used),
        pivot=torch.from_numpy(pivot.astype(np.float32)),
        face_width=torch.tensor([frame.face_width], dtype=torch.float32),
        mouth_depth=torch.tensor([frame.depth[[13, 14, 78, 308]].mean()], dtype=torch.float32),
        mouth_frame=torch.from_numpy(_mouth_frame(frame)),
        mouth_line=torch.from_numpy(((lips.upper + lips.lower) / 2).astype(np.float32)),
    )


def build_body_field(frame: FaceFrame, outline: Outline, places: F64) -> NodeField:
    """The node field of places (rows, columns, 2) around the crop, in crop pixels; the same formula as in the crop."""
    return _node_field(places, partial(outline.shares, frame), _Depth(frame))


def _mouth_frame(frame: FaceFrame) -> F32:
    rows = np.stack([frame.x_axis / (0.5 * frame.mouth_width), frame.y_axis])
    return np.concatenate([rows, -(rows @ frame.mouth_centre)[:, None]], axis=1).astype(np.float32)


def _border_window(points: F64) -> F64:
    """0 on the crop's border, 1 from 40 px inside (16 px at the bottom, where the neck is already still), smooth; (n,)."""
    ends = np.minimum(points, CROP - 1 - points) - FACE_CELL
    ends[:, 1] *= np.where(points[:, 1] > CROP / 2, 2.5, 1.0)
    distance = ends.min(-1)
    t = np.clip(distance / 40.0, 0.0, 1.0)
    result: F64 = t * t * (3 - 2 * t)
    return result


def _common_basis(common: Handles, points: F64) -> F64:
    """Expression displacement without the lips' own residual, (n, 2, 64)."""
    edge = np.linspace(0, CROP - 1, 9)
    border = np.array([(x, y) for x in edge for y in edge if x in (0, CROP - 1) or y in (0, CROP - 1)])
    handles = np.concatenate([common.points, border])
    values = np.concatenate([common.motion, np.zeros((len(border), 2, COEFFICIENTS))])
    basis = np.einsum("qh,hdc->qdc", thin_plate_matrix(handles, points, COMMON_SMOOTHING), values)
    result: F64 = basis * _border_window(points)[:, None, None]
    return result


def _lip_residual(frame: FaceFrame, common: Handles, lip: Handles, points: F64, *, upper_side: bool) -> F64:
    """What one lip adds to the common field, fading to zero on an ellipse around the mouth; (n, 2, 64)."""
    half = frame.mouth_width / 2
    _, nose_v = frame.to_mouth(frame.points[list(topology.NOSE_BASE)])
    _, chin_v = frame.to_mouth(frame.points[topology.CHIN])
    _, lip_v = frame.to_mouth(lip.points)
    if upper_side:
        top, bottom = NOSE_GIVE * min(float(nose_v.mean()), float(lip_v.min()) - 0.12 * half), 1.5 * half
    else:
        top, bottom = -1.1 * half, max(0.86 * float(chin_v), float(lip_v.max()) + 0.2 * half)
    reach = 1.42
    angle = np.linspace(0, 2 * np.pi, 29)[:-1]
    ring_v = np.where(np.sin(angle) < 0, -np.sin(angle) * top, np.sin(angle) * bottom)
    ring = frame.from_mouth(np.cos(angle) * reach, ring_v)
    residual = lip.motion - _common_basis(common, lip.points)
    # the mouth's surroundings that both lips share stay where the common field puts them
    common_u, common_v = frame.to_mouth(common.points)
    shared = (np.abs(common_u) > 0.93) & (np.abs(common_u) < reach) & (np.abs(common_v) < 0.9 * half)
    still = np.concatenate([ring, common.points[shared]])
    handles = np.concatenate([lip.points, still])
    values = np.concatenate([residual, np.zeros((len(still), 2, COEFFICIENTS))])
    field = np.einsum("qh,hdc->qdc", thin_plate_matrix(handles, points, LIP_SMOOTHING), values)
    u, v = frame.to_mouth(points)
    radius = np.hypot(u / reach, np.where(v < 0, v / top, v / bottom))
    fade = np.clip((1.06 - radius) / 0.3, 0.0, 1.0)
    result: F64 = field * (fade * fade * (3 - 2 * fade))[:, None, None]
    return result


def _weight_image(frame: FaceFrame) -> F32:
    """Share of the head's motion for every crop pixel, float32 (512, 512)."""
    oval = frame.points[list(topology.FACE_OVAL)]
    outside = np.full((CROP, CROP), 255, np.uint8)
    cv2.fillPoly(outside, [np.round(oval).astype(np.int32)], 0)
    distance = cv2.distanceTransform(outside, cv2.DIST_L2, 5)
    ys, xs = np.mgrid[0:CROP, 0:CROP].astype(np.float32)
    edge = np.maximum(np.minimum(np.minimum(xs, CROP - 1 - xs), np.minimum(ys, CROP - 1 - ys)) - 1.5 * FACE_CELL, 0.0)
    ratio = edge / (edge + 0.55 * distance + 1e-6)
    down = (xs - frame.points[topology.CHIN, 0]) * frame.y_axis[0] + (
        ys - frame.points[topology.CHIN, 1]
    ) * frame.y_axis[1]
    below = np.clip(down / (0.25 * frame.face_height) + 0.6, 0.0, 1.0)
    # at the sides of the face the hair follows the head; below it the neck gives way evenly, down to still shoulders
    hair = ratio * ratio * (3 - 2 * ratio)
    neck = edge / (edge + 1.15 * distance + 1e-6)
    weight = hair * (1 - below) + neck * below
    smooth = cv2.GaussianBlur(weight.astype(np.float32), (0, 0), 0.05 * frame.face_width)
    gate = np.clip(edge / 24.0, 0.0, 1.0)
    return np.asarray(smooth * gate * gate * (3 - 2 * gate), dtype=np.float32)


class _Depth:
    """Smooth depth of the head anywhere in the crop."""

    def __init__(self, frame: FaceFrame) -> None:
        ids = sorted({*topology.FACE_OVAL, *topology.NOSE, *topology.JAW_WEIGHTS, *topology.DEPTH_LANDMARKS})
        centre = frame.points.mean(0)
        oval = frame.points[list(topology.FACE_OVAL)]
        ring = centre + 1.5 * (oval - centre)
        far = SIDES_BEHIND * frame.face_width
        # hair and hat above the forehead are as far in front as it is; beside the face the head curves away
        up = np.clip((centre - oval) @ frame.y_axis / (0.5 * frame.face_height), 0.0, 1.0) ** 2
        behind = far + up * (CROWN_BEHIND * frame.face_width - far)
        self._handles = np.concatenate([frame.points[ids], ring])
        self._values = np.concatenate([frame.depth[ids], behind])
        self._limits = (float(frame.depth.min()), far)

    def __call__(self, points: F64) -> F64:
        result: F64 = np.clip(thin_plate_matrix(self._handles, points, 1e-2) @ self._values, *self._limits)
        return result


def _still_border(frame: FaceFrame) -> Callable[[F64], Shares]:
    """Shares that keep the crop's border where it is: nothing is known of what lies around it."""
    weight = _weight_image(frame)

    def shares(nodes: F64) -> Shares:
        none = np.zeros(nodes.shape[:-1], np.float32)
        head = np.asarray(remap_bilinear(weight, nodes.astype(np.float32)), dtype=np.float32)
        return Shares(head, none, none)

    return shares


def _node_field(nodes: F64, share: Callable[[F64], Shares], depth: _Depth) -> NodeField:
    shares = share(nodes)
    return NodeField(
        nodes=torch.from_numpy(nodes.astype(np.float32)),
        depth=torch.from_numpy(depth(nodes.reshape(-1, 2)).reshape(nodes.shape[:2]).astype(np.float32)),
        weight=torch.from_numpy(shares.head),
        shoulders=torch.from_numpy(shares.shoulders),
        breath=torch.from_numpy(shares.breath),
    )
