"""Motion to displacement lattices of one face: a linear expression basis, then the head's pose at each node's depth.

Forward model. A source point p (crop pixels, depth z) goes to

    p + e(p) + w(p) * (R(p + e(p), z(p)) - (p + e(p))) + s(p) * shift - b(p) * breath

with e = coefficients @ basis (expression), R the rotation, scale and shift of the head, and w, s and b the shares of the head's
motion, of the shoulders' and of the breath's. Where the outline of the person is known, they are those of
`engines.mini.outline`, and the picture around the crop moves by the same formula. Where it is not, s and b are 0 and w falls
smoothly from 1 on the face to exactly 0 at the crop's border, so the border never moves. Rendering needs the inverse:
`invert` solves it by a few Newton steps. Around the mouth there are two such fields on a finer lattice: the upper lip's and the
lower lip's. They differ only between the corners: opening the mouth is a cut, not a stretch.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, fields
from typing import Final

import torch
import torch.nn.functional as F

from engines.mini.mesh_lattice import FACE_CELL, MOUTH_CELL
from engines.mini.motion_limits import Motion

INVERSION_STEPS: Final = 3
MAX_STEP_PX: Final = 12.0


@dataclass(frozen=True)
class NodeField:
    """What one lattice needs to be posed.

    Attributes:
        nodes: float32 (rows, columns, 2), crop pixels.
        depth: float32 (rows, columns), pixels away from the viewer.
        weight: float32 (rows, columns), share of the head's motion.
        shoulders: float32 (rows, columns), share of the head's shift that a place takes without turning.
        breath: float32 (rows, columns), share of the breath's lift.
    """

    nodes: torch.Tensor
    depth: torch.Tensor
    weight: torch.Tensor
    shoulders: torch.Tensor
    breath: torch.Tensor

    def to(self, device: torch.device) -> NodeField:
        """The same nodes on another device."""
        return NodeField(*(getattr(self, item.name).to(device) for item in fields(self)))


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

    def to(self, device: torch.device) -> Deformation:
        """The same face on another device."""
        parts = {item.name: getattr(self, item.name).to(device) for item in fields(self)}
        return Deformation(**parts)


@dataclass(frozen=True)
class Pose:
    """Head pose of a batch: rotation (n, 3, 3), shift (n, 2) in pixels, scale (n,), lift of the chest by breath (n,) in pixels."""

    rotation: torch.Tensor
    shift: torch.Tensor
    scale: torch.Tensor
    breath: torch.Tensor


@dataclass(frozen=True)
class PosedFace:
    """Where everything of a face is in n frames.

    Attributes:
        motion: Limited motion.
        pose: Head pose.
        backward: float32 (n, 64, 64, 2), backward displacement of the whole crop.
        lips: Backward displacement of the upper and the lower lip on the padded mouth region, (n, rows, columns, 2) each.
        jaw: float32 (n, 2), displacement of the jaw bone, pixels.
        deformation: The face that it was made of.
    """

    motion: Motion
    pose: Pose
    backward: torch.Tensor
    lips: tuple[torch.Tensor, torch.Tensor]
    jaw: torch.Tensor
    deformation: Deformation


def pose_face(deformation: Deformation, motion: Motion) -> PosedFace:
    """Work out the fields of limited motion; motion and face are on one device."""
    pose = build_pose(deformation, motion)
    ones = torch.ones_like(motion.scale)[:, None]
    coefficients = torch.cat([ones, motion.exp.flatten(1)], dim=1)[:, deformation.used]
    rows, columns = deformation.face.depth.shape
    expression = (coefficients @ deformation.face_basis).view(-1, rows, columns, 2)
    backward = invert(posed_displacement(deformation.face, deformation, expression, pose), FACE_CELL)
    lips = mouth_fields(deformation, coefficients, pose)
    join_fields(deformation, backward, *lips)
    return PosedFace(motion, pose, backward, lips, coefficients @ deformation.jaw_basis, deformation)


def build_pose(deformation: Deformation, motion: Motion) -> Pose:
    """The pose of limited motion, in pixels of this face."""
    pitch, yaw, roll = (motion.angles_deg * (math.pi / 180.0)).unbind(-1)
    cp, sp, cy, sy, cr, sr = pitch.cos(), pitch.sin(), yaw.cos(), yaw.sin(), roll.cos(), roll.sin()
    zero, one = torch.zeros_like(cp), torch.ones_like(cp)

    def matrix(*rows: torch.Tensor) -> torch.Tensor:
        return torch.stack(rows, -1).reshape(*rows[0].shape, 3, 3)

    about_x = matrix(one, zero, zero, zero, cp, -sp, zero, sp, cp)
    about_y = matrix(cy, zero, sy, zero, one, zero, -sy, zero, cy)
    about_z = matrix(cr, -sr, zero, sr, cr, zero, zero, zero, one)
    shift = motion.translation[:, :2] * deformation.face_width
    scale = motion.scale * (1.0 - motion.translation[:, 2])
    return Pose(about_z @ about_x @ about_y, shift, scale, motion.breath * deformation.face_width)


def posed_displacement(
    field: NodeField, deformation: Deformation, expression: torch.Tensor, pose: Pose
) -> torch.Tensor:
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
    carried = field.shoulders[..., None] * pose.shift[:, None, None, :]
    carried[..., 1] -= field.breath * pose.breath[:, None, None]
    return expression + moved + carried


def invert(forward: torch.Tensor, cell: int, steps: int = INVERSION_STEPS) -> torch.Tensor:
    """Backward displacement b with b(q) = -forward(q + b(q)), by Newton steps on the lattice.

    The Jacobian comes from central differences of the lattice; steps are bounded, so that a field which folds somewhere outside
    its visible part cannot throw the iteration off.

    Args:
        forward: float32 (n, rows, columns, 2), pixels, at the nodes; continued by its edge values outside.
        cell: Node spacing in pixels.
        steps: Newton steps; three reach about 0.02 px for the strongest allowed motion.

    Returns:
        float32 (n, rows, columns, 2).
    """
    rows, columns = forward.shape[1:3]
    moved = forward.permute(0, 3, 1, 2)
    across = (moved[..., 1:] - moved[..., :-1]) / cell
    across = torch.cat([across[..., :1], (across[..., 1:] + across[..., :-1]) / 2, across[..., -1:]], dim=3)
    along = (moved[..., 1:, :] - moved[..., :-1, :]) / cell
    along = torch.cat([along[..., :1, :], (along[..., 1:, :] + along[..., :-1, :]) / 2, along[..., -1:, :]], dim=2)
    # the Jacobian in pairs: y by y and x by x, then x by y and y by x, as Cramer's rule takes them
    planes = torch.cat([moved, along[:, 1:], across[:, :1], along[:, :1], across[:, 1:]], dim=1)
    identity, to_grid = _grid(rows, columns, cell, forward.device)
    backward = -moved
    for _ in range(steps):
        grid = torch.addcmul(identity, backward, to_grid).permute(0, 2, 3, 1)
        sampled = F.grid_sample(planes, grid, mode="bilinear", padding_mode="border", align_corners=False)
        error, own, other = sampled[:, :2], sampled[:, 2:4], sampled[:, 4:]
        error += backward
        own += 1.0
        determinant = (own[:, 1:] * own[:, :1] - other[:, :1] * other[:, 1:]).clamp_(min=0.25)
        step = (own * error - other * error.flip(1)) / determinant
        backward = backward - step.clamp_(-MAX_STEP_PX, MAX_STEP_PX)
    return backward.permute(0, 2, 3, 1)


@functools.lru_cache(maxsize=16)
@torch.inference_mode(mode=False)  # what is kept serves callers of every mode
def _grid(rows: int, columns: int, cell: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Normalised places of the nodes, (2, rows, columns), and what a pixel is there, (2, 1, 1); x, then y; not to be written to."""
    xs = (2.0 * torch.arange(columns, device=device, dtype=torch.float32) + 1.0) / columns - 1.0
    ys = (2.0 * torch.arange(rows, device=device, dtype=torch.float32) + 1.0) / rows - 1.0
    identity = torch.stack([xs.expand(rows, columns), ys[:, None].expand(rows, columns)])
    return identity, torch.tensor([[[2.0 / (columns * cell)]], [[2.0 / (rows * cell)]]], device=device)


def mouth_fields(deformation: Deformation, coefficients: torch.Tensor, pose: Pose) -> tuple[torch.Tensor, torch.Tensor]:
    """Backward displacement of the upper and the lower lip layer on the padded mouth region, (n, rows, columns, 2) each."""
    rows, columns = deformation.mouth.depth.shape
    n = len(coefficients)
    upper = (coefficients @ deformation.upper_basis).view(n, rows, columns, 2)
    lower = (coefficients @ deformation.lower_basis).view(n, rows, columns, 2)
    forward = posed_displacement(deformation.mouth, deformation, torch.cat([upper, lower]), _twice(pose))
    backward = invert(forward, MOUTH_CELL)
    return backward[:n], backward[n:]


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
    return Pose(*(torch.cat([getattr(pose, item.name)] * 2) for item in fields(pose)))
