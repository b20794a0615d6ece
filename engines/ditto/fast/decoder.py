"""`third`, `fourth`, occlusion and the SPADE decoder over flat stacks: the same function in fewer, larger steps.

What is done differently (all of it exact but for rounding):
* Biases in front of an instance norm are dropped: it subtracts every channel's mean. That is all of them but the last block's.
* `mlp_shared` of the twelve inner norms is one convolution; on the enlarged maps it is nine products per *small* place (1/4 and
  1/16 of the multiplications, `kernels.conv.enlarged_taps`).
* gamma and beta are applied where they are computed and never stored. norm_0 and norm_s share their statistics; enlarged pictures
  have the small ones' statistics and are never stored either.
* The shortcut's convolution is linear: conv_s(z (1 + gamma) + beta) = conv_s(z (1 + gamma)) + (conv_s beta)(shared), and the last
  is one 3 x 3 convolution with half (up_0) or a quarter (up_1) of beta's outputs.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from engines.ditto.folding import folded_parameters, spectral_parameters
from engines.networks.ditto.convolutions import SpectralConv2d
from engines.networks.ditto.decoder import MIDDLE_BLOCKS, SLOPE, Spade, SpadeDecoder, SpadeResidualBlock
from engines.networks.ditto.warp_network import LEAKY_SLOPE, WarpNetwork
from kernels.conv.enlarged_taps import TAPS, enlarged_taps
from kernels.conv.flat_convolution import (
    flat_convolution,
    flat_convolution_with_statistics,
    flat_modulated_convolution,
    interleave_modulation,
    pack_weight,
)
from kernels.conv.flat_maps import FlatShape
from kernels.conv.instance_norm import Normed, Statistics

SIZE = 64
"""Height and width of the feature map."""
LOGIT_COLUMNS = 16
"""Outputs of the last convolution: 12 logits, and zeros up to what the matrix units take."""
Parameters = dict[str, Tensor]


class FastDecoder(nn.Module):
    """Warped features -> logits of the picture.

    Args:
        warp: Where `third` and `fourth` come from. Not changed.
        decoder: The decoder. Not changed.
        depth: Depth of the warped volume.
        dtype: Type of weights and maps; biases and statistics are float32.
    """

    def __init__(
        self, warp: WarpNetwork, decoder: SpadeDecoder, depth: int = 16, dtype: torch.dtype = torch.float16
    ) -> None:
        super().__init__()
        self.dtype = dtype
        third, third_bias = folded_parameters(warp.third.conv, warp.third.norm)
        by_depth = third.unflatten(1, (-1, depth)).transpose(1, 2).flatten(1, 2)  # type: ignore[no-untyped-call]  # torch's own
        fourth, fourth_bias = folded_parameters(warp.fourth)
        self._keep("third", {"weight": pack_weight(by_depth), "bias": third_bias})
        self._keep("fourth", {"weight": pack_weight(fourth), "bias": fourth_bias})
        self._keep("fc", {"weight": pack_weight(decoder.fc.weight.detach())})
        blocks = [cast(SpadeResidualBlock, getattr(decoder, f"G_middle_{index}")) for index in range(MIDDLE_BLOCKS)]
        inner = [norm for block in blocks for norm in (block.norm_0, block.norm_1)]
        self._keep(
            "shared",
            {
                "weight": torch.cat([pack_weight(_shared(norm).weight.detach()) for norm in inner]),
                "bias": torch.cat([_bias(_shared(norm)) for norm in inner]),
            },
        )
        for index, block in enumerate(blocks):
            self._keep(f"middle_{index}_norm_0", _modulation(block.norm_0))
            self._keep(f"middle_{index}_norm_1", _modulation(block.norm_1))
            self._keep(f"middle_{index}_conv_0", _spectral(block.conv_0))
            self._keep(f"middle_{index}_conv_1", _spectral(block.conv_1))
        for name, block in (("up_0", decoder.up_0), ("up_1", decoder.up_1)):
            for part, values in _upper_block(block).items():
                self._keep(f"{name}_{part}", values)
        last = cast(nn.Conv2d, decoder.conv_img[0])
        missing = LOGIT_COLUMNS - last.weight.shape[0]
        weight = torch.nn.functional.pad(pack_weight(last.weight.detach()), (0, 0, 0, missing))
        self._keep("picture", {"weight": weight, "bias": torch.nn.functional.pad(_bias(last), (0, missing))})

    def forward(self, warped: Tensor, occlusion: Tensor, shape: FlatShape) -> Tensor:
        """Draw.

        Args:
            warped: Flat (rows, 512), channel = depth * 32 + feature.
            occlusion: Flat float32 (rows,).
            shape: Their extent, B x 64 x 64.

        Returns:
            Flat float32 logits (rows of the fourfold size, 16), for `kernels.conv.shuffled_pixels`.
        """
        third = self._part("third")
        feature = flat_convolution(warped, third["weight"], shape, 3, bias=third["bias"], slope=LEAKY_SLOPE)
        fourth = self._part("fourth")
        feature = flat_convolution(feature, fourth["weight"], shape, 1, bias=fourth["bias"], row_scale=occlusion)
        shared = self._part("shared")
        maps = flat_convolution(
            feature, shared["weight"], shape, 3, bias=shared["bias"], slope=0.0, planes=2 * MIDDLE_BLOCKS
        )
        x, statistics = flat_convolution_with_statistics(feature, self._part("fc")["weight"], shape, 3)
        for index in range(MIDDLE_BLOCKS):
            x, statistics = self._middle(f"middle_{index}", maps[2 * index : 2 * index + 2], x, statistics, shape)
        x, more = self._upper("up_0", feature, shape, Normed(x, shape, statistics, 2), last=False)
        assert more is not None  # noqa: S101 - not the last block
        doubled = shape.scaled(2)
        x, _ = self._upper("up_1", feature, shape, Normed(x, doubled, more, 2), last=True)
        picture = self._part("picture")
        return flat_convolution(x, picture["weight"], doubled.scaled(2), 3, bias=picture["bias"], dtype=torch.float32)

    def _middle(
        self, name: str, maps: Tensor, x: Tensor, statistics: Statistics, shape: FlatShape
    ) -> tuple[Tensor, Statistics]:
        y = self._modulated(f"{name}_norm_0", maps[0], shape, Normed(x, shape, statistics))
        y, of_y = flat_convolution_with_statistics(y, self._part(f"{name}_conv_0")["weight"], shape, 3)
        y = self._modulated(f"{name}_norm_1", maps[1], shape, Normed(y, shape, of_y))
        return flat_convolution_with_statistics(y, self._part(f"{name}_conv_1")["weight"], shape, 3, residual=x)

    def _upper(
        self, name: str, feature: Tensor, base: FlatShape, normed: Normed, *, last: bool
    ) -> tuple[Tensor, Statistics | None]:
        shape = normed.shape.scaled(normed.scale)
        taps = self._part(f"{name}_taps")
        products = flat_convolution(feature, taps["weight"], base, 1)
        biases = taps["bias"]
        shared = [
            enlarged_taps(products, biases[i], base, shape.width // base.width, i * TAPS * biases.shape[1])
            for i in range(3)
        ]
        y = self._modulated(f"{name}_norm_0", shared[0], shape, normed)
        y, of_y = flat_convolution_with_statistics(y, self._part(f"{name}_conv_0")["weight"], shape, 3)
        y = self._modulated(f"{name}_norm_1", shared[2], shape, Normed(y, shape, of_y))
        scale = self._part(f"{name}_norm_s")
        shortcut = flat_modulated_convolution(
            shared[1], scale["weight"], scale["bias"], shape, normed, slope=1.0, shift=False
        )
        shortcut = flat_convolution(shortcut, self._part(f"{name}_conv_s")["weight"], shape, 1)
        shortcut = flat_convolution(shared[1], self._part(f"{name}_beta_s")["weight"], shape, 3, residual=shortcut)
        final = self._part(f"{name}_conv_1")
        if not last:
            return flat_convolution_with_statistics(y, final["weight"], shape, 3, residual=shortcut)
        return flat_convolution(y, final["weight"], shape, 3, bias=final["bias"], slope=SLOPE, residual=shortcut), None

    def _modulated(self, name: str, shared: Tensor, shape: FlatShape, normed: Normed) -> Tensor:
        part = self._part(name)
        return flat_modulated_convolution(shared, part["weight"], part["bias"], shape, normed, slope=SLOPE)

    def _keep(self, name: str, values: Parameters) -> None:
        for kind, value in values.items():
            dtype = torch.float32 if kind == "bias" else self.dtype
            self.register_buffer(f"{name}__{kind}", value.to(dtype).contiguous())

    def _part(self, name: str) -> Parameters:
        found = {kind: self._buffers.get(f"{name}__{kind}") for kind in ("weight", "bias")}
        return {kind: value for kind, value in found.items() if value is not None}


def _upper_block(block: SpadeResidualBlock) -> dict[str, Parameters]:
    """Weights of a widening block; `taps` holds norm_0's, norm_s's and norm_1's shared maps."""
    norms = (block.norm_0, block.norm_s, block.norm_1)
    taps = [_shared(norm).weight.detach().permute(2, 3, 0, 1).flatten(0, 2) for norm in norms]
    shortcut, _ = spectral_parameters(block.conv_s)
    flat_shortcut = shortcut.flatten(1).double()
    beta = block.norm_s.mlp_beta
    beta_weight = torch.einsum("os,sikl->oikl", flat_shortcut, beta.weight.detach().double()).float()
    beta_bias = (flat_shortcut @ _bias(beta).double()).float()
    last, last_bias = spectral_parameters(block.conv_1)
    gamma = block.norm_s.mlp_gamma
    return {
        "taps": {"weight": torch.cat(taps), "bias": torch.stack([_bias(_shared(norm)) for norm in norms])},
        "norm_0": _modulation(block.norm_0),
        "norm_1": _modulation(block.norm_1),
        "norm_s": {"weight": pack_weight(gamma.weight.detach()), "bias": _bias(gamma)},
        "conv_0": _spectral(block.conv_0),
        "conv_1": {"weight": pack_weight(last), "bias": last_bias + beta_bias},
        "conv_s": {"weight": pack_weight(shortcut)},
        "beta_s": {"weight": pack_weight(beta_weight)},
    }


def _modulation(norm: Spade) -> Parameters:
    gamma, beta = norm.mlp_gamma, norm.mlp_beta
    weight = interleave_modulation(pack_weight(gamma.weight.detach()), pack_weight(beta.weight.detach()))
    return {"weight": weight, "bias": interleave_modulation(_bias(gamma), _bias(beta))}


def _spectral(conv: SpectralConv2d) -> Parameters:
    """Weight alone: an instance norm follows."""
    return {"weight": pack_weight(spectral_parameters(conv)[0])}


def _shared(norm: Spade) -> nn.Conv2d:
    return cast(nn.Conv2d, norm.mlp_shared[0])


def _bias(conv: nn.Conv2d) -> Tensor:
    assert conv.bias is not None  # noqa: S101 - these convolutions have one
    return conv.bias.detach().float()
