"""Compose the mouth of a frame: cavity, tongue, teeth, lower lip, upper lip, back to front, over the warped face."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from engines.face_frame import FaceFrame, LipLines
from engines.mesh_deform import Deformation, Lattice, Pose, invert, posed_displacement
from engines.motion_limits import Motion
from engines.mouth_interior import draw_interior
from engines.mouth_layers import DISTANCE_GAIN, DISTANCE_ZERO, TEXTURE_SCALE, MouthRegion, lip_layers, texture_grid
from kernels.mesh_warp import mesh_warp

U8 = NDArray[np.uint8]

FEATHER_PX = 6
LIP_TUCK_UNDER_PX = 1.5
"""How far the lower lip continues behind the upper one, so that closed lips show no gap."""


@dataclass(frozen=True)
class MouthLayers:
    """Textures of one mouth; uint8 (1, h, w, 4) on the padded region at twice the crop's resolution.

    Attributes:
        inner: The rendered region.
        padded: The region covered by textures and lattices.
        upper: Upper lip layer: RGB, coded signed distance.
        lower: Lower lip layer.
        upper_teeth: RGBA.
        lower_teeth: RGBA.
        tongue: RGBA.
        cavity: float32 (3,), colour of the dark.
        feather: float32 (h, w, 1) of the rendered region, 1 inside, 0 at its border.
        mouth_width: float32 (1,), pixels.
        contact: float32 (1,), depth of the drawn line where lips meet; 0 where the source has its own.
    """

    inner: Lattice
    padded: Lattice
    upper: torch.Tensor
    lower: torch.Tensor
    upper_teeth: torch.Tensor
    lower_teeth: torch.Tensor
    tongue: torch.Tensor
    cavity: torch.Tensor
    feather: torch.Tensor
    mouth_width: torch.Tensor
    contact: torch.Tensor

    def to(self, device: torch.device) -> MouthLayers:
        """The same mouth on another device."""
        parts = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return MouthLayers(**{k: v.to(device) if isinstance(v, torch.Tensor) else v for k, v in parts.items()})


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
    upper, lower = lip_layers(frame, lips, fine, grid)
    interior = draw_interior(frame, lips, crop, fine[y : y + height, x : x + width], grid)

    def texture(rgba: U8) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(rgba))[None]

    return MouthLayers(
        inner=region.inner,
        padded=region.padded,
        upper=texture(upper),
        lower=texture(lower),
        upper_teeth=texture(interior.upper_teeth),
        lower_teeth=texture(interior.lower_teeth),
        tongue=texture(interior.tongue),
        cavity=torch.from_numpy(interior.cavity.astype(np.float32)),
        feather=_feather(region.inner),
        mouth_width=torch.tensor([frame.mouth_width], dtype=torch.float32),
        contact=torch.tensor([0.0 if lips.closed_source else 0.42]),
    )


def _feather(region: Lattice) -> torch.Tensor:
    height, width = region.rows * region.cell, region.columns * region.cell
    ys = torch.minimum(torch.arange(height), height - 1 - torch.arange(height))[:, None]
    xs = torch.minimum(torch.arange(width), width - 1 - torch.arange(width))
    return (torch.minimum(ys, xs).float() / FEATHER_PX).clamp(max=1.0)[..., None]


def compose_mouth(
    frames: torch.Tensor,
    mouth: MouthLayers,
    deformation: Deformation,
    coefficients: torch.Tensor,
    motion: Motion,
    pose: Pose,
) -> None:
    """Draw the mouth region into `frames`, in place.

    Args:
        frames: uint8 (n, 512, 512, 3), the warped face.
        mouth: The avatar's mouth.
        deformation: The avatar's motion bases.
        coefficients: float32 (n, k), as used by the bases.
        motion: Limited motion of the n frames.
        pose: Head pose of the n frames.
    """
    inner = mouth.inner
    upper, lower, skull, jaw = _backward_fields(mouth, deformation, coefficients, pose)
    up, low = _sample(mouth, mouth.upper, upper), _sample(mouth, mouth.lower, lower)
    width = mouth.mouth_width
    up_edge = (up[..., 3:] - DISTANCE_ZERO) / DISTANCE_GAIN
    low_edge = (low[..., 3:] - DISTANCE_ZERO) / DISTANCE_GAIN
    opening = _ease(motion.gap / 0.07)[:, None, None, None]
    tuck = motion.tuck[:, None, None, None]

    picture = mouth.cavity * (0.35 + 0.65 * torch.exp(-(-low_edge).clamp(min=0.0) / (0.16 * width)))
    picture = _over(picture, _sample(mouth, mouth.tongue, jaw))
    picture = _over(picture, _sample(mouth, mouth.lower_teeth, jaw))
    teeth = _sample(mouth, mouth.upper_teeth, skull)
    picture = _over(picture, teeth)
    depth_up, depth_low = (-up_edge).clamp(min=0.0), (-low_edge).clamp(min=0.0)
    shade = (1.0 - 0.62 * torch.exp(-depth_up / (0.035 * width))) * (1.0 - 0.40 * torch.exp(-depth_low / (0.03 * width)))
    picture = picture * shade * (1.0 - 0.45 * motion.protrusion[:, None, None, None])

    low_rgb = low[..., :3] * _lip_shade(low_edge, opening, mouth.contact, 0.30, 1.0)
    low_alpha = ((low_edge + LIP_TUCK_UNDER_PX) / 1.5 + 0.5).clamp(0.0, 1.0)
    picture = torch.lerp(picture, low_rgb, low_alpha)
    bite = teeth[..., :3] * (1.0 - 0.62 * torch.exp(-depth_up / (0.035 * width)))
    picture = torch.lerp(picture, bite, teeth[..., 3:] * (tuck * (1.0 / 255.0)))
    within = (1.0 - low_edge / 3.0).clamp(0.0, 1.0)  # beyond the corners the layers are one skin
    up_rgb = up[..., :3] * _lip_shade(up_edge, opening, mouth.contact, 0.22, within)
    up_alpha = (up_edge / 1.5 + 0.5).clamp(0.0, 1.0)
    picture = torch.lerp(picture, up_rgb, up_alpha)

    rows, columns = inner.rows * inner.cell, inner.columns * inner.cell
    target = frames[:, inner.y : inner.y + rows, inner.x : inner.x + columns]
    blended = torch.lerp(target.float(), picture, mouth.feather)
    target.copy_(blended.round().clamp(0, 255).to(torch.uint8))


def _backward_fields(
    mouth: MouthLayers, deformation: Deformation, coefficients: torch.Tensor, pose: Pose
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Backward displacement of upper lip, lower lip, skull and jaw on the rendered region."""
    rows, columns = deformation.mouth.depth.shape
    n = len(coefficients)
    upper = (coefficients @ deformation.upper_basis).view(n, rows, columns, 2)
    lower = (coefficients @ deformation.lower_basis).view(n, rows, columns, 2)
    drop = (coefficients @ deformation.jaw_basis).view(n, 1, 1, 2)
    none = torch.zeros_like(drop)
    forward = [posed_displacement(deformation.mouth, deformation, part, pose) for part in (upper, lower, none, drop)]
    backward = invert(torch.cat(forward), mouth.padded.cell)
    top = (mouth.inner.y - mouth.padded.y) // mouth.padded.cell
    left = (mouth.inner.x - mouth.padded.x) // mouth.padded.cell
    window = backward[:, top : top + mouth.inner.rows, left : left + mouth.inner.columns]
    first, second, third, fourth = window.contiguous().split(n)
    return first, second, third, fourth


def _sample(mouth: MouthLayers, texture: torch.Tensor, backward: torch.Tensor) -> torch.Tensor:
    """Layer colours on the rendered region, float32 (n, h, w, 4), 0..255."""
    return mesh_warp(
        texture,
        backward,
        mouth.inner.cell,
        region_origin=(mouth.inner.x, mouth.inner.y),
        texture_origin=(mouth.padded.x, mouth.padded.y),
        texture_scale=float(TEXTURE_SCALE),
    ).float()


def _over(picture: torch.Tensor, layer: torch.Tensor) -> torch.Tensor:
    return torch.lerp(picture.expand_as(layer[..., :3]), layer[..., :3], layer[..., 3:] * (1.0 / 255.0))


def _lip_shade(edge: torch.Tensor, opening: torch.Tensor, contact: torch.Tensor, depth: float, within: torch.Tensor | float) -> torch.Tensor:
    """Darkening of a lip towards its edge: the wet inner side when open, the line of contact when closed."""
    amount = (opening * depth + (1.0 - opening) * contact) * within
    return 1.0 - amount * torch.exp(-((edge + 0.5).clamp(min=0.0) / 1.8))


def _ease(t: torch.Tensor) -> torch.Tensor:
    t = t.clamp(0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)
