"""What painted faces are blended into, where they are painted: patches and masks of an avatar's frames on the device."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engines.runtimes.host_copies import to_device
from pipeline.musetalk.avatar_tensors import MuseTalkTensors

Pair = tuple[Tensor, Tensor]


class DevicePatches:
    """Patches uint8 (h, w, 3) and masks uint8 (h, w). All calls come from one thread.

    On a GPU a frame's are copied when it is first painted, and kept where all of them may be.

    Args:
        tensors: The avatar's arrays.
        device: Where faces are painted.
        most_bytes: Most bytes to keep on a GPU.
    """

    def __init__(self, tensors: MuseTalkTensors, device: torch.device, most_bytes: int) -> None:
        self._tensors = tensors
        self._device = device
        size = tensors.patches.nbytes + tensors.masks.nbytes
        self._keeps = device.type != "cpu" and size <= most_bytes
        self._kept: dict[int, Pair] = {}
        self.size_bytes = size if self._keeps else 0
        """Device memory that is held when every frame has been painted."""

    def of(self, place: int) -> Pair:
        """Patch and mask of a frame of the clip."""
        found = self._kept.get(place)
        if found is None:
            found = self._copied(self._tensors.patches[place]), self._copied(self._tensors.masks[place])
            if self._keeps:
                self._kept[place] = found
        return found

    def _copied(self, array: NDArray[np.uint8]) -> Tensor:
        if self._device.type == "cpu" and array.flags.writeable:
            return torch.from_numpy(array)
        return to_device(array, self._device)  # a mapped file is copied on a CPU too: torch has no read-only tensors
