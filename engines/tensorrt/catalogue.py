"""The engines of this project by name: what goes in, what comes out, how large a batch, how far off one may be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

import torch
from torch import Tensor

from engines.tensorrt.errors import UnknownEngineError

Kind = Literal["compute", "float32"]
BATCH: Final = -1
"""Stands for the batch axis in a shape."""
MAX_BATCH: Final = 16
RIFE_SIZE: Final = 512


@dataclass(frozen=True)
class Port:
    """One input.

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
    """One engine.

    Attributes:
        name: `<family>/<engine>`.
        inputs: In the module's order.
        outputs: Names, in the module's order.
        dtype: Type of its weights and of `compute` ports.
        gate: For `verify`.
        best_batch: The batch that TensorRT tunes for.
        max_batch: The largest.
        about: One line for people.
    """

    name: str
    inputs: tuple[Port, ...]
    outputs: tuple[str, ...]
    gate: Gate
    about: str
    dtype: torch.dtype = torch.float16
    best_batch: int = 8
    max_batch: int = MAX_BATCH
    batch_axis_of: dict[str, int] = field(init=False, repr=False, compare=False, hash=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_axis_of", {port.name: port.shape.index(BATCH) for port in self.inputs})

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


def _rife(version: str, block: int, channels: int, carried: int, small: int) -> EngineSpec:
    flow = (Port("flow", (BATCH, 4, RIFE_SIZE, RIFE_SIZE), "float32", scale=4.0),)
    return EngineSpec(
        name=f"rife/{version}/block{block}",
        inputs=(Port("x", (BATCH, channels, RIFE_SIZE, RIFE_SIZE), unit=True), *(flow if block else ())),
        outputs=("refined",),
        gate=Gate(1e-2),
        about=f"refinement block {block} at 1/{small}, {5 + carried} channels out; warps stay outside",
    )


def _rife_all(version: str, first: int, later: int, carried: int, scales: tuple[int, ...]) -> tuple[EngineSpec, ...]:
    return tuple(_rife(version, index, later if index else first, carried, scale) for index, scale in enumerate(scales))


_SPECS: Final = (
    EngineSpec(
        name="ditto/post_warp_decoder",
        inputs=(Port("warped", (BATCH, 512, 64, 64)), Port("occlusion", (BATCH, 1, 64, 64), unit=True)),
        outputs=("picture",),
        gate=Gate(2e-2, min_psnr_db=50.0),
        about="FusedPostWarpDecoder: warped features -> 512 x 512 picture",
    ),
    EngineSpec(
        name="ditto/dense_motion_core",
        inputs=(
            Port("deformed", (BATCH, 88, 16, 64, 64), unit=True),
            Port("kp_source", (BATCH, 21, 3), "float32", scale=0.3),
            Port("kp_driving", (BATCH, 21, 3), "float32", scale=0.3),
        ),
        outputs=("deformation", "occlusion"),
        gate=Gate(1e-2),
        about="DenseMotionCore: heat maps, hourglass, mask, deformation, occlusion; the 5-D samples stay outside",
    ),
    EngineSpec(
        name="ditto/lmdm_step",
        inputs=(
            Port("x", (BATCH, 80, 265), "float32"),
            Port("frame_bias", (2, BATCH, 1, 512)),
            Port("film", (8, 3, 2, 2, BATCH, 1, 512), scale=0.5),
            Port("keys", (8, 2, BATCH, 8, 82, 64)),
            Port("values", (8, 2, BATCH, 8, 82, 64)),
        ),
        outputs=("x0",),
        gate=Gate(1e-2),
        about="one guided denoising step, both branches in one batch",
        best_batch=1,
    ),
    EngineSpec(
        name="ditto/appearance_extractor",
        inputs=(Port("image", (BATCH, 3, 256, 256), unit=True),),
        outputs=("volume",),
        gate=Gate(1e-2),
        about="portrait -> feature volume",
        best_batch=1,
    ),
    EngineSpec(
        name="ditto/motion_extractor",
        inputs=(Port("image", (BATCH, 3, 256, 256), unit=True),),
        outputs=("motion",),
        gate=Gate(1e-4, min_cosine=0.999999),
        about="portrait -> pose logits, expression and keypoints, packed; float32, as its logits need it",
        dtype=torch.float32,
        best_batch=1,
    ),
    *_rife_all("4.9", 15, 16, 0, (8, 4, 2, 1)),
    *_rife_all("4.25", 15, 24, 8, (16, 8, 4, 2, 1)),
)
CATALOGUE: Final[dict[str, EngineSpec]] = {spec.name: spec for spec in _SPECS}
HUBERT: Final = "ditto/hubert"
"""Built from the public ONNX file, whose inputs it states itself: not part of the catalogue."""


def engine_names(text: str = "all") -> tuple[str, ...]:
    """Names that a word stands for.

    Args:
        text: A name, a prefix up to a slash (`ditto`, `rife/4.9`), or `all`.

    Raises:
        UnknownEngineError: Nothing has that name.
    """
    every = (*CATALOGUE, HUBERT)
    found = tuple(name for name in every if text == "all" or name == text or name.startswith(f"{text.rstrip('/')}/"))
    if not found:
        families = sorted({name.partition("/")[0] for name in every})
        raise UnknownEngineError("engine", text[:80], ", ".join(("all", *families, *every)))
    return found


def spec_of(name: str) -> EngineSpec:
    """The spec of a name.

    Raises:
        UnknownEngineError: Nothing has that name.
    """
    if name not in CATALOGUE:
        raise UnknownEngineError("engine", name[:80], ", ".join(CATALOGUE))
    return CATALOGUE[name]
