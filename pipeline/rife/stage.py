"""The stage `rife`: face crops at 25 frames/s -> pictures at 50 or 59.94, the tail included.

Stateless: the crops before a chunk come with the call. Which crops make which frame is decided in `pipeline.session.slots`; this
file interpolates the pairs that are left, of all sessions of a batch together, and composites.

A pair is static when both crops are equal byte for byte (a face whose motion did not change is drawn the same, and `before` may
hold the very same object): then the crop is repeated and no network runs. A thumbnail would miss a mouth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import torch

from kernels.arrays import U8
from kernels.errors import LiveAnchorError, ShapeError
from kernels.nv12.composite import check_crops
from pipeline.rife.interpolator import FrameInterpolator
from pipeline.session.slots import CARRY, fill_slots
from pipeline.session.tail import Placed, Tail
from pipeline.stages import RifeRequest
from pipeline.types import CROP_SIZE, CropBatch, Nv12RectBatch

T = TypeVar("T")
PROBE_SIDE = 64


@dataclass(frozen=True)
class RifeItem:
    """A chunk of a session, as `pipeline.stages.Stages.rife` takes it."""

    request: RifeRequest
    crops: CropBatch
    before: CropBatch | None


@dataclass
class _Work:
    """An item on its way.

    Attributes:
        sources: Crops, each kept once: indices of `frames` point here; None where the interpolator's answer will be.
        pairs: (place in `sources`, index of the earlier crop, share) to interpolate.
        frames: The pictures.
    """

    item: RifeItem
    sources: list[U8 | torch.Tensor | None]
    pairs: list[tuple[int, int, Fraction]]
    frames: list[Placed]


class Rife:
    """Raises the frame rate of chunks of any session; keeps nothing of them.

    Args:
        interpolator: The network.
        tail: Puts crops into their canvas.
        device: Where the tail composites.
        pairs_per_call: Pairs that the network gets at once. 1 gives the same sums whatever shares the batch.
        network: Name of the network.

    Attributes:
        network: Name of the network.
        pairs_interpolated: Pictures that the network made so far.
        pairs_static: Pictures that were repeated because both neighbours are the same.
    """

    def __init__(
        self,
        interpolator: FrameInterpolator,
        tail: Tail,
        device: str = "cpu",
        pairs_per_call: int = 1,
        network: str = "",
    ) -> None:
        self.network = network
        self._interpolator = interpolator
        self._tail = tail
        self._device = device
        self._pairs_per_call = pairs_per_call
        self.pairs_interpolated = 0
        self.pairs_static = 0

    def run(self, items: Sequence[RifeItem]) -> list[Nv12RectBatch | LiveAnchorError]:
        """Pictures of several chunks; a bad item fails alone.

        Returns:
            Per item the video frames that its chunk completes, see `pipeline.session.slots`; possibly none.
        """
        planned = [self._plan(item) for item in items]
        self._interpolate([work for work in planned if isinstance(work, _Work)])
        return [work if isinstance(work, LiveAnchorError) else self._compose(work) for work in planned]

    def run_one(self, item: RifeItem) -> Nv12RectBatch:
        """Run one chunk alone.

        Raises:
            LiveAnchorError: What `run` would answer.
        """
        [result] = self.run([item])
        if isinstance(result, LiveAnchorError):
            raise result
        return result

    def probe(self) -> None:
        """Really interpolate: something small on a CPU, a full call of crops elsewhere, so that nothing is left to be compiled.

        Raises:
            ShapeError: The network answers with another shape.
        """
        count, side = (1, PROBE_SIDE) if self._device == "cpu" else (self._pairs_per_call, CROP_SIZE)
        grey = torch.full((count, side, side, 3), 128, dtype=torch.uint8)
        encoded = self._interpolator.encode(grey)
        made = self._interpolator.between(encoded, encoded, [0.5] * count)
        if tuple(made.shape) != tuple(grey.shape):
            raise ShapeError("interpolated", str(tuple(made.shape)), str(tuple(grey.shape)))

    def _plan(self, item: RifeItem) -> _Work | LiveAnchorError:
        try:
            for batch in (item.crops, item.before):
                if batch is not None:
                    check_crops(batch.crops.shape, str(batch.crops.dtype))
            slots = fill_slots(item.crops, item.before, item.request.fps)
        except LiveAnchorError as error:
            return error
        work = _Work(item, [], [], [])
        at: dict[int, int] = {}
        for slot in slots:
            if slot.share and not self._is_static(item, slot.left):
                place = len(work.sources)
                work.sources.append(None)
                work.pairs.append((place, slot.left, slot.share))
            else:
                if slot.left not in at:
                    at[slot.left] = len(work.sources)
                    work.sources.append(_crop(item, slot.left))
                place = at[slot.left]
            work.frames.append(Placed(place, slot.position))
        return work

    def _is_static(self, item: RifeItem, left: int) -> bool:
        """Whether the crops at `left` and after it are the same picture."""
        static = bool(np.array_equal(_crop(item, left), _crop(item, left + 1)))
        self.pairs_static += static
        return static

    def _interpolate(self, works: Sequence[_Work]) -> None:
        wanted = [(work, *pair) for work in works for pair in work.pairs]
        self.pairs_interpolated += len(wanted)
        encoded = self._encode(wanted)
        for part in _parts(wanted, self._pairs_per_call):
            made = self._interpolator.between(
                [encoded[id(work), left] for work, _, left, _ in part],
                [encoded[id(work), left + 1] for work, _, left, _ in part],
                [float(share) for *_, share in part],
            )
            for (work, place, *_), picture in zip(part, made, strict=True):
                work.sources[place] = picture

    def _encode(self, wanted: Sequence[tuple[_Work, int, int, Fraction]]) -> dict[tuple[int, int], Any]:
        """Every crop of these pairs, encoded once."""
        items = {(id(work), index): work.item for work, _, left, _ in wanted for index in (left, left + 1)}
        encoded: dict[tuple[int, int], Any] = {}
        for part in _parts(list(items), self._pairs_per_call):
            crops = np.stack([_crop(items[key], key[1]) for key in part])
            encoded |= zip(part, self._interpolator.encode(torch.from_numpy(crops)), strict=True)
        return encoded

    def _compose(self, work: _Work) -> Nv12RectBatch | LiveAnchorError:
        item = work.item
        sources = [one if isinstance(one, torch.Tensor) else torch.from_numpy(np.array(one)) for one in work.sources]
        crops = (
            torch.stack([one.to(self._device) for one in sources])
            if sources
            else torch.zeros((0, *item.crops.crops.shape[1:]), dtype=torch.uint8, device=self._device)
        )
        try:
            return self._tail.compose(item.crops.avatar_id, item.request.colour, crops, work.frames)
        except LiveAnchorError as error:
            return error


def _crop(item: RifeItem, index: int) -> U8:
    """The crop at an index of the chunk, or the carry."""
    batch = item.before if index == CARRY and item.before is not None else item.crops
    crop: U8 = batch.crops[index]  # CARRY is -1: the last one of the chunk before
    return crop


def _parts(things: Sequence[T], size: int) -> list[Sequence[T]]:
    return [things[start : start + size] for start in range(0, len(things), size)]
