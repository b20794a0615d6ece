"""IFNet of RIFE 4.0, 4.6, 4.9, 4.25 and of our own `mini`: a frame in between two frames (facts: rife.md, sections 1 and 2).

Coarse to fine, every block refines one 4-channel flow (x, y to frame 0, x, y to frame 1, in pixels) and one fusion logit at full
padded resolution. State-dict names are those of the public checkpoints without their `module.` prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engines.networks.rife.blocks import IFBlock, PlainEncoder, PReluBlock, StackedEncoder
from kernels.errors import InvalidInputError, ShapeError
from kernels.sampling.backward_warp import backward_warp

ENCODED_CHANNELS: Final = 4


@dataclass(frozen=True)
class IFNetLayout:
    """What differs between versions.

    Attributes:
        widths: Channels of the blocks.
        scales: Down-scaling of each block at `scale=1`.
        encoder: Makes the image encoder, None where images go in raw.
        carried: Feature channels handed from block to block.
        mask_adds: True where each block adds to the fusion logit instead of replacing it.
        pad: Sizes are padded to a multiple of this.
        ensemble: Whether time-reversed averaging is defined.
        block: Makes one block out of (input channels, width, carried).
        window: Flow and logit of the last block are averaged over this many pixels a side (at `scale=1`), odd.
    """

    widths: tuple[int, ...]
    scales: tuple[int, ...]
    encoder: Callable[[], nn.Module] | None
    carried: int
    mask_adds: bool
    pad: int
    ensemble: bool
    block: Callable[[int, int, int], nn.Module] = IFBlock
    window: int = 1


LAYOUTS: Final[dict[str, IFNetLayout]] = {
    "4.0": IFNetLayout((192, 128, 96, 64), (8, 4, 2, 1), None, 0, True, 32, True, PReluBlock),
    "4.6": IFNetLayout((192, 128, 96, 64), (8, 4, 2, 1), None, 0, True, 32, True),
    "4.9": IFNetLayout((192, 128, 96, 64), (8, 4, 2, 1), PlainEncoder, 0, False, 32, True),
    "4.25": IFNetLayout((192, 128, 96, 64, 32), (16, 8, 4, 2, 1), StackedEncoder, 8, False, 64, False),
    # what its last block says is a little noisy from pixel to pixel where lips part: seen as a lattice without the window
    "mini": IFNetLayout((96, 64, 48, 32), (8, 4, 2, 1), StackedEncoder, 8, False, 32, False, window=5),
}


class IFNet(nn.Module):
    """Interpolates frames.

    Args:
        layout: Version.
        ensemble: Average with the time-reversed pass; twice the cost.
        scale: 0.25 .. 4; below 1 estimates flow at a lower resolution (0.5 for 4K).
    """

    def __init__(self, layout: IFNetLayout, *, ensemble: bool = False, scale: float = 1.0) -> None:
        super().__init__()
        if ensemble and not layout.ensemble:
            raise InvalidInputError("ensemble", "True", "False for this version")
        if not 0.25 <= scale <= 4.0:
            raise InvalidInputError("scale", str(scale), "0.25 to 4")
        self.layout = layout
        self.ensemble = ensemble
        self.scales = tuple(s / scale for s in layout.scales)
        self.multiple = round(max(layout.pad, layout.pad / scale))
        encoded = 2 * ENCODED_CHANNELS if layout.encoder else 0
        first, later = 3 + 3 + encoded + 1, 3 + 3 + encoded + 1 + 1 + layout.carried + 4
        for index, width in enumerate(layout.widths):
            block = layout.block(later if index else first, width, layout.carried)
            if isinstance(block, IFBlock) and index + 1 == len(layout.widths):
                block.window = layout.window
            self.add_module(f"block{index}", block)
        if layout.encoder is not None:
            self.encode = layout.encoder()

    def forward(self, img0: Tensor, img1: Tensor, t: float | Tensor = 0.5) -> Tensor:
        """The frame at time `t` between two frames.

        Args:
            img0: (B, 3, H, W) RGB in 0..1, the earlier frame, any size.
            img1: Like `img0`, the later frame.
            t: 0..1, a number or a (B,) tensor with one time per sample.

        Returns:
            (B, 3, H, W), not clamped.

        Raises:
            ShapeError: Frames or times do not fit together.
        """
        if img0.dim() != 4 or img0.shape[1] != 3 or img0.shape != img1.shape:
            raise ShapeError("img0, img1", f"{tuple(img0.shape)}, {tuple(img1.shape)}", "two equal (B, 3, H, W)")
        batch, _, height, width = img0.shape
        times = torch.as_tensor(t, dtype=img0.dtype, device=img0.device)
        if times.dim() > 1 or (times.dim() == 1 and times.shape[0] != batch):
            raise ShapeError("t", str(tuple(times.shape)), f"a number or ({batch},)")
        right, bottom = -width % self.multiple, -height % self.multiple
        padded0, padded1 = F.pad(img0, (0, right, 0, bottom)), F.pad(img1, (0, right, 0, bottom))
        plane = times.reshape(-1, 1, 1, 1).expand(batch, 1, *padded0.shape[-2:])
        between, _, _ = self.interpolate(padded0, padded1, self.encoded(padded0), self.encoded(padded1), plane)
        return between[..., :height, :width]

    def encoded(self, image: Tensor) -> Tensor | None:
        """Features (B, 4, H, W) of a padded frame; None for versions without an encoder. Reusable for the next pair."""
        if self.layout.encoder is None:
            return None
        features: Tensor = self.encode(image)
        return features

    def interpolate(
        self, img0: Tensor, img1: Tensor, enc0: Tensor | None, enc1: Tensor | None, plane: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The network proper, on padded frames with their encodings and a time plane (B, 1, H, W).

        Returns:
            The frame (B, 3, H, W), the total flow (B, 4, H, W) in pixels, the fusion logit (B, 1, H, W).
        """
        warped0 = warped1 = flow = mask = None
        for warped0, warped1, flow, mask in self.refinements(img0, img1, enc0, enc1, plane):  # noqa: B007 - the last counts
            pass
        if warped0 is None or warped1 is None or flow is None or mask is None:
            raise InvalidInputError("layout", "no blocks", "at least one block")
        return merge(warped0, warped1, mask), flow, mask

    def refinements(
        self, img0: Tensor, img1: Tensor, enc0: Tensor | None, enc1: Tensor | None, plane: Tensor
    ) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
        """After every block: both warped sides (B, 3 + features, H, W), total flow, logit; arguments as in `interpolate`."""
        sides0, sides1 = _with_features(img0, enc0), _with_features(img1, enc1)
        flow = mask = carried = None
        warped0, warped1 = sides0, sides1
        for index, scale in enumerate(self.scales):
            block: nn.Module = getattr(self, f"block{index}")
            flow_step, mask_step, carried = self._refine(block, warped0, warped1, plane, mask, carried, flow, scale)
            flow = flow_step if flow is None else flow + flow_step
            mask = mask_step if mask is None or not self.layout.mask_adds else mask + mask_step
            warped0, warped1 = backward_warp(sides0, flow[:, :2]), backward_warp(sides1, flow[:, 2:4])
            yield warped0, warped1, flow, mask

    def _refine(
        self,
        block: nn.Module,
        warped0: Tensor,
        warped1: Tensor,
        plane: Tensor,
        mask: Tensor | None,
        carried: Tensor | None,
        flow: Tensor | None,
        scale: float,
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        step, logit, features = block(_block_input(warped0, warped1, plane, mask, carried), flow, scale)
        if not self.ensemble:
            return step, logit, features
        backwards = None if flow is None else _swap(flow)
        opposite = None if mask is None else -mask
        step_back, logit_back, _ = block(_block_input(warped1, warped0, 1.0 - plane, opposite, None), backwards, scale)
        return (step + _swap(step_back)) / 2.0, (logit - logit_back) / 2.0, features


def merge(warped0: Tensor, warped1: Tensor, mask: Tensor) -> Tensor:
    """The frame (B, 3, H, W) out of both warped sides and the fusion logit."""
    share = torch.sigmoid(mask)
    return warped0[:, :3] * share + warped1[:, :3] * (1.0 - share)


def _with_features(image: Tensor, encoded: Tensor | None) -> Tensor:
    """Image and its encoding as one stack of channels, so that one warp moves both."""
    return image if encoded is None else torch.cat([image, encoded], dim=1)


def _swap(flow: Tensor) -> Tensor:
    """Exchange the flow to frame 0 with the flow to frame 1."""
    return torch.cat([flow[:, 2:4], flow[:, :2]], dim=1)


def _block_input(side0: Tensor, side1: Tensor, plane: Tensor, mask: Tensor | None, carried: Tensor | None) -> Tensor:
    """Channel order: image 0, image 1, encoding 0, encoding 1, time, logit, carried features (flow is appended by the block)."""
    parts = [side0[:, :3], side1[:, :3], side0[:, 3:], side1[:, 3:], plane]
    parts.extend(part for part in (mask, carried) if part is not None)
    return torch.cat(parts, dim=1)


def build_4_0(*, ensemble: bool = False, scale: float = 1.0) -> IFNet:
    """RIFE 4.0: 5.16 M parameters, PReLU; without the reference's second try at half the scale on very large motion."""
    return IFNet(LAYOUTS["4.0"], ensemble=ensemble, scale=scale)


def build_4_6(*, ensemble: bool = False, scale: float = 1.0) -> IFNet:
    """RIFE 4.6: 5.31 M parameters, no encoder, the fusion logit accumulates."""
    return IFNet(LAYOUTS["4.6"], ensemble=ensemble, scale=scale)


def build_4_9(*, ensemble: bool = False, scale: float = 1.0) -> IFNet:
    """RIFE 4.9: 5.33 M parameters."""
    return IFNet(LAYOUTS["4.9"], ensemble=ensemble, scale=scale)


def build_4_25(*, ensemble: bool = False, scale: float = 1.0) -> IFNet:
    """RIFE 4.25: 5.66 M parameters, five blocks, half the arithmetic of 4.9."""
    return IFNet(LAYOUTS["4.25"], ensemble=ensemble, scale=scale)


def build_mini(*, scale: float = 1.0) -> IFNet:
    """Our own small one: 1.5 M parameters, the graph of 4.25 with four narrow blocks (96, 64, 48, 32 channels at 1/8 .. 1/1)."""
    return IFNet(LAYOUTS["mini"], scale=scale)
