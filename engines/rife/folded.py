"""IFNet rewritten for speed, channels last: every convolution one `conv3x3`, everything between them one `refine_input` or `fuse`.

What is exact about it: the learned beta of a residual is folded into its convolution; a 4 x 4 transposed convolution of
stride 2 is a 3 x 3 convolution with four times the channels and a shuffle, and the head's own shuffle only reorders channels
again, so that no shuffle is ever executed; bilinear down-scaling by an even number reads the 2 x 2 pixels at a cell's centre,
so flow, logit and warps are evaluated there only and the full-size flow is never stored. Frames are encoded once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.networks.rewriting import UnsupportedNetworkError
from engines.networks.rife.blocks import SLOPE, IFBlock, PlainEncoder, PReluBlock, StackedEncoder
from engines.networks.rife.ifnet import IFNet
from kernels.conv.conv3x3 import conv3x3
from kernels.conv.conv3x3_layout import Conv3x3, make_conv3x3
from kernels.rife.flow_heads import INPUT_CHANNELS, SIDE_CHANNELS, Head
from kernels.rife.flow_refine import averaged, fuse, refine_input

_HALVES: Final = ({0: 1, -1: 3}, {0: 2, 1: 0})
"""Half of a cell -> {offset of the input: row of the 4 x 4 kernel} of a transposed convolution of stride 2 and padding 1."""
_FLOW_AT, _LOGIT_AT, _TIME_AT, _FEATURES_AT = 18, 17, 16, 24


@dataclass(frozen=True)
class FoldedBlock:
    """A block, folded.

    Attributes:
        down: Two convolutions of stride 2.
        body: Eight convolutions.
        head: To the grid points of a cell.
        scale: The block works at 1 / scale.
        sub: Grid points per cell and axis.
        channels: Per grid point.
        outer: One residual around the body, added after the last activation (4.0), instead of one per convolution.
    """

    down: tuple[Conv3x3, Conv3x3]
    body: tuple[Conv3x3, ...]
    head: Conv3x3
    scale: int
    sub: int
    channels: int
    outer: bool

    def run(self, x: Tensor) -> Head:
        """(n, h, w, 32) at 1 / scale -> what the block says about the whole frame."""
        x = conv3x3(conv3x3(x, self.down[0]), self.down[1])
        entry = x
        for index, conv in enumerate(self.body):
            if not self.outer:
                x = conv3x3(x, conv, x, "before")
            elif index + 1 < len(self.body):
                x = conv3x3(x, conv)
            else:
                x = conv3x3(x, conv, entry, "after")
        return Head(conv3x3(x, self.head), self.scale * 4 // self.sub, self.sub, self.channels)


@dataclass(frozen=True)
class FoldedIFNet:
    """A network, folded.

    Attributes:
        encoder: Convolutions of the image encoder, empty where there is none.
        blocks: Coarse to fine.
        multiple: Sizes are padded to a multiple of this.
        logits_add: Whether fusion logits accumulate.
        window: What the last block says is averaged over this many grid points a side.
    """

    encoder: tuple[Conv3x3, ...]
    blocks: tuple[FoldedBlock, ...]
    multiple: int
    logits_add: bool
    window: int = 1
    dtype: torch.dtype = field(default=torch.float32)

    def to(self, device: torch.device | str, dtype: torch.dtype) -> FoldedIFNet:
        """On a device, convolutions in another precision."""

        def moved(convs: tuple[Conv3x3, ...]) -> tuple[Conv3x3, ...]:
            return tuple(conv.to(device, dtype) for conv in convs)

        blocks = tuple(
            FoldedBlock(
                (block.down[0].to(device, dtype), block.down[1].to(device, dtype)),
                moved(block.body),
                block.head.to(device, dtype),
                block.scale,
                block.sub,
                block.channels,
                block.outer,
            )
            for block in self.blocks
        )
        return FoldedIFNet(moved(self.encoder), blocks, self.multiple, self.logits_add, self.window, dtype)

    def padded(self, height: int, width: int) -> tuple[int, int]:
        """Size of the sides of a frame."""
        return height + -height % self.multiple, width + -width % self.multiple

    def encode(self, frames: Tensor) -> Tensor:
        """uint8 (n, h, w, 3), contiguous -> sides (n, H, W, 8)."""
        height, width = self.padded(*frames.shape[1:3])
        side = _pack(frames, height, width, self.dtype)
        if self.encoder:
            x = side
            for conv in self.encoder:
                x = conv3x3(x, conv)
            _place(x, side)
        return side

    def between(self, before: Tensor, after: Tensor, times: Tensor, height: int, width: int) -> Tensor:
        """Sides (n, H, W, 8) and float32 times (n,) -> uint8 (n, height, width, 3)."""
        heads: list[Head] = []
        for block in self.blocks:
            x = refine_input(before, after, times, heads, block.scale, logits_add=self.logits_add)
            heads.append(block.run(x))
        heads[-1] = averaged(heads[-1], self.window)
        return fuse(before, after, heads, height, width, logits_add=self.logits_add)


def fold(network: IFNet) -> FoldedIFNet:
    """Fold a network; float32, on its device.

    Raises:
        UnsupportedNetworkError: Ensembles, and scales that are neither 1 nor even.
    """
    scales = [round(scale) for scale in network.scales]
    if network.ensemble or any(
        s != w or (s > 1 and s % 2) or s < 1 for s, w in zip(scales, network.scales, strict=True)
    ):
        raise UnsupportedNetworkError(
            "network", f"ensemble={network.ensemble}, scales {network.scales}", "1 or even scales"
        )
    blocks = []
    for index, scale in enumerate(scales):
        block = getattr(network, f"block{index}")
        blocks.append(_fold_block(block, network, scale, first=index == 0, last=index + 1 == len(scales)))
    encoder = _fold_encoder(getattr(network, "encode", None))
    return FoldedIFNet(encoder, tuple(blocks), network.multiple, network.layout.mask_adds, network.layout.window)


def _fold_block(block: Any, network: IFNet, scale: int, *, first: bool, last: bool) -> FoldedBlock:
    places = _input_places(bool(network.layout.encoder), network.layout.carried, first)
    if isinstance(block, IFBlock):
        downs: list[tuple[Any, Any]] = [(step[0], SLOPE) for step in cast("Any", block.conv0)]
        body = [_fold_residual(step) for step in block.convblock]
        keep = 5 if last or not block.carried else 5 + block.carried
        head, sub, channels, outer = _fold_shuffled(cast("Any", block.lastconv[0]), keep)
    elif isinstance(block, PReluBlock):
        downs = [(step[0], step[1].weight) for step in cast("Any", block.conv0)]
        body = [make_conv3x3(step[0].weight, step[0].bias, step[1].weight) for step in cast("Any", block.convblock)]
        weight, bias = _as_conv3x3(block.lastconv)
        head, sub, channels, outer = _grouped(weight, bias, 4, 5, 8), 2, 8, True
    else:
        raise UnsupportedNetworkError("block", type(block).__name__, "IFBlock or PReluBlock")
    down = (
        make_conv3x3(_spread(downs[0][0].weight, places), downs[0][0].bias, downs[0][1], 2),
        make_conv3x3(downs[1][0].weight, downs[1][0].bias, downs[1][1], 2),
    )
    return FoldedBlock(down, tuple(body), head, scale, sub, channels, outer)


def _fold_residual(step: Any) -> Conv3x3:
    beta = step.beta.flatten()
    return make_conv3x3(step.conv.weight * beta[:, None, None, None], step.conv.bias * beta, SLOPE)


def _fold_encoder(encoder: nn.Module | None) -> tuple[Conv3x3, ...]:
    if encoder is None:
        return ()
    if isinstance(encoder, PlainEncoder):
        convs, last, slope = [encoder[0]], cast("Any", encoder[1]), 1.0
    elif isinstance(encoder, StackedEncoder):
        convs, last, slope = [encoder.cnn0, encoder.cnn1, encoder.cnn2], encoder.cnn3, SLOPE
    else:
        raise UnsupportedNetworkError("encoder", type(encoder).__name__, "PlainEncoder or StackedEncoder")
    layers = [cast("Any", conv) for conv in convs]
    folded = [make_conv3x3(conv.weight, conv.bias, slope, 1 if k else 2) for k, conv in enumerate(layers)]
    weight, bias = _as_conv3x3(last)
    return (*folded, _grouped(weight, bias, 4, 4, 4))


def _input_places(encoded: bool, carried: int, first: bool) -> list[int]:
    """Where each channel that the checkpoint knows lies in `refine_input`'s."""
    places = [0, 1, 2, 8, 9, 10]
    if encoded:
        places += [3, 4, 5, 6, 11, 12, 13, 14]
    places.append(_TIME_AT)
    if not first:
        places += [_LOGIT_AT, *range(_FEATURES_AT, _FEATURES_AT + carried), *range(_FLOW_AT, _FLOW_AT + 4)]
    return places


def _spread(weight: Tensor, places: list[int]) -> Tensor:
    """(o, i, 3, 3) -> (o, 32, 3, 3), input channels put where they lie."""
    spread = weight.new_zeros((weight.shape[0], INPUT_CHANNELS, 3, 3))
    spread[:, places] = weight
    return spread


def _as_conv3x3(transposed: nn.ConvTranspose2d) -> tuple[Tensor, Tensor]:
    """A transposed convolution (i, o, 4, 4) of stride 2 as (4 * o, i, 3, 3): the halves of a cell row by row, then o."""
    weight, bias = transposed.weight, transposed.bias
    if bias is None:
        raise UnsupportedNetworkError("transposed convolution", "no bias", "a bias")
    i, o = weight.shape[:2]
    made = weight.new_zeros((2, 2, o, i, 3, 3))
    for half_y, rows in enumerate(_HALVES):
        for half_x, columns in enumerate(_HALVES):
            for dy, ky in rows.items():
                for dx, kx in columns.items():
                    made[half_y, half_x, :, :, dy + 1, dx + 1] = weight[:, :, ky, kx].T
    return made.reshape(4 * o, i, 3, 3), bias.repeat(4)


def _grouped(weight: Tensor, bias: Tensor, groups: int, keep: int, channels: int) -> Conv3x3:
    """`groups` times o output channels -> `groups` times `channels`: the first `keep` of each group, then zeros."""
    grouped = weight.reshape(groups, -1, *weight.shape[1:])[:, :keep]
    padded = F.pad(grouped, (0, 0, 0, 0, 0, 0, 0, channels - keep)).reshape(groups * channels, *weight.shape[1:])
    return make_conv3x3(padded, F.pad(bias.reshape(groups, -1)[:, :keep], (0, channels - keep)).flatten())


def _fold_shuffled(last: nn.ConvTranspose2d, keep: int) -> tuple[Conv3x3, int, int, bool]:
    """The head of an `IFBlock`: transposed convolution and shuffle, as the 4 x 4 grid points of a cell."""
    weight, bias = _as_conv3x3(last)
    count, i = weight.shape[0] // 16, weight.shape[1]
    # (half y, half x, channel, sub y, sub x) -> (half y, sub y, half x, sub x, channel)
    ordered = weight.reshape(2, 2, count, 2, 2, i, 3, 3).permute(0, 3, 1, 4, 2, 5, 6, 7).reshape(16 * count, i, 3, 3)
    biases = bias.reshape(2, 2, count, 2, 2).permute(0, 3, 1, 4, 2).flatten()
    channels = 8 if keep <= 8 else 16
    grouped, grouped_bias = _features_apart(ordered, biases, count, keep)
    return _grouped(grouped, grouped_bias, 16, channels if keep > 8 else keep, channels), 4, channels, False


def _features_apart(weight: Tensor, bias: Tensor, count: int, keep: int) -> tuple[Tensor, Tensor]:
    """Flow and logit, then, from channel 8 on, the features; nothing moves where none are kept."""
    if keep <= 8:
        return weight, bias
    groups = weight.reshape(16, count, *weight.shape[1:])
    apart = weight.new_zeros((16, 16, *weight.shape[1:]))
    apart[:, :5], apart[:, 8 : 8 + keep - 5] = groups[:, :5], groups[:, 5:keep]
    biases = bias.new_zeros((16, 16))
    biases[:, :5], biases[:, 8 : 8 + keep - 5] = bias.reshape(16, count)[:, :5], bias.reshape(16, count)[:, 5:keep]
    return apart.reshape(256, *weight.shape[1:]), biases.flatten()


def _pack(frames: Tensor, height: int, width: int, dtype: torch.dtype) -> Tensor:
    if frames.device.type == "cuda":
        from kernels.rife.flow_refine_triton import launch_pack

        return launch_pack(frames.contiguous(), height, width, dtype)
    n, rows, columns, _ = frames.shape
    side = torch.zeros((n, height, width, SIDE_CHANNELS), dtype=dtype, device=frames.device)
    side[:, :rows, :columns, :3] = (frames.float() / 255.0).to(dtype)
    return side


def _place(values: Tensor, side: Tensor) -> None:
    if side.device.type == "cuda":
        from kernels.rife.flow_refine_triton import launch_place

        launch_place(values, side)
        return
    n, h, w, _ = values.shape
    cells = values.reshape(n, h, w, 2, 2, 4).permute(0, 1, 3, 2, 4, 5)
    side[..., 3:7] = cells.reshape(n, 2 * h, 2 * w, 4)
