"""Everything behind the feature warp as one module, folded and exportable: `third`, `fourth`, occlusion, SPADE decoder."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.ditto.folding import folded_conv2d
from engines.networks.ditto.convolutions import fold_spectral
from engines.networks.ditto.decoder import MIDDLE_BLOCKS, SLOPE, Spade, SpadeDecoder, SpadeResidualBlock
from engines.networks.ditto.warp_network import LEAKY_SLOPE, WarpNetwork
from kernels.norms import EPS


class FusedPostWarpDecoder(nn.Module):
    """Warped features and occlusion -> picture.

    Plain operators only (no 5-D tensor, no grid sample), batch norm and spectral norm folded into weights, instance norm in float32
    whatever the type of the module: it exports to ONNX (opset 18 and below) with a dynamic batch, and runs in float32 or after
    `.half()`. In float32 it is `decoder(warp.post_warp(...))` up to rounding (1e-5 on formula weights).

    Args:
        warp: Where `third` and `fourth` come from. Not changed.
        decoder: The decoder. Not changed.
    """

    def __init__(self, warp: WarpNetwork, decoder: SpadeDecoder) -> None:
        super().__init__()
        self.third = folded_conv2d(warp.third.conv, warp.third.norm)
        self.fourth = folded_conv2d(warp.fourth)
        self.decoder = copy.deepcopy(decoder)
        fold_spectral(self.decoder)
        self.eval().requires_grad_(False)

    def forward(self, warped: Tensor, occlusion: Tensor) -> Tensor:
        """Draw.

        Args:
            warped: (B, 512, 64, 64), the warped volume (B, 32, 16, 64, 64) with channels and depth joined (c * 16 + d).
            occlusion: (B, 1, 64, 64), 0..1.

        Returns:
            (B, 3, 512, 512), RGB in 0..1.
        """
        feature = self.fourth(F.leaky_relu(self.third(warped), LEAKY_SLOPE)) * occlusion
        return self.draw(feature)

    def draw(self, feature: Tensor) -> Tensor:
        """(B, 256, 64, 64) -> (B, 3, 512, 512)."""
        decoder = self.decoder
        x = decoder.fc(feature)
        for index in range(MIDDLE_BLOCKS):
            x = _block(getattr(decoder, f"G_middle_{index}"), x, feature)
        x = _block(decoder.up_0, F.interpolate(x, scale_factor=2.0), feature)
        x = _block(decoder.up_1, F.interpolate(x, scale_factor=2.0), feature)
        return torch.sigmoid(decoder.conv_img(F.leaky_relu(x, SLOPE)))


def _block(block: SpadeResidualBlock, x: Tensor, segment: Tensor) -> Tensor:
    normed = instance_norm(x)  # norm_0 and norm_s read the same picture
    shortcut = block.conv_s(_modulate(block.norm_s, normed, segment)) if block.widens else x
    y = block.conv_0(F.leaky_relu(_modulate(block.norm_0, normed, segment), SLOPE))
    y = block.conv_1(F.leaky_relu(_modulate(block.norm_1, instance_norm(y), segment), SLOPE))
    out: Tensor = shortcut + y
    return out


def _modulate(spade: Spade, normed: Tensor, segment: Tensor) -> Tensor:
    scale = normed.shape[-1] // segment.shape[-1]
    shared = spade.mlp_shared(F.interpolate(segment, scale_factor=float(scale)) if scale > 1 else segment)
    out: Tensor = normed * (1.0 + spade.mlp_gamma(shared)) + spade.mlp_beta(shared)
    return out


def instance_norm(x: Tensor) -> Tensor:
    """Each channel of each picture to mean 0 and variance 1, statistics in float32; (B, C, H, W) -> the same."""
    wide = x.float()
    centred = wide - wide.mean(dim=(2, 3), keepdim=True)
    return (centred * torch.rsqrt(centred.square().mean(dim=(2, 3), keepdim=True) + EPS)).to(x.dtype)
