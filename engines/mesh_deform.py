"""Motion -> displacement lattices of one face: expression by a linear basis, head pose by rotating each node at its own depth.

Forward model. A source point p (crop pixels, depth z) goes to

    p + e(p) + w(p) * (R(p + e(p), z(p)) - (p + e(p)))

with e = coefficients @ basis (expression) and R the rotation, scale and shift of the head; w falls smoothly from 1 on the face to
exactly 0 at the crop's border, so the border never moves. Rendering needs the inverse: `invert` solves it on the lattice by a few
Newton steps. Around the mouth there are two such fields on a finer lattice: the upper lip's and the lower lip's. They differ only between
the corners: opening the mouth is a cut, not a stretch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import cv2
import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray

from engines import mesh_topology as topology
from engines.face_frame import FaceFrame, LipLines
from engines.mesh_handles import COEFFICIENTS, HandleBuilder, Handles
from engines.thin_plate import thin_plate_matrix

F64 = NDArray[np.float64]

CROP = 512
FACE_CELL = 8
MOUTH_CELL = 4
INVERSION_STEPS = 4
MAX_STEP_PX = 12.0
COMMON_SMOOTHING, LIP_SMOOTHING = 3e-6, 1e-8


@dataclass(frozen=True)
class Lattice:
    """A rectangle of the crop covered by `cell` x `cell` blocks, one node at each block's centre.

    Attributes:
        x: Left edge, crop pixels.
        y: Top edge.
        columns: Blocks across.
        rows: Blocks down.
        cell: Block side in pixels.
    """

    x: int
    y: int
    columns: int
    rows: int
    cell: int

    def nodes(self) -> F64:
        """Node positions, float64 (rows, columns, 2), crop pixels."""
        half = (self.cell - 1) / 2
        xs = self.x + np.arange(self.columns) * self.cell + half
        ys = self.y + np.arange(self.rows) * self.cell + half
        return np.stack(np.meshgrid(xs, ys), axis=-1)


@dataclass(frozen=True)
class NodeField:
    """What one lattice needs to be posed.

    Attributes:
        nodes: float32 (rows, columns, 2), crop pixels.
        depth: float32 (rows, columns), pixels away from the viewer.
        weight: float32 (rows, columns), share of the head's motion.
    """

    nodes: torch.Tensor
    depth: torch.Tensor
    weight: torch.Tensor


@dataclass(frozen=True)
class Deformation:
    """The precomputed motion of one face; all tensors float32.

    Attributes:
        face: Node field of the whole crop.
        mouth: Node field of the padded mouth region.
        face_basis: (k, 64 * 64 * 2).
        upper_basis: (k, rows * columns * 2), mouth region, upper-lip side.
        lower_basis: The same for the lower-lip side.
        jaw_basis: (k, 2), displacement of the jaw bone.
        used: int64 (k,), the coefficients that move anything.
        pivot: (3,), centre of the head's rotation, pixels.
        face_width: (1,), unit of translation, pixels.
        mouth_depth: (1,), depth of the lips, pixels.
        mouth_frame: (2, 3), affine map from crop pixels to (u, v): half mouth widths across, pixels down.
        mouth_line: (m,), v of the line between the lips for u = -1.6..1.6.
    """

    face: NodeField
    mouth: NodeField
    face_basis: torch.Tensor
    upper_basis: torch.Tensor
    lower_basis: torch.Tensor
    jaw_basis: torch.Tensor
    used: torch.Tensor
    pivot: torch.Tensor
    face_width: torch.Tensor
    mouth_depth: torch.Tensor
    mouth_frame: torch.Tensor
    mouth_line: torch.Tensor


def build_deformation(frame: FaceFrame, lips: LipLines, mouth: Lattice) -> Deformation:
    """Solve the splines of one face (about 0.1 s)."""
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

    pivot = np.append(frame.points[topology.FACE_OVAL, :].mean(0) + 0.18 * frame.face_height * frame.y_axis, 0.15 * frame.face_width)
    weight, depth = _weight_image(frame), _depth_function(frame)
    return Deformation(
        face=_node_field(whole, weight, depth),
        mouth=_node_field(mouth, weight, depth),
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


def _mouth_frame(frame: FaceFrame) -> NDArray[np.float32]:
    rows = np.stack([frame.x_axis / (0.5 * frame.mouth_width), frame.y_axis])
    return np.concatenate([rows, -(rows @ frame.mouth_centre)[:, None]], axis=1).astype(np.float32)


def _border_window(points: F64) -> F64:
    """0 on the crop's border, 1 from 40 px inside, smooth; (n,)."""
    distance = np.minimum(points, CROP - 1 - points).min(-1) - FACE_CELL
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
    lip_u, lip_v = frame.to_mouth(lip.points)
    if upper_side:
        top, bottom = min(float(nose_v.mean()), float(lip_v.min()) - 0.12 * half), 1.5 * half
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


def _weight_image(frame: FaceFrame) -> NDArray[np.float32]:
    """Share of the head's motion for every crop pixel, float32 (512, 512)."""
    oval = frame.points[list(topology.FACE_OVAL)]
    outside = np.full((CROP, CROP), 255, np.uint8)
    cv2.fillPoly(outside, [np.round(oval).astype(np.int32)], 0)
    distance = cv2.distanceTransform(outside, cv2.DIST_L2, 5)
    ys, xs = np.mgrid[0:CROP, 0:CROP].astype(np.float32)
    edge = np.maximum(np.minimum(np.minimum(xs, CROP - 1 - xs), np.minimum(ys, CROP - 1 - ys)) - 1.5 * FACE_CELL, 0.0)
    ratio = edge / (edge + 0.55 * distance + 1e-6)
    weight = ratio * ratio * (3 - 2 * ratio)
    down = (xs - frame.points[topology.CHIN, 0]) * frame.y_axis[0] + (ys - frame.points[topology.CHIN, 1]) * frame.y_axis[1]
    neck = np.clip(1.0 - (down + 0.10 * frame.face_height) / (0.62 * frame.face_height), 0.0, 1.0)
    weight = weight * (neck * neck * (3 - 2 * neck))
    smooth = cv2.GaussianBlur(weight.astype(np.float32), (0, 0), 0.05 * frame.face_width)
    gate = np.clip(edge / 24.0, 0.0, 1.0)
    return np.asarray(smooth * gate * gate * (3 - 2 * gate), dtype=np.float32)


class _Depth:
    """Smooth depth of the head anywhere in the crop."""

    def __init__(self, frame: FaceFrame) -> None:
        ids = sorted({*topology.FACE_OVAL, *topology.NOSE, *topology.JAW_WEIGHTS, 33, 133, 263, 362, 61, 291, 0, 17, 205, 425, 151, 9, 50, 280})
        centre = frame.points.mean(0)
        oval = frame.points[list(topology.FACE_OVAL)]
        ring = centre + 1.5 * (oval - centre)
        far = 0.22 * frame.face_width
        self._handles = np.concatenate([frame.points[ids], ring])
        self._values = np.concatenate([frame.depth[ids], np.full(len(ring), far)])
        self._limits = (float(frame.depth.min()), far)

    def __call__(self, points: F64) -> F64:
        result: F64 = np.clip(thin_plate_matrix(self._handles, points, 1e-2) @ self._values, *self._limits)
        return result


def _depth_function(frame: FaceFrame) -> _Depth:
    return _Depth(frame)


def _node_field(lattice: Lattice, weight: NDArray[np.float32], depth: _Depth) -> NodeField:
    nodes = lattice.nodes()
    flat = nodes.reshape(-1, 2)
    sampled = cv2.remap(weight, nodes.astype(np.float32), None, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return NodeField(
        nodes=torch.from_numpy(nodes.astype(np.float32)),
        depth=torch.from_numpy(depth(flat).reshape(nodes.shape[:2]).astype(np.float32)),
        weight=torch.from_numpy(np.asarray(sampled, dtype=np.float32)),
    )


@dataclass(frozen=True)
class Pose:
    """Head pose of a batch: rotation (n, 3, 3), shift (n, 2) in pixels, scale (n,)."""

    rotation: torch.Tensor
    shift: torch.Tensor
    scale: torch.Tensor


def build_pose(deformation: Deformation, angles_deg: torch.Tensor, translation: torch.Tensor, scale: torch.Tensor) -> Pose:
    """Pose from pitch, yaw, roll (n, 3) in degrees, translation (n, 3) in face widths and scale (n,)."""
    pitch, yaw, roll = (angles_deg * (math.pi / 180.0)).unbind(-1)
    cp, sp, cy, sy, cr, sr = pitch.cos(), pitch.sin(), yaw.cos(), yaw.sin(), roll.cos(), roll.sin()
    zero, one = torch.zeros_like(cp), torch.ones_like(cp)

    def matrix(*rows: torch.Tensor) -> torch.Tensor:
        return torch.stack(rows, -1).unflatten(-1, (3, 3))

    about_x = matrix(one, zero, zero, zero, cp, -sp, zero, sp, cp)
    about_y = matrix(cy, zero, sy, zero, one, zero, -sy, zero, cy)
    about_z = matrix(cr, -sr, zero, sr, cr, zero, zero, zero, one)
    shift = translation[:, :2] * deformation.face_width
    return Pose(about_z @ about_x @ about_y, shift, scale * (1.0 - translation[:, 2]))


def posed_displacement(field: NodeField, deformation: Deformation, expression: torch.Tensor, pose: Pose) -> torch.Tensor:
    """Forward displacement (n, rows, columns, 2) of every node.

    Args:
        field: The lattice.
        deformation: The face.
        expression: (n, rows, columns, 2) or (n, 1, 1, 2), pixels.
        pose: The head's pose.
    """
    x = field.nodes[..., 0] + expression[..., 0] - deformation.pivot[0]
    y = field.nodes[..., 1] + expression[..., 1] - deformation.pivot[1]
    z = field.depth - deformation.pivot[2]
    r = pose.rotation[:, :, :, None, None] * pose.scale[:, None, None, None, None]
    shift = pose.shift[:, :, None, None]
    turned_x = r[:, 0, 0] * x + r[:, 0, 1] * y + r[:, 0, 2] * z + shift[:, 0]
    turned_y = r[:, 1, 0] * x + r[:, 1, 1] * y + r[:, 1, 2] * z + shift[:, 1]
    moved = torch.stack([turned_x - x, turned_y - y], dim=-1) * field.weight[..., None]
    # depth also shifts a node whose rotation is zero by nothing: R(p) - p is measured from the pivot
    return expression + moved


def invert(forward: torch.Tensor, cell: int, steps: int = INVERSION_STEPS) -> torch.Tensor:
    """Backward displacement b with b(q) = -forward(q + b(q)), by Newton steps on the lattice.

    The Jacobian comes from central differences of the lattice; steps are bounded, so that a field which folds somewhere outside
    its visible part cannot throw the iteration off.

    Args:
        forward: float32 (n, rows, columns, 2), pixels, at the nodes; continued by its edge values outside.
        cell: Node spacing in pixels.
        steps: Newton steps; four reach about 0.02 px for the strongest allowed motion.

    Returns:
        float32 (n, rows, columns, 2).
    """
    _, rows, columns, _ = forward.shape
    right, left = forward[:, :, 1:], forward[:, :, :-1]
    across = (right - left) / cell
    across = torch.cat([across[:, :, :1], (across[:, :, 1:] + across[:, :, :-1]) / 2, across[:, :, -1:]], dim=2)
    along = (forward[:, 1:] - forward[:, :-1]) / cell
    along = torch.cat([along[:, :1], (along[:, 1:] + along[:, :-1]) / 2, along[:, -1:]], dim=1)
    planes = torch.cat([forward, across, along], dim=-1).permute(0, 3, 1, 2).contiguous()
    xs = (2.0 * torch.arange(columns, device=forward.device, dtype=torch.float32) + 1.0) / columns - 1.0
    ys = (2.0 * torch.arange(rows, device=forward.device, dtype=torch.float32) + 1.0) / rows - 1.0
    identity = torch.stack([xs.expand(rows, columns), ys[:, None].expand(rows, columns)], dim=-1)
    to_grid = torch.tensor([2.0 / (columns * cell), 2.0 / (rows * cell)], device=forward.device)
    backward = -forward
    for _ in range(steps):
        grid = torch.addcmul(identity, backward, to_grid)
        sampled = F.grid_sample(planes, grid, mode="bilinear", padding_mode="border", align_corners=False)
        dx, dy, xx, yx, xy, yy = sampled.unbind(1)
        error_x, error_y = backward[..., 0] + dx, backward[..., 1] + dy
        xx, yy = xx + 1.0, yy + 1.0
        determinant = (xx * yy - xy * yx).clamp(min=0.25)
        step = torch.stack([yy * error_x - xy * error_y, xx * error_y - yx * error_x], dim=-1) / determinant[..., None]
        backward = backward - step.clamp(-MAX_STEP_PX, MAX_STEP_PX)
    return backward


def mouth_fields(deformation: Deformation, coefficients: torch.Tensor, pose: Pose) -> tuple[torch.Tensor, torch.Tensor]:
    """Backward displacement of the upper and the lower lip layer on the padded mouth region, (n, rows, columns, 2) each."""
    rows, columns = deformation.mouth.depth.shape
    n = len(coefficients)
    upper = (coefficients @ deformation.upper_basis).view(n, rows, columns, 2)
    lower = (coefficients @ deformation.lower_basis).view(n, rows, columns, 2)
    forward = posed_displacement(deformation.mouth, deformation, torch.cat([upper, lower]), _twice(pose))
    first, second = invert(forward, MOUTH_CELL).split(n)
    return first, second


def join_fields(deformation: Deformation, face: torch.Tensor, upper: torch.Tensor, lower: torch.Tensor) -> None:
    """Put the lips' backward fields into the face's, in place: the upper one above the mouth line, the lower one below it."""
    ratio = FACE_CELL // MOUTH_CELL

    def coarser(field: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(field.permute(0, 3, 1, 2), ratio).permute(0, 2, 3, 1)

    upper, lower = coarser(upper), coarser(lower)
    x0, y0 = ((deformation.mouth.nodes[0, 0] - (MOUTH_CELL - 1) / 2) / FACE_CELL).round().int().tolist()
    rows, columns = upper.shape[1:3]
    target = face[:, y0 : y0 + rows, x0 : x0 + columns]
    source = deformation.face.nodes[y0 : y0 + rows, x0 : x0 + columns] + lower
    frame = deformation.mouth_frame
    u = source[..., 0] * frame[0, 0] + source[..., 1] * frame[0, 1] + frame[0, 2]
    v = source[..., 0] * frame[1, 0] + source[..., 1] * frame[1, 1] + frame[1, 2]
    last = len(deformation.mouth_line) - 1
    index = ((u + 1.6) * (last / 3.2)).round().long().clamp(0, last)
    target.copy_(torch.where((v > deformation.mouth_line[index])[..., None], lower, upper))


def _twice(pose: Pose) -> Pose:
    return Pose(*(torch.cat([part, part]) for part in (pose.rotation, pose.shift, pose.scale)))


def to_device(value: Deformation, device: torch.device) -> Deformation:
    """The same face on another device."""
    moved = {}
    for item in fields(value):
        part = getattr(value, item.name)
        if isinstance(part, NodeField):
            moved[item.name] = NodeField(*(getattr(part, f.name).to(device) for f in fields(part)))
        else:
            moved[item.name] = part.to(device)
    return Deformation(**moved)
