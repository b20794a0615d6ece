"""An avatar that is ready to be drawn, and batches of frames of several of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engines.runtimes.host_copies import to_device
from pipeline.ditto.avatar_tensors import DittoTensors
from pipeline.ditto.motion_fields import mirror_index
from pipeline.ditto.tail import DittoCanvas
from pipeline.types import Avatar


@dataclass(frozen=True)
class PreparedDittoFace:
    """An avatar, ready to draw.

    Attributes:
        avatar: The avatar.
        tensors: Its arrays.
        rest: Rest rows of the source frames (`pipeline.ditto.driven_keypoints`), on the device.
        resident: What the runtime draws from, n source frames on the device: float16 features (n, 32, 16, 64, 64), or what a
            `SourceRuntime` made of them; None where features go up frame by frame.
        canvas: The tail.
    """

    avatar: Avatar
    tensors: DittoTensors
    rest: Tensor
    resident: tuple[Tensor, ...] | None
    canvas: DittoCanvas

    @property
    def size_bytes(self) -> int:
        """Bytes that the preparation holds in memory, the mapped file not counted."""
        resident = sum(part.numel() * part.element_size() for part in self.resident or ())
        return resident + self.canvas.size_bytes + self.rest.numel() * self.rest.element_size()

    def source_frames(self, first: int, count: int) -> list[int]:
        """Source frames of `count` frames from `first` on; one that serves all where the avatar is a picture."""
        return [0] if self.tensors.is_image else [mirror_index(first + i, len(self.rest)) for i in range(count)]

    def at(self, parts: tuple[Tensor, ...], first: int, count: int) -> tuple[Tensor, ...]:
        """What source frames hold for `count` frames from `first` on, or one item for all.

        Args:
            parts: Tensors with an item for each source frame.
            first: Frame since the session's start.
            count: Frames.
        """
        if self.tensors.is_image:
            return parts
        index = to_device(np.array(self.source_frames(first, count), np.int64), self.rest.device)
        return tuple(part[index] for part in parts)


def of_every_frame(sources: Sequence[tuple[Tensor, ...]], counts: Sequence[int]) -> tuple[Tensor, ...]:
    """Sources of several faces as one batch, an item per frame; the source of one picture stays one item, which serves all frames.

    Args:
        sources: Parts of each span's face, as many items as the span has frames, or one.
        counts: Frames of each span.
    """
    first = sources[0]
    if len(sources) == 1 or (len(first[0]) == 1 and all(one[0] is first[0] for one in sources)):
        return first
    wide = [[part.expand(n, *part.shape[1:]) for part in one] for one, n in zip(sources, counts, strict=True)]
    return tuple(torch.cat(parts) for parts in zip(*wide, strict=True))
