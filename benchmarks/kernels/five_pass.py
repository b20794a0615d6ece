"""The picture tail as published, in eager torch: RGB to NV12 in five passes, and the composite that feeds it.

The passes: slice the channels; arithmetic and clamp for Y, U, V at full size; subsample U and V by their top-left samples;
clone the canvas; assign the three parts. BT.601 limited range, truncated.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F


def five_pass_splice(face: torch.Tensor, canvas: torch.Tensor, x: int, y: int) -> torch.Tensor:
    """Face into a copy of the canvas.

    Args:
        face: (n, 3, h, w), R first, 0..255; uint8 is widened to float32 first.
        canvas: uint8 (n, H * 3 / 2, W), NV12; not changed.
        x: Left edge, even.
        y: Top edge, even.

    Returns:
        uint8 (n, H * 3 / 2, W), new.
    """
    pixels = face.float() if face.dtype == torch.uint8 else face
    red, green, blue = pixels[:, 0], pixels[:, 1], pixels[:, 2]
    luma = (16.0 + 0.256788 * red + 0.504129 * green + 0.097906 * blue).clamp(0, 255).to(torch.uint8)
    u = (128.0 - 0.148223 * red - 0.290993 * green + 0.439216 * blue).clamp(0, 255).to(torch.uint8)
    v = (128.0 + 0.439216 * red - 0.367788 * green - 0.071427 * blue).clamp(0, 255).to(torch.uint8)
    u, v = u[:, ::2, ::2], v[:, ::2, ::2]
    out = canvas.clone()
    h, w = luma.shape[1:]
    height = canvas.shape[1] // 3 * 2
    out[:, y : y + h, x : x + w] = luma
    chroma = out[:, height + y // 2 : height + (y + h) // 2, x : x + w]
    chroma[:, :, 0::2] = u
    chroma[:, :, 1::2] = v
    return out


def sampling_grid(canvas_to_crop: torch.Tensor, h: int, w: int, crop_size: int = 512) -> torch.Tensor:
    """The grid of `eager_composite`, float32 (1, h, w, 2), made once per avatar.

    Args:
        canvas_to_crop: float (2, 3), rectangle pixels to crop pixels.
        h: Rows of the rectangle.
        w: Columns.
        crop_size: Side of the crop.
    """
    y, x = torch.meshgrid(torch.arange(h, dtype=torch.float64), torch.arange(w, dtype=torch.float64), indexing="ij")
    matrix = canvas_to_crop.double()
    u = matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2]
    v = matrix[1, 0] * x + matrix[1, 1] * y + matrix[1, 2]
    return (torch.stack([u, v], dim=-1) * (2.0 / (crop_size - 1)) - 1.0).float()[None]


def eager_composite(
    crops: torch.Tensor,
    grid: torch.Tensor,
    mask: torch.Tensor,
    background: torch.Tensor,
    canvas: torch.Tensor,
    x: int,
    y: int,
) -> torch.Tensor:
    """Sample, blend, then the five passes.

    Args:
        crops: uint8 (n, 512, 512, 3), RGB.
        grid: float32 (1, h, w, 2), of `sampling_grid`.
        mask: float32 (1, 1, h, w).
        background: float32 (1, 3, h, w), 0..255.
        canvas: uint8 (n, H * 3 / 2, W).
        x: Left edge, even.
        y: Top edge, even.

    Returns:
        uint8 (n, H * 3 / 2, W), new.
    """
    planes = crops.permute(0, 3, 1, 2).float()
    places = grid.expand(len(crops), -1, -1, -1)
    front = F.grid_sample(planes, places, mode="bilinear", padding_mode="border", align_corners=True)
    return five_pass_splice(background + mask * (front - background), canvas, x, y)
