"""Warp a texture by a coarse lattice of backward displacements: the one sampling op of the mesh renderer.

Formula. Output pixel (x, y) of frame n, with pixel centres at integers:

    B_n(x, y) = bilinear(displacement_n, (x + 0.5) / cell - 0.5, (y + 0.5) / cell - 0.5), clamped at the lattice's edge
    s         = (x, y) + region_origin + B_n(x, y)                          (crop pixels)
    out       = bilinear(texture, (s - texture_origin) * texture_scale)     (texture pixels, edge replicated)

Lattice nodes sit at the centres of `cell` x `cell` blocks, so that the upsampling is the usual half-pixel-centre one. A
texture that is `texture_scale` times finer than the crop, with texel (k * texture_scale) exactly on crop pixel k, makes
bilinear sampling as sharp as a bicubic one and keeps an unmoved picture bit-identical.

The torch reference runs on any device and is what a Triton body (`mesh_warp_triton.py`) has to match; on the CPU the
host wrapper uses OpenCV's remap, which interpolates with 5-bit weights and so differs from the reference by at most a
few levels at hard edges.
"""

from __future__ import annotations

import functools

import cv2
import numpy as np
import torch
import torch.nn.functional as F

from kernels.errors import InvalidInputError, ShapeError
from kernels.sampling.remap import remap_bilinear

MAX_CHANNELS = 4
Point = tuple[float, float]


def mesh_warp(
    texture: torch.Tensor,
    displacement: torch.Tensor,
    cell: int,
    *,
    region_origin: Point = (0.0, 0.0),
    texture_origin: Point = (0.0, 0.0),
    texture_scale: float = 1.0,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Sample `texture` through the backward displacement lattice.

    Args:
        texture: uint8 (m, H, W, C), m = 1 (shared by every frame) or n; 1 to 4 channels, any colour order.
        displacement: float32 (n, gh, gw, 2), x then y, crop pixels.
        cell: Side in pixels of the block that one lattice node stands for.
        region_origin: Crop pixel (x, y) of output pixel (0, 0).
        texture_origin: Crop pixel (x, y) of texel (0, 0).
        texture_scale: Texels per crop pixel.
        out: Where to write, contiguous, shape and dtype of the result; None makes a new tensor.

    Returns:
        uint8 (n, gh * cell, gw * cell, C) on the device of `displacement`.

    Raises:
        ShapeError: A tensor of another rank, dtype, device or batch size.
        InvalidInputError: `cell` or `texture_scale` not positive.
    """
    _validate(texture, displacement, cell, texture_scale)
    if displacement.device.type == "cpu":
        return _remap(texture, displacement, cell, region_origin, texture_origin, texture_scale, out)
    result = mesh_warp_reference(
        texture,
        displacement,
        cell,
        region_origin=region_origin,
        texture_origin=texture_origin,
        texture_scale=texture_scale,
    )
    return result if out is None else out.copy_(result)


def mesh_warp_reference(
    texture: torch.Tensor,
    displacement: torch.Tensor,
    cell: int,
    *,
    region_origin: Point = (0.0, 0.0),
    texture_origin: Point = (0.0, 0.0),
    texture_scale: float = 1.0,
) -> torch.Tensor:
    """The formula in plain torch, any device, fp32 coordinates; arguments and result as in `mesh_warp`."""
    _validate(texture, displacement, cell, texture_scale)
    n, gh, gw, _ = displacement.shape
    height, width = gh * cell, gw * cell
    tex_h, tex_w = texture.shape[1:3]
    dense = F.interpolate(displacement.permute(0, 3, 1, 2), size=(height, width), mode="bilinear", align_corners=False)
    places = _places(height, width, region_origin, texture_origin, texture_scale)
    columns, rows = (torch.tensor(line, device=displacement.device) for line in (places[0, :, 0], places[:, 0, 1]))
    x = dense[:, 0] * texture_scale + columns
    y = dense[:, 1] * texture_scale + rows[:, None]
    grid = torch.stack([(2.0 * x + 1.0) / tex_w - 1.0, (2.0 * y + 1.0) / tex_h - 1.0], dim=-1)
    planes = texture.to(displacement.device).permute(0, 3, 1, 2).float().expand(n, -1, -1, -1)
    out = F.grid_sample(planes, grid, mode="bilinear", padding_mode="border", align_corners=False)
    return out.round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def _remap(
    texture: torch.Tensor,
    displacement: torch.Tensor,
    cell: int,
    region_origin: Point,
    texture_origin: Point,
    texture_scale: float,
    out: torch.Tensor | None,
) -> torch.Tensor:
    n, gh, gw, _ = displacement.shape
    height, width = gh * cell, gw * cell
    channels = texture.shape[3]
    places = _places(height, width, region_origin, texture_origin, texture_scale)
    shape = (n, height, width, channels)
    if out is None:
        out = torch.empty(shape, dtype=torch.uint8)
    elif out.shape != shape or out.dtype != torch.uint8 or not out.is_contiguous():
        raise ShapeError("out", f"{out.dtype} {tuple(out.shape)}", f"contiguous uint8 {shape}")
    target = out.numpy()[..., 0] if channels == 1 else out.numpy()
    lattice = (displacement * texture_scale).contiguous().numpy()
    for i in range(n):
        coordinates = (
            cv2.resize(lattice[i], (width, height), interpolation=cv2.INTER_LINEAR) if cell > 1 else lattice[i]
        )
        np.add(coordinates, places, out=coordinates)
        source = texture[i if texture.shape[0] > 1 else 0].numpy()
        remap_bilinear(source, coordinates, target[i])
    return out


@functools.lru_cache(maxsize=64)
def _places(
    height: int, width: int, region_origin: Point, texture_origin: Point, scale: float
) -> np.ndarray[tuple[int, int, int], np.dtype[np.float32]]:
    """Texture coordinates x, y of the undisplaced output pixels, float32 (height, width, 2); 2 MB for a whole crop."""
    columns = (np.arange(width, dtype=np.float64) + (region_origin[0] - texture_origin[0])) * scale
    rows = (np.arange(height, dtype=np.float64) + (region_origin[1] - texture_origin[1])) * scale
    found = np.empty((height, width, 2), np.float32)
    found[..., 0] = columns
    found[..., 1] = rows[:, None]
    found.setflags(write=False)
    return found


def _validate(texture: torch.Tensor, displacement: torch.Tensor, cell: int, texture_scale: float) -> None:
    if texture.ndim != 4 or texture.dtype != torch.uint8 or not 1 <= texture.shape[3] <= MAX_CHANNELS:
        raise ShapeError("texture", f"{texture.dtype} {tuple(texture.shape)}", "uint8 (m, H, W, C), 1 <= C <= 4")
    if displacement.ndim != 4 or displacement.dtype != torch.float32 or displacement.shape[3] != 2:
        raise ShapeError("displacement", f"{displacement.dtype} {tuple(displacement.shape)}", "float32 (n, gh, gw, 2)")
    if min(texture.shape) == 0 or min(displacement.shape) == 0:
        raise ShapeError(
            "texture, displacement", f"{tuple(texture.shape)}, {tuple(displacement.shape)}", "no empty axis"
        )
    if texture.shape[0] not in (1, displacement.shape[0]):
        raise ShapeError("texture", f"batch of {texture.shape[0]}", f"1 or {displacement.shape[0]}")
    if texture.device != displacement.device:
        raise ShapeError("texture", f"on {texture.device}", f"on {displacement.device}, as the displacement")
    if cell < 1:
        raise InvalidInputError("cell", str(cell), "at least 1 pixel")
    if not texture_scale > 0:
        raise InvalidInputError("texture_scale", str(texture_scale), "above 0")
