"""From the dense motion network's last products to the sampled features: softmax, deformation, occlusion, trilinear samples.

The mask's 7 x 7 x 7 convolution and the occlusion's 7 x 7 one were done slice by slice in one 2-D convolution (`PRODUCTS` outputs:
seven depth taps of 22 motions, then one column per depth for the occlusion, which reads all depths). Here they are added up.

Volumes are channels-last. The `_torch` functions are the reference and the CPU path; CUDA tensors take
`kernels.sampling.mask_motion_triton`.
"""

from __future__ import annotations

import importlib.util

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.conv.depth_taps import summed
from kernels.conv.flat_maps import to_flat
from kernels.errors import ShapeError
from kernels.sampling.dense_motion import MASK_COLUMNS, TAPS, VIEWS, identity


def mask_motion(products: Tensor, bias: Tensor, kp_source: Tensor, kp_driving: Tensor) -> Tensor:
    """Deformation: the identity grid plus the keypoints' moves, weighted by the softmax over 22 motions.

    Args:
        products: (b, d, h, w, 176), contiguous.
        bias: float32 (22,), the mask's.
        kp_source: float32 (b, 21, 3).
        kp_driving: float32 (b, 21, 3).

    Returns:
        float32 (b, d, h, w, 3), x y z.

    Raises:
        ShapeError: Operands that do not fit.
    """
    if products.dim() != 5 or products.shape[4] < MASK_COLUMNS or not products.is_contiguous():
        raise ShapeError("products", str(tuple(products.shape)), f"contiguous (b, d, h, w, >= {MASK_COLUMNS})")
    if bias.shape != (VIEWS,) or kp_source.shape != (products.shape[0], VIEWS - 1, 3):
        got = f"{tuple(bias.shape)}, {tuple(kp_source.shape)}"
        raise ShapeError("bias, kp_source", got, f"({VIEWS},), ({products.shape[0]}, {VIEWS - 1}, 3)")
    if products.device.type != "cpu" and importlib.util.find_spec("triton") is not None:
        from kernels.sampling.mask_motion_triton import deform

        return deform(products, bias, kp_source, kp_driving)
    return mask_motion_torch(products, bias, kp_source, kp_driving)


def mask_motion_torch(products: Tensor, bias: Tensor, kp_source: Tensor, kp_driving: Tensor) -> Tensor:
    """`mask_motion` in plain torch."""
    batch, depth, height, width, _ = products.shape
    mask = torch.softmax(summed(products, TAPS, VIEWS) + bias.float(), dim=-1)
    moves = F.pad(kp_source - kp_driving, (0, 0, 1, 0)).float()
    moved = torch.matmul(mask.reshape(batch, -1, VIEWS), moves).reshape(batch, depth, height, width, 3)
    return identity(depth, height, width, products.device) + moved


def occlusion_rows(products: Tensor, bias: Tensor) -> Tensor:
    """Occlusion in 0..1, float32, flat (b (h + 1) (w + 1),): column d of slice d, summed over depth; a few small torch operators.

    Args:
        products: See `mask_motion`.
        bias: float32 (1,).
    """
    batch, depth, height, width, columns = products.shape
    diagonal = products.as_strided(
        (batch, height, width, depth),
        (depth * height * width * columns, width * columns, columns, height * width * columns + 1),
        products.storage_offset() + MASK_COLUMNS,
    )
    return to_flat(torch.sigmoid(diagonal.float().sum(-1, keepdim=True) + bias))[:, 0]


def sample_features(volume: Tensor, deformation: Tensor) -> Tensor:
    """Trilinear samples with the semantics of `kernels.sampling.grid_sample_3d`, laid out for a flat convolution.

    Args:
        volume: float16 or float32 (b, d, h, w, 32), contiguous.
        deformation: float32 (b, d, h, w, 3), contiguous.

    Returns:
        Flat (b (h + 1) (w + 1), d * 32), channel = depth * 32 + feature; type of `volume`.

    Raises:
        ShapeError: Operands that do not fit.
    """
    fits = volume.dim() == 5 and deformation.shape == (*volume.shape[:4], 3)
    if not fits or not (volume.is_contiguous() and deformation.is_contiguous()):
        got = f"{tuple(volume.shape)}, {tuple(deformation.shape)}"
        raise ShapeError("volume, deformation", got, "contiguous (b, d, h, w, c), (b, d, h, w, 3)")
    if volume.device.type != "cpu" and importlib.util.find_spec("triton") is not None:
        from kernels.sampling.mask_motion_triton import sample

        return sample(volume, deformation)
    return sample_features_torch(volume, deformation)


def sample_features_torch(volume: Tensor, deformation: Tensor) -> Tensor:
    """`sample_features` in plain torch."""
    planar = volume.permute(0, 4, 1, 2, 3).float()
    sampled = F.grid_sample(planar, deformation, mode="bilinear", padding_mode="zeros", align_corners=False)
    return to_flat(sampled.permute(0, 3, 4, 2, 1).flatten(3).to(volume.dtype))
