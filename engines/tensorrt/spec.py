"""What an engine is: what goes in, what comes out, how large a batch, how far off it may be. Who needs one describes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

import torch
from torch import Tensor

Kind = Literal["compute", "float32"]
BATCH: Final = -1
"""Stands for the batch axis in a shape."""
MAX_BATCH: Final = 16


@dataclass(frozen=True)
class Port:
    """An input of an engine.

    Attributes:
        name: In the graph.
        shape: `BATCH` at the batch axis.
        kind: `compute`: the engine's type; `float32` whatever that is.
        scale: Standard deviation of the random values it is verified with.
        unit: True: those values are uniform in 0..scale instead.
    """

    name: str
    shape: tuple[int, ...]
    kind: Kind = "compute"
    scale: float = 1.0
    unit: bool = False

    def sized(self, batch: int) -> tuple[int, ...]:
        """The shape at a batch size."""
        return tuple(batch if extent == BATCH else extent for extent in self.shape)


@dataclass(frozen=True)
class Gate:
    """How near an engine must come to the float32 network to serve.

    Attributes:
        max_relative_error: |engine - network| / |network|, Euclidean norms over an output.
        min_cosine: Between the two.
        min_psnr_db: With MAX = 1, for pictures in 0..1 only.
    """

    max_relative_error: float
    min_cosine: float = 0.9999
    min_psnr_db: float | None = None


@dataclass(frozen=True)
class EngineSpec:
    """What an engine is: its inputs and outputs, and how near to torch it must come.

    Attributes:
        name: `<family>/<engine>`.
        inputs: In the module's order.
        outputs: Names, in the module's order.
        dtype: Type of its weights and of `compute` ports.
        gate: For `verify`.
        best_batch: The batch that TensorRT tunes for.
        max_batch: The largest.
        about: One line for people.
        ranges: Smallest, best and largest batch of each stretch that TensorRT tunes for by itself, ascending, without gaps; empty:
            one, from 1 to the largest.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[str, ...]
    gate: Gate
    about: str
    dtype: torch.dtype = torch.float16
    best_batch: int = 8
    max_batch: int = MAX_BATCH
    ranges: tuple[tuple[int, int, int], ...] = ()
    batch_axis_of: dict[str, int] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_axis_of", {port.name: port.shape.index(BATCH) for port in self.inputs})

    @property
    def tuned(self) -> tuple[tuple[int, int, int], ...]:
        """`ranges`, or the one that holds where none are given."""
        return self.ranges or ((1, self.best_batch, self.max_batch),)

    def range_of(self, batch: int) -> int:
        """Which stretch serves a batch of 1 to the largest."""
        return next(index for index, (_, _, largest) in enumerate(self.tuned) if batch <= largest)

    def dtype_of(self, port: Port) -> torch.dtype:
        """Type of an input."""
        return torch.float32 if port.kind == "float32" else self.dtype

    def random_inputs(self, batch: int, seed: int = 0, device: torch.device | str = "cpu") -> tuple[Tensor, ...]:
        """Reproducible random inputs in their types."""
        generator = torch.Generator().manual_seed(seed)
        made = []
        for port in self.inputs:
            draw = torch.rand if port.unit else torch.randn
            value = draw(port.sized(batch), generator=generator) * port.scale
            made.append(value.to(device, self.dtype_of(port)))
        return tuple(made)
