"""What lies between the convolutions of a coarse-to-fine interpolation network: flow, warp, down-scaling and fusion.

A *side* is a frame with its features, (n, H, W, 8): red, green, blue in 0..1, up to four features, zero. A *head* is what one
block says about the whole frame, on a grid of 1 / up: (n, H / (up * S), W / (up * S), S * S * C), the C channels of the S x S
grid points of a cell one after the other (row by row): flow x, y to side 0, flow x, y to side 1 (in grid steps), logit, three
zeros, and, where C = 16, eight features.

Formulas, at pixel p of the full picture; `U` is bilinear upsampling by `up`, corners not aligned, clamped at the edge:

    flow(p)  = sum over heads of up * U(head flow)(p)                                          (pixels)
    logit(p) = U(last head's logit)(p), or the sum over all heads
    side_k'(p) = side_k(p + flow_k(p)), bilinear, clamped at the border                        (backward warp)

`refine_input` gives the next block's input at 1 / scale: the mean over the 2 x 2 pixels at each cell's centre (the pixel
itself at scale 1), which is bilinear down-scaling by an even number: side 0', side 1', (time, logit, flow / scale, 0, 0),
features or zeros. `fuse` gives the picture: side 0' * sigmoid(logit) + side 1' * (1 - sigmoid(logit)), rounded to levels.

Positions, flow, logits and weights are float32 whatever the type of the tensors. The functions with `_torch` are the
references and the CPU path; CUDA tensors take `kernels.rife.flow_refine_triton`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.errors import InvalidInputError, ShapeError
from kernels.rife.flow_heads import MAX_HEADS, SIDE_CHANNELS, Head
from kernels.sampling.backward_warp import backward_warp


def refine_input(
    side0: Tensor, side1: Tensor, times: Tensor, heads: Sequence[Head], scale: int, *, logits_add: bool
) -> Tensor:
    """Input of a block.

    Args:
        side0: (n, H, W, 8), H and W multiples of `scale`.
        side1: Likewise.
        times: float32 (n,).
        heads: Outputs of the blocks so far, 0 to 5; none means unwarped sides, no flow, no logit.
        scale: 1, or an even number.
        logits_add: Whether logits accumulate.

    Returns:
        (n, H / scale, W / scale, 32), the type of the sides.

    Raises:
        ShapeError: Tensors that do not fit.
        InvalidInputError: Another scale.
    """
    _validate(side0, side1, times, heads)
    if scale < 1 or (scale > 1 and scale % 2):
        raise InvalidInputError("scale", str(scale), "1 or an even number")
    if side0.shape[1] % scale or side0.shape[2] % scale:
        raise ShapeError("side0", str(tuple(side0.shape)), f"height and width that are multiples of {scale}")
    if side0.device.type == "cpu":
        return refine_input_torch(side0, side1, times, heads, scale, logits_add=logits_add)
    from kernels.rife.flow_refine_triton import launch_refine  # here, so that Triton is loaded on a GPU only

    return launch_refine(side0, side1, times, heads, scale, logits_add)


def fuse(side0: Tensor, side1: Tensor, heads: Sequence[Head], height: int, width: int, *, logits_add: bool) -> Tensor:
    """The picture in between.

    Args:
        side0: (n, H, W, 8).
        side1: Likewise.
        heads: Outputs of all blocks, at least one.
        height: Rows of the picture, <= H.
        width: Columns, <= W.
        logits_add: Whether logits accumulate.

    Returns:
        uint8 (n, height, width, 3), rounded half up, clamped.

    Raises:
        ShapeError: Tensors that do not fit.
    """
    _validate(side0, side1, None, heads)
    if not heads or not 0 < height <= side0.shape[1] or not 0 < width <= side0.shape[2]:
        raise ShapeError("heads, height, width", f"{len(heads)}, {height}, {width}", "a head, a size within the sides")
    if side0.device.type == "cpu":
        return fuse_torch(side0, side1, heads, height, width, logits_add=logits_add)
    from kernels.rife.flow_refine_triton import launch_fuse

    return launch_fuse(side0, side1, heads, height, width, logits_add)


def refine_input_torch(
    side0: Tensor, side1: Tensor, times: Tensor, heads: Sequence[Head], scale: int, *, logits_add: bool
) -> Tensor:
    """The formula in plain torch; arguments and result as in `refine_input`."""
    n, height, width, _ = side0.shape
    planes = [_planes(side0), _planes(side1)]
    plane = times.float().reshape(-1, 1, 1, 1).expand(n, 1, height, width)
    zeros = torch.zeros(n, 1, height, width, device=side0.device)
    if heads:
        flow, logit = flow_and_logit(heads, logits_add)
        parts = [*_warped(planes, flow), plane, logit, flow / scale, zeros, zeros]
        features = upsampled(heads[-1])[:, SIDE_CHANNELS:]
        parts.append(features if features.shape[1] else zeros.expand(-1, 8, -1, -1))
    else:
        parts = [*planes, plane, zeros.expand(-1, 15, -1, -1)]
    whole = torch.cat(parts, dim=1)
    if scale > 1:
        whole = F.interpolate(whole, scale_factor=1.0 / scale, mode="bilinear", align_corners=False)
    return whole.permute(0, 2, 3, 1).to(side0.dtype).contiguous()


def fuse_torch(
    side0: Tensor, side1: Tensor, heads: Sequence[Head], height: int, width: int, *, logits_add: bool
) -> Tensor:
    """The formula in plain torch; arguments and result as in `fuse`."""
    flow, logit = flow_and_logit(heads, logits_add)
    first, second = _warped([_planes(side0), _planes(side1)], flow)
    share = torch.sigmoid(logit)
    picture = (first * share + second * (1.0 - share))[:, :3, :height, :width]
    levels = (picture * 255.0 + 0.5).floor().clamp(0.0, 255.0)
    return levels.to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def flow_and_logit(heads: Sequence[Head], logits_add: bool) -> tuple[Tensor, Tensor]:
    """Total flow (n, 4, H, W) in pixels and logit (n, 1, H, W), float32."""
    grids = [upsampled(head) for head in heads]
    flow = torch.stack([grid[:, :4] * head.up for grid, head in zip(grids, heads, strict=True)]).sum(0)
    logits = [grid[:, 4:5] for grid in grids]
    return flow, torch.stack(logits).sum(0) if logits_add else logits[-1]


def upsampled(head: Head) -> Tensor:
    """A head at full size: float32 (n, channels, H, W)."""
    n, h, w, _ = head.values.shape
    cells = head.values.float().reshape(n, h, w, head.sub, head.sub, head.channels)
    grid = cells.permute(0, 5, 1, 3, 2, 4).reshape(n, head.channels, h * head.sub, w * head.sub)
    return grid if head.up == 1 else F.interpolate(grid, scale_factor=head.up, mode="bilinear", align_corners=False)


def local_mean(grid: Tensor, window: int) -> Tensor:
    """Mean over the `window` x `window` (odd) points around each of (n, c, h, w); at the edges over the pixels that exist."""
    return grid if window == 1 else F.avg_pool2d(grid, window, 1, window // 2, count_include_pad=False)


def averaged(head: Head, window: int) -> Head:
    """The head whose every channel is the `local_mean` over its grid, across cells; plain torch on any device, float32 inside.

    Raises:
        InvalidInputError: A window that is even or below 1.
    """
    if window < 1 or window % 2 == 0:
        raise InvalidInputError("window", str(window), "an odd number")
    if window == 1:
        return head
    n, h, w, _ = head.values.shape
    sub, channels = head.sub, head.channels
    cells = head.values.reshape(n, h, w, sub, sub, channels).permute(0, 5, 1, 3, 2, 4)
    grid = cells.to(torch.float32, memory_format=torch.contiguous_format).reshape(n, channels, h * sub, w * sub)
    mean = local_mean(grid, window).reshape(n, channels, h, sub, w, sub).permute(0, 2, 4, 3, 5, 1)
    values = mean.to(head.values.dtype, memory_format=torch.contiguous_format).reshape(head.values.shape)
    return Head(values, head.up, sub, channels)


def _planes(side: Tensor) -> Tensor:
    return side.permute(0, 3, 1, 2).float()


def _warped(planes: Sequence[Tensor], flow: Tensor) -> list[Tensor]:
    return [backward_warp(plane, flow[:, 2 * k : 2 * k + 2]) for k, plane in enumerate(planes)]


def _validate(side0: Tensor, side1: Tensor, times: Tensor | None, heads: Sequence[Head]) -> None:
    n, height, width = side0.shape[:3]
    if side0.dim() != 4 or side0.shape[3] != SIDE_CHANNELS or side0.shape != side1.shape or 0 in side0.shape:
        raise ShapeError("side0, side1", f"{tuple(side0.shape)}, {tuple(side1.shape)}", "two equal (n, H, W, 8)")
    if times is not None and (times.dtype != torch.float32 or tuple(times.shape) != (n,)):
        raise ShapeError("times", f"{times.dtype} {tuple(times.shape)}", f"float32 ({n},)")
    if len(heads) > MAX_HEADS:
        raise ShapeError("heads", str(len(heads)), f"at most {MAX_HEADS}")
    for head in heads:
        cell = head.up * head.sub
        wanted = (n, height // cell, width // cell, head.sub * head.sub * head.channels)
        if tuple(head.values.shape) != wanted or height % cell or width % cell or head.values.dtype != side0.dtype:
            raise ShapeError("head", f"{head.values.dtype} {tuple(head.values.shape)}", f"{side0.dtype} {wanted}")
        if head.channels not in (8, 16):
            raise ShapeError("head", f"{head.channels} channels", "8 or 16")
