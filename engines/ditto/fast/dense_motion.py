"""The dense motion network with its 3-D convolutions done slice by slice: the same function on faster kernels.

What is done differently (all of it exact but for rounding):
* What depends on the source alone (compressed features, channels-last features) is made once per picture: `FastDenseMotion.source`.
* A k x k x k convolution is one 2-D convolution of all slices with k times the outputs, then a sum over depth together with bias,
  ReLU, pooling and the copy into the skip connection (`kernels.conv.depth_taps`). Channel counts are padded to multiples of 16.
* On the way up, a convolution of a doubled volume is four 2 x 2 convolutions of the small one: 4/9 of the multiplications.
* The occlusion's convolution rides along with the mask's as 16 more outputs: it reads the same places.
* The 7 x 7 kernel of these two is a 7 x 1 kernel over seven neighbours' channels side by side (`folded_depth_taps`).
* Sampling grids, heat maps, masks and sparse motions are never stored.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.ditto.folding import folded_parameters
from engines.networks.ditto.dense_motion import DenseMotionNetwork
from kernels.conv.depth_taps import depth_taps, doubled_depth_taps, doubled_kernels, folded_depth_taps
from kernels.sampling.dense_motion import CHANNELS, FEATURES, HEAT_FIRST, MASK_COLUMNS, PRODUCTS, VIEWS
from kernels.sampling.mask_motion import mask_motion, occlusion_rows, sample_features
from kernels.sampling.sparse_motion import sparse_motion

LEVELS = (64, 128, 256, 512, 1024)
UPPER = (512, 256, 128, 64, 32)
JOINED = UPPER[-1] + CHANNELS
"""Channels of the last join, 144: 32 from below, then the network's input."""


FOLD = 7
"""Width of the last kernel."""


class SourceTensors(NamedTuple):
    """What a source picture contributes; kept with the avatar.

    Attributes:
        volume: (n, 16, 64, 64, 32), its features channels-last.
        compressed: (n, 16, 64, 64, 4), what dense motion samples.
    """

    volume: Tensor
    compressed: Tensor


class FastDenseMotion(nn.Module):
    """Keypoints -> warped features and occlusion, flat.

    Args:
        network: Where the weights come from. Not changed.
        dtype: Type of weights and maps; biases, keypoints, positions and softmax are float32.
    """

    def __init__(self, network: DenseMotionNetwork, dtype: torch.dtype = torch.float16) -> None:
        super().__init__()
        self.dtype = dtype
        compress, compress_bias = folded_parameters(network.compress, network.norm)
        self._keep("compress", compress.flatten(1), compress_bias)
        order = _input_order()
        encoder, decoder = network.hourglass.encoder, network.hourglass.decoder
        for level, block in enumerate(encoder.down_blocks):
            weight, bias = folded_parameters(block.conv, block.norm)  # type: ignore[arg-type]  # a module list's items
            weight = _pick_inputs(weight, order) if level == 0 else weight
            self._keep(f"down_{level}", _by_tap(weight), bias)
        for level, block in enumerate(decoder.up_blocks):
            weight, bias = folded_parameters(block.conv, block.norm)  # type: ignore[arg-type]  # a module list's items
            phases = torch.stack([doubled_kernels(weight[:, :, tap]) for tap in range(3)], dim=1)
            self._keep(f"up_{level}", phases.flatten(0, 2), bias)
        joined = torch.cat([torch.arange(UPPER[-1]), torch.where(order < 0, order, order + UPPER[-1])])
        last, last_bias = folded_parameters(decoder.conv, decoder.norm)
        last = F.pad(_pick_inputs(last, joined), (0, 0, 0, 0, 0, 0, 0, 0, 0, JOINED - last.shape[0]))
        self._keep("last", _by_tap(last), F.pad(last_bias, (0, JOINED - last_bias.shape[0])))
        mask, mask_bias = folded_parameters(network.mask)
        hidden, hidden_bias = folded_parameters(network.occlusion)
        depth = hidden.shape[1] // mask.shape[1]
        by_depth = hidden[0].reshape(mask.shape[1], depth, 7, 7).transpose(0, 1)
        outputs = torch.cat([_by_tap(mask), by_depth])
        missing = (0, 0, 0, 0, 0, JOINED - outputs.shape[1], 0, PRODUCTS - MASK_COLUMNS - depth)
        wide = F.pad(outputs, missing)
        # the kernel's columns become channels: (out, in, 7, 7) -> (out, 7 * in, 7, 1)
        self._keep("mask", wide.permute(0, 3, 1, 2).flatten(1, 2).unsqueeze(-1), mask_bias)
        self.register_buffer("occlusion_bias", hidden_bias)

    def source(self, volume: Tensor) -> SourceTensors:
        """What depends on the source alone.

        Args:
            volume: (n, 32, 16, 64, 64), any float type; from the appearance extractor.
        """
        last = volume.permute(0, 2, 3, 4, 1).to(self.dtype).contiguous()
        weight, bias = self._part("compress")
        compressed = torch.relu(F.linear(last.float(), weight.float(), bias)).to(self.dtype)
        return SourceTensors(last, compressed.contiguous())

    def forward(self, source: SourceTensors, kp_source: Tensor, kp_driving: Tensor) -> tuple[Tensor, Tensor]:
        """Find the motion and warp.

        Args:
            source: n = B pictures.
            kp_source: float32 (B, 21, 3).
            kp_driving: float32 (B, 21, 3).

        Returns:
            Flat warped features (B 65 65, 512), channel = depth * 32 + feature, and flat float32 occlusion (B 65 65,).
        """
        products = self.products(source.compressed, kp_source, kp_driving)
        deformation = mask_motion(products, self._part("mask")[1], kp_source, kp_driving)
        occlusion_bias = self.get_buffer("occlusion_bias")
        return sample_features(source.volume, deformation), occlusion_rows(products, occlusion_bias)

    def products(self, compressed: Tensor, kp_source: Tensor, kp_driving: Tensor) -> Tensor:
        """Hourglass, mask and occlusion up to the sums over depth: (B, 16, 64, 64, 176)."""
        x, whole = sparse_motion(compressed, kp_source, kp_driving, JOINED)
        joins = [whole]
        for level, channels in enumerate(LEVELS):
            products, bias = self._slices(f"down_{level}", x, 1)
            skip = None
            if level + 1 < len(LEVELS):
                b, d, h, w = x.shape[:4]
                width = channels + UPPER[len(LEVELS) - 2 - level]
                skip = x.new_empty((b, d, h // 2, w // 2, width))
                joins.append(skip)
            x = depth_taps(products, bias, pool=True, skip=skip)
        for level in range(len(UPPER)):
            products, bias = self._slices(f"up_{level}", x, 1)
            x = joins.pop()
            doubled_depth_taps(products, bias, x)
        products, bias = self._slices("last", x, 1)
        return self._slices("mask", folded_depth_taps(products, bias, FOLD), (FOLD // 2, 0))[0]

    def _slices(self, name: str, x: Tensor, padding: int | tuple[int, int]) -> tuple[Tensor, Tensor]:
        """2-D convolution of every slice of (b, d, h, w, c), channels-last, and the bias that is still to be added."""
        weight, bias = self._part(name)
        y = F.conv2d(x.flatten(0, 1).permute(0, 3, 1, 2), weight, padding=padding)
        y = y.permute(0, 2, 3, 1).contiguous()
        return y.reshape(*x.shape[:2], *y.shape[1:]), bias

    def _keep(self, name: str, weight: Tensor, bias: Tensor) -> None:
        stored = weight.to(self.dtype)
        if stored.dim() == 4:
            stored = stored.contiguous(memory_format=torch.channels_last)
        self.register_buffer(f"{name}__weight", stored)
        self.register_buffer(f"{name}__bias", bias.float().contiguous())

    def _part(self, name: str) -> tuple[Tensor, Tensor]:
        return self.get_buffer(f"{name}__weight"), self.get_buffer(f"{name}__bias")


def _input_order() -> Tensor:
    """For each of `sparse_motion`'s 112 channels the reference's (5 per view: heat, then features), -1 where there is none."""
    order = torch.full((CHANNELS,), -1)
    for view in range(VIEWS):
        order[HEAT_FIRST + view] = view * (FEATURES + 1)
        for feature in range(FEATURES):
            order[view * FEATURES + feature] = view * (FEATURES + 1) + 1 + feature
    return order


def _pick_inputs(weight: Tensor, order: Tensor) -> Tensor:
    """Input channels of (out, in, 3, 3, 3) in another order, zeros where the order is -1."""
    kept = (order >= 0).to(weight.dtype).reshape(1, -1, 1, 1, 1)
    return weight[:, order.clamp_min(0)] * kept


def _by_tap(weight: Tensor) -> Tensor:
    """(out, in, k, k, k) -> (k * out, in, k, k), depth tap first."""
    return weight.permute(2, 0, 1, 3, 4).flatten(0, 1)
