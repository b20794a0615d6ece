"""Copies between host and device without busy waiting: pinned memory, copies in the background, an event that sleeps.

`Tensor.cpu()` copies through pageable memory and keeps a core busy until the device is done. Here the copy is queued behind the
work that makes the numbers, and who waits sleeps until the driver wakes it. Pinned blocks come from torch's own cache, which
hands a block on only when the copies that were queued on it are over. On a CPU everything is there at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def to_device(array: NDArray[np.generic], device: torch.device) -> Tensor:
    """A copy of an array on a device; on a GPU the call returns before the copy is done, and later work waits for it."""
    if device.type != "cuda":
        return torch.from_numpy(np.array(array)).to(device)
    dtype = torch.from_numpy(np.empty(0, array.dtype)).dtype
    pinned = torch.empty(array.shape, dtype=dtype, pin_memory=True)
    np.copyto(pinned.numpy(), array)  # by numpy: the arrays of a mapped bundle are read-only, of which torch warns
    return pinned.to(device, non_blocking=True)


class Landing:
    """Tensors on their way to the host.

    Args:
        tensors: What current work makes, all on one device; they must not be written again by other streams.
    """

    def __init__(self, tensors: Sequence[Tensor]) -> None:
        self._ready: torch.cuda.Event | None = None
        self._host = list(tensors)
        if tensors and tensors[0].device.type == "cuda":
            self._host = [torch.empty(one.shape, dtype=one.dtype, pin_memory=True) for one in tensors]
            for pinned, one in zip(self._host, tensors, strict=True):
                pinned.copy_(one, non_blocking=True)
            self._ready = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]  # torch's own
            self._ready.record(torch.cuda.current_stream(tensors[0].device))

    def wait(self) -> list[NDArray[np.generic]]:
        """The arrays, once they are there. Copy what outlives this object: the memory is pinned, and scarce."""
        if self._ready is not None:
            self._ready.synchronize()
        return [one.numpy() for one in self._host]
