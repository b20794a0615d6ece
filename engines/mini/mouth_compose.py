"""Compose the mouth of a frame: cavity, tongue, teeth, lower lip, upper lip, back to front, over the warped face."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch

from engines.face import topology
from engines.mini.easing import ease
from engines.mini.face_frame import FaceFrame, LipLines
from engines.mini.mesh_deform import Deformation, Pose, PosedFace
from engines.mini.mesh_lattice import Lattice
from engines.mini.motion_limits import Motion
from engines.mini.mouth_interior import draw_interior
from engines.mini.mouth_layers import (
    DISTANCE_GAIN,
    DISTANCE_ZERO,
    OPEN_INSET_PX,
    TEXTURE_SCALE,
    MouthRegion,
    calm_corners,
    lip_layers,
    texture_grid,
)
from engines.mini.pixel_planes import to_pixels, to_planes
from kernels.arrays import U8
from kernels.sampling.mesh_warp import mesh_warp

FEATHER_PX = 6
LIP_TUCK_UNDER_PX = 1.5
"""How far the lower lip continues behind the upper one, so that closed lips show no gap."""
CONTACT = (0.26, 0.40, 0.40)
"""Depth, per colour, of the line that is drawn where the lips of an open-mouthed source meet."""
BITE_DEPTH = 0.04
"""How much of a rolled-in lower lip the upper teeth can cover, mouth widths."""
TEETH_SHADOW, LOWER_LIP_SHADOW = 0.45, 0.30
"""How dark the shadow of the upper and of the lower lip is on what lies behind them."""
ALREADY_LIT = 0.75
"""Share of those shadows that a portrait's own teeth bring along: they were photographed behind its lips."""
ROUNDED = (0.50, 1.0)
"""Protrusion from which lips hide the teeth in their shadow, and from which they do so wholly: an /o/, not every vowel."""
ROUND_DARK, ROUND_HIDDEN = 0.30, 0.80
"""How dark the inside of rounded lips gets, and how much of the teeth goes with it."""


@dataclass(frozen=True)
class MouthLayers:
    """Textures of one mouth; uint8 (1, h, w, 4) on the padded region at twice the crop's resolution.

    Attributes:
        inner: The region in which a mouth can appear.
        padded: The region covered by textures and lattices.
        upper: Upper lip layer: RGB, coded signed distance.
        lower: Lower lip layer.
        upper_teeth: RGBA, fixed to the skull.
        jaw_parts: RGBA, lower teeth and tongue, fixed to the jaw.
        corners: RGBA, skin without the dark line beyond the mouth corners; shown as the lips pucker.
        cavity: float32 (3, 1, 1), colour of the dark.
        haze: float32 (1,), level of black in the picture, in front of the teeth and all that is behind them.
        contact: float32 (3, 1, 1), depth of the drawn line where lips meet; 0 where the source has its own.
        shadow: float32 (1,), share of the lips' shadows that falls on the upper teeth; below 1 where they are the portrait's own.
        tuck_under: float32 (1,), further pixels that the lower lip continues behind the upper one while the mouth is closed.
        centre: Resting middle of the lips, crop pixels.
        extent: Reach of the resting lips from the centre: half width, up, down; crop pixels.
        mouth_width: Pixels.
    """

    inner: Lattice
    padded: Lattice
    upper: torch.Tensor
    lower: torch.Tensor
    upper_teeth: torch.Tensor
    jaw_parts: torch.Tensor
    corners: torch.Tensor
    cavity: torch.Tensor
    haze: torch.Tensor
    contact: torch.Tensor
    shadow: torch.Tensor
    tuck_under: torch.Tensor
    centre: tuple[float, float]
    extent: tuple[float, float, float]
    mouth_width: float

    def to(self, device: torch.device) -> MouthLayers:
        """The same mouth on another device."""
        parts = {item.name: getattr(self, item.name) for item in fields(self)}
        moved: dict[str, Any] = {k: v.to(device) for k, v in parts.items() if isinstance(v, torch.Tensor)}
        return replace(self, **moved)


def build_mouth(frame: FaceFrame, lips: LipLines, region: MouthRegion, crop: U8, fine: U8) -> MouthLayers:
    """Draw the layers of one face.

    Args:
        frame: Axes and units.
        lips: Lip edges.
        region: From `mouth_region`.
        crop: uint8 (512, 512, 3), RGB.
        fine: uint8 (1024, 1024, 3), from `finer_texture`.
    """
    grid = texture_grid(frame, region.padded)
    x, y = region.padded.x * TEXTURE_SCALE, region.padded.y * TEXTURE_SCALE
    height, width = grid.u.shape
    part = fine[y : y + height, x : x + width]
    upper, lower = lip_layers(frame, lips, fine, grid)
    interior = draw_interior(frame, lips, crop, part, grid)
    outline = frame.points[[*topology.UPPER_LIP_OUTER, *topology.LOWER_LIP_OUTER]]
    centre = outline.mean(0)
    reach = outline - centre

    def texture(rgba: U8) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(rgba))[None]

    return MouthLayers(
        inner=region.inner,
        padded=region.padded,
        upper=texture(upper),
        lower=texture(lower),
        upper_teeth=texture(interior.upper_teeth),
        jaw_parts=texture(interior.jaw_parts),
        corners=texture(calm_corners(lips, part, grid, frame.mouth_width)),
        cavity=torch.from_numpy(interior.cavity.astype(np.float32))[:, None, None],
        haze=torch.tensor([interior.haze]),
        contact=torch.zeros(3, 1, 1) if lips.closed_source else torch.tensor(CONTACT)[:, None, None],
        shadow=torch.tensor([1.0 - ALREADY_LIT if interior.own_teeth else 1.0]),
        tuck_under=torch.tensor([0.0 if lips.closed_source else 2.0 * OPEN_INSET_PX]),
        centre=(float(centre[0]), float(centre[1])),
        extent=(float(np.abs(reach[:, 0]).max()), float(-reach[:, 1].min()), float(reach[:, 1].max())),
        mouth_width=frame.mouth_width,
    )


def mouth_box(mouth: MouthLayers, motion: Motion, pose: Pose, shift: torch.Tensor) -> Lattice:
    """The part of the mouth region that has to be composed; `shift` (n, 2): where the pose moves the mouth's centre, pixels.

    For a single frame on the CPU it hugs the lips; for a batch it is the whole region, so that no value leaves the device.
    """
    inner = mouth.inner
    if len(motion.gap) > 1 or motion.gap.device.type != "cpu":
        return inner
    width = mouth.mouth_width
    moved = shift[0].tolist()
    x, y = mouth.centre[0] + moved[0], mouth.centre[1] + moved[1]
    tilt = abs(math.atan2(float(pose.rotation[0, 1, 0]), float(pose.rotation[0, 0, 0]))) * mouth.extent[0]
    lowest = max(float(motion.lowest[0]), 0.0) * width
    highest = max(float(motion.highest[0]), 0.0) * width
    side = mouth.extent[0] + max(float(motion.widest[0]), 0.0) * width + 0.03 * width + FEATHER_PX + 2
    top = y - mouth.extent[1] - highest - tilt - 0.06 * width - FEATHER_PX
    bottom = y + mouth.extent[2] + lowest + tilt + 0.06 * width + FEATHER_PX
    cell = inner.cell
    x0 = min(max(int((x - side) // cell), inner.x // cell), inner.x // cell + inner.columns - 2)
    x1 = max(min(int((x + side) // cell) + 1, inner.x // cell + inner.columns), x0 + 2)
    y0 = min(max(int(top // cell), inner.y // cell), inner.y // cell + inner.rows - 2)
    y1 = max(min(int(bottom // cell) + 1, inner.y // cell + inner.rows), y0 + 2)
    return Lattice(x0 * cell, y0 * cell, x1 - x0, y1 - y0, cell)


def compose_mouth(frames: torch.Tensor, mouth: MouthLayers, posed: PosedFace) -> None:
    """Draw the mouth into `frames`, uint8 (n, 512, 512, 3), the warped face, in place."""
    box, picture = draw_mouth(mouth, posed)
    rows, columns = box.rows * box.cell, box.columns * box.cell
    target = frames[:, box.y : box.y + rows, box.x : box.x + columns]
    blended = torch.lerp(to_planes(target), picture, feather(rows, columns, picture.device))
    target.copy_(to_pixels(blended))


def draw_mouth(mouth: MouthLayers, posed: PosedFace) -> tuple[Lattice, torch.Tensor]:
    """Draw the mouth alone.

    Args:
        mouth: The avatar's mouth.
        posed: The fields of n frames.

    Returns:
        The part of the crop that it covers, and its colours there, float32 (n, 3, h, w), 0..255.
    """
    deformation, motion, pose = posed.deformation, posed.motion, posed.pose
    shift = _rigid_shift(mouth, pose, deformation)
    box = mouth_box(mouth, motion, pose, shift)
    top, left = (box.y - mouth.padded.y) // box.cell, (box.x - mouth.padded.x) // box.cell
    upper, lower = (f[:, top : top + box.rows, left : left + box.columns].contiguous() for f in posed.lips)
    up, low = _sample(mouth, box, mouth.upper, upper), _sample(mouth, box, mouth.lower, lower)
    width = mouth.mouth_width
    up_edge = (up[:, 3:] - DISTANCE_ZERO) * (1.0 / DISTANCE_GAIN)
    low_edge = (low[:, 3:] - DISTANCE_ZERO) * (1.0 / DISTANCE_GAIN)
    opening = ease(motion.gap / 0.07)[:, None, None, None]
    protrusion = motion.protrusion[:, None, None, None]

    skull, dropped = _rigid_backward(mouth, box, pose, deformation, shift, posed.jaw)
    teeth, parts = _sample(mouth, box, mouth.upper_teeth, skull), _sample(mouth, box, mouth.jaw_parts, dropped)
    up_shadow = TEETH_SHADOW * torch.exp(up_edge.clamp(max=0.0) * (1.0 / (0.035 * width)))
    over_low = low_edge.clamp(max=0.0)
    low_shadow = LOWER_LIP_SHADOW * torch.exp(over_low * (1.0 / (0.03 * width)))
    shade = (1.0 - up_shadow) * (1.0 - low_shadow)
    tooth_shade = (1.0 - mouth.shadow * up_shadow) * (1.0 - mouth.shadow * low_shadow)
    rounded = ease((protrusion - ROUNDED[0]) * (1.0 / (ROUNDED[1] - ROUNDED[0])))
    picture = mouth.cavity * (0.35 + 0.65 * torch.exp(over_low * (1.0 / (0.16 * width))))
    picture = torch.lerp(picture, parts[:, :3], parts[:, 3:] * (1.0 / 255.0))
    upper_alpha = teeth[:, 3:] * (1.0 / 255.0)
    picture = torch.lerp(picture * shade, teeth[:, :3] * tooth_shade, upper_alpha * (1.0 - ROUND_HIDDEN * rounded))
    picture = torch.lerp(picture, mouth.cavity * 0.7, ROUND_DARK * rounded)  # little light gets in behind rounded lips
    picture = picture + mouth.haze

    low_rgb = low[:, :3] * _lip_shade(low_edge, opening * 0.30 + (1.0 - opening) * mouth.contact)
    behind = LIP_TUCK_UNDER_PX + mouth.tuck_under * (1.0 - opening)
    picture = torch.lerp(picture, low_rgb, ((low_edge + behind) * (1.0 / 1.5) + 0.5).clamp(0.0, 1.0))
    bite = ((BITE_DEPTH * width - low_edge) * 0.3).clamp(0.0, 1.0) * motion.tuck[:, None, None, None]
    picture = torch.lerp(picture, teeth[:, :3] * (1.0 - mouth.shadow * up_shadow) + mouth.haze, upper_alpha * bite)
    within = (1.0 - low_edge * (1.0 / 3.0)).clamp(0.0, 1.0)  # beyond the corners the layers are one skin
    up_rgb = up[:, :3] * _lip_shade(up_edge, (opening * 0.22 + (1.0 - opening) * mouth.contact) * within)
    picture = torch.lerp(picture, up_rgb, (up_edge * (1.0 / 1.5) + 0.5).clamp(0.0, 1.0))
    if box is mouth.inner or float(motion.pucker.amax()) > 0.0:
        calm = _sample(mouth, box, mouth.corners, upper)
        picture = torch.lerp(picture, calm[:, :3], calm[:, 3:] * (motion.pucker[:, None, None, None] * (1.0 / 255.0)))
    return box, picture


def feather(rows: int, columns: int, device: torch.device, width: float = FEATHER_PX) -> torch.Tensor:
    """1 inside, falling to 0 towards the box's border within `width` pixels; float32 (rows, columns)."""
    y = torch.arange(rows, device=device, dtype=torch.float32)
    x = torch.arange(columns, device=device, dtype=torch.float32)
    y, x = torch.minimum(y, rows - 1 - y), torch.minimum(x, columns - 1 - x)
    return (torch.minimum(y[:, None], x) * (1.0 / width)).clamp(max=1.0)


def _rigid_shift(mouth: MouthLayers, pose: Pose, deformation: Deformation) -> torch.Tensor:
    """Where the head's pose moves the centre of the mouth, (n, 2) pixels."""
    point = torch.tensor([*mouth.centre, 0.0], device=pose.shift.device) - deformation.pivot
    point = point + deformation.mouth_depth * torch.tensor([0.0, 0.0, 1.0], device=point.device)
    moved = (pose.rotation @ point)[:, :2] * pose.scale[:, None]
    return moved - point[:2] + pose.shift


def _rigid_backward(
    mouth: MouthLayers, box: Lattice, pose: Pose, deformation: Deformation, shift: torch.Tensor, jaw: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Backward lattices of skull and jaw: planes at the mouth's depth, moved by the pose; `jaw` (n, 2) drops the second."""
    turn = pose.rotation[:, :2, :2] * pose.scale[:, None, None]
    inverse = torch.linalg.inv(turn)
    centre = torch.tensor(mouth.centre, device=jaw.device)
    top, left = (box.y - mouth.padded.y) // box.cell, (box.x - mouth.padded.x) // box.cell
    nodes = deformation.mouth.nodes[top : top + box.rows, left : left + box.columns]
    local = nodes - centre - shift[:, None, None]
    back = torch.stack(
        [
            inverse[:, 0, 0, None, None] * local[..., 0] + inverse[:, 0, 1, None, None] * local[..., 1],
            inverse[:, 1, 0, None, None] * local[..., 0] + inverse[:, 1, 1, None, None] * local[..., 1],
        ],
        dim=-1,
    )
    back = back + centre
    return back - nodes, back - jaw[:, None, None] - nodes


def _sample(mouth: MouthLayers, box: Lattice, texture: torch.Tensor, backward: torch.Tensor) -> torch.Tensor:
    """Layer colours in the box, float32 (n, 4, h, w), 0..255."""
    return to_planes(
        mesh_warp(
            texture,
            backward,
            box.cell,
            region_origin=(box.x, box.y),
            texture_origin=(mouth.padded.x, mouth.padded.y),
            texture_scale=float(TEXTURE_SCALE),
        )
    )


def _lip_shade(edge: torch.Tensor, amount: torch.Tensor) -> torch.Tensor:
    """Darkening of a lip towards its edge: the wet inner side when open, the line of contact when closed."""
    return 1.0 - amount * torch.exp((edge + 0.5).clamp(min=0.0) * (-1.0 / 1.8))
