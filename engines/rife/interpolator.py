"""Frames in between: what sessions call, whatever network and device it runs on.

A frame is encoded once and the result handed to the next pair: `encode` gives one `EncodedFrame` per frame, `between` takes two
lists of them. `interpolate` does both for plain pictures. Nothing couples the items of a batch, so pairs of different sessions
and several times of one pair go together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from engines.networks.rife.ifnet import IFNet
from engines.rife.sources import find_network
from kernels.arrays import U8
from kernels.errors import InvalidInputError, ShapeError


@dataclass(frozen=True)
class EncodedFrame:
    """A frame, ready to be one side of a pair. Made by `Interpolator.encode`; only for the interpolator that made it.

    Attributes:
        data: Picture and its encoding in the engine's own layout, on its device.
        height: Height of the frame in pixels.
        width: Width of the frame in pixels.
    """

    data: Tensor
    height: int
    width: int


class Engine(Protocol):
    """A way of running the network; batches of one frame size."""

    def prepare(self, height: int, width: int) -> None:
        """Do now what would otherwise be done at the first frame of that size."""
        ...

    def encode(self, frames: Tensor) -> Tensor:
        """uint8 (n, h, w, 3) RGB on any device -> (n, ...) on the engine's."""
        ...

    def between(self, before: Tensor, after: Tensor, times: Tensor, height: int, width: int) -> Tensor:
        """Encoded frames (n, ...) and float32 times (n,) -> uint8 (n, h, w, 3)."""
        ...


class EagerEngine:
    """The network as it is, float32: the reference, and the way on a CPU.

    Args:
        network: In eval mode.
        device: Where it runs.
    """

    def __init__(self, network: IFNet, device: torch.device) -> None:
        self._network = network.to(device)
        self._device = device

    def prepare(self, height: int, width: int) -> None:
        """Nothing to do."""

    def encode(self, frames: Tensor) -> Tensor:
        """Padded picture in 0..1 with its encoding: float32 (n, 3 or 7, H, W)."""
        image = frames.to(self._device).permute(0, 3, 1, 2).float() / 255.0
        multiple = self._network.multiple
        padded = F.pad(image, (0, -image.shape[3] % multiple, 0, -image.shape[2] % multiple))
        encoding = self._network.encoded(padded)
        return padded if encoding is None else torch.cat([padded, encoding], dim=1)

    def between(self, before: Tensor, after: Tensor, times: Tensor, height: int, width: int) -> Tensor:
        """Interpolate; rounded, not truncated: truncation would darken every other frame."""
        plane = times.to(self._device).reshape(-1, 1, 1, 1).expand(-1, 1, *before.shape[-2:])
        encoded = before.shape[1] > 3
        first, second = (before[:, 3:], after[:, 3:]) if encoded else (None, None)
        picture, _, _ = self._network.interpolate(before[:, :3], after[:, :3], first, second, plane)
        levels = (picture[..., :height, :width].clamp(0.0, 1.0) * 255.0).round()
        return levels.to(torch.uint8).permute(0, 2, 3, 1).contiguous()


class Interpolator:
    """Makes frames between frames.

    Args:
        network: In eval mode, without gradients.
        name: Its name, for logs and reports, e.g. `rife/4.9`.
        device: Where it runs.
        engine: Another way of running it; None means the best one for the device.
    """

    def __init__(
        self, network: IFNet, name: str, device: torch.device | str = "cpu", engine: Engine | None = None
    ) -> None:
        self.name = name
        self.device = torch.device(device)
        self._engine: Engine = engine or best_engine(network, self.device)

    def prepare(self, height: int = 512, width: int = 512) -> None:
        """Compile and capture for frames of one size now (seconds on a GPU), so that no session waits for it."""
        self._engine.prepare(height, width)

    def encode(self, frames: U8 | Tensor) -> list[EncodedFrame]:
        """Encode frames once, for every pair they are part of.

        Args:
            frames: uint8 RGB (n, h, w, 3), n >= 0, an array or a tensor on any device.

        Raises:
            ShapeError: Another rank, type or channel count, or an empty side.
        """
        pictures = _pictures(frames, "frames")
        if len(pictures) == 0:
            return []
        with torch.inference_mode():
            data = self._engine.encode(pictures)
        height, width = pictures.shape[1:3]
        # copies: a session that keeps its last frame must not keep the whole batch alive
        return [EncodedFrame(item.clone(), height, width) for item in data]

    def between(
        self, before: Sequence[EncodedFrame], after: Sequence[EncodedFrame], timesteps: Sequence[float] | Tensor
    ) -> Tensor:
        """Make one frame per pair and time.

        Args:
            before: n earlier frames.
            after: n later frames of the same size.
            timesteps: n times, 0 (before) .. 1 (after); per item, so pairs of several sessions and several times of one pair
                (its frames given several times) make one batch.

        Returns:
            uint8 RGB (n, h, w, 3) on the device; n may be 0.

        Raises:
            ShapeError: Numbers or sizes differ.
            InvalidInputError: A time that is not within 0..1.
        """
        times = torch.as_tensor(timesteps, dtype=torch.float32).reshape(-1)
        if not len(before) == len(after) == len(times):
            raise ShapeError("before, after, timesteps", f"{len(before)}, {len(after)}, {len(times)}", "equally many")
        outside = ~((times >= 0.0) & (times <= 1.0))  # NaN is outside
        if bool(outside.any()):
            raise InvalidInputError("timesteps", str(float(times[outside][0])), "0 to 1")
        if len(times) == 0:
            return torch.empty((0, 0, 0, 3), dtype=torch.uint8, device=self.device)
        sizes = {(frame.height, frame.width) for frame in (*before, *after)}
        if len(sizes) > 1:
            raise ShapeError("before, after", str(sorted(sizes)), "frames of one size")
        height, width = next(iter(sizes))
        with torch.inference_mode():
            first = torch.stack([frame.data for frame in before])
            second = torch.stack([frame.data for frame in after])
            return self._engine.between(first, second, times, height, width)

    def interpolate(
        self, frames0: U8 | Tensor, frames1: U8 | Tensor, timesteps: Sequence[float] | NDArray[np.floating] | Tensor
    ) -> Tensor:
        """Encode and interpolate.

        Args:
            frames0: uint8 RGB (n, h, w, 3), the earlier frames.
            frames1: Like `frames0`, the later frames.
            timesteps: (n,), 0..1.

        Returns:
            uint8 RGB (n, h, w, 3) on the device.

        Raises:
            ShapeError: Frames and times do not fit together.
            InvalidInputError: A time that is not within 0..1.
        """
        first, second = _pictures(frames0, "frames0"), _pictures(frames1, "frames1")
        if first.shape != second.shape:
            raise ShapeError("frames0, frames1", f"{tuple(first.shape)}, {tuple(second.shape)}", "equal shapes")
        if len(first) == 0:
            return first.to(self.device)
        times = torch.as_tensor(timesteps, dtype=torch.float32)
        encoded = self.encode(torch.cat([first, second]))
        return self.between(encoded[: len(first)], encoded[len(first) :], times)


def best_engine(network: IFNet, device: torch.device) -> Engine:
    """The fast one on a GPU with Triton, for networks that can be folded; else the network as it is."""
    if device.type == "cuda" and find_spec("triton") is not None:
        from engines.networks.rewriting import UnsupportedNetworkError
        from engines.rife.fast import FastEngine

        try:
            return FastEngine(network, device)
        except UnsupportedNetworkError:
            return EagerEngine(network, device)
    return EagerEngine(network, device)


def load_interpolator(
    name: str | None = None, device: torch.device | str = "cpu", home: Path | str | None = None
) -> Interpolator:
    """An interpolator with weights.

    Args:
        name: `rife/4.25`, `rife/4.9`, `rife/4.6`, `rife/4.0` or `rife/mini`; None means pulled weights, else the embedded network.
        device: Where it runs.
        home: Data folder; None means `LIVEANCHOR_HOME` or its default.

    Raises:
        InvalidInputError: No such name, or a device that is not here.
        WeightsError: Its weights are not here, or damaged; the message says what to do.
    """
    if torch.device(device).type == "cuda" and not torch.cuda.is_available():
        raise InvalidInputError("device", f"{device}, and torch finds no GPU", "cpu, or a machine with a GPU")
    found = find_network(name, home)
    return Interpolator(found.network, found.name, device)


def _pictures(frames: U8 | Tensor, field: str) -> Tensor:
    tensor = frames if isinstance(frames, Tensor) else torch.from_numpy(np.ascontiguousarray(frames))
    shape = tuple(tensor.shape)
    if tensor.dim() != 4 or tensor.dtype != torch.uint8 or shape[3] != 3 or 0 in shape[1:3]:
        raise ShapeError(field, f"{tensor.dtype} {shape}", "uint8 (n, h, w, 3), h, w >= 1")
    return tensor
