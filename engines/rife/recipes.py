"""Blocks of the interpolation networks as TensorRT engines."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from torch import nn

from engines.networks.rife.blocks import IFBlock
from engines.networks.rife.ifnet import IFNet
from engines.rife.engine_modules import RifeBlockStep
from engines.rife.sources import find_network
from engines.tensorrt.recipes import Load, NetworkRecipe
from engines.tensorrt.spec import BATCH, EngineSpec, Gate, Port

SIZE: Final = 512


def rife_block(network: IFNet, index: int) -> RifeBlockStep:
    """A block of an interpolation network as an engine's module; the weights are shared with the network."""
    block = getattr(network, f"block{index}")
    assert isinstance(block, IFBlock)  # noqa: S101 - what IFNet names so
    return RifeBlockStep(block, network.scales[index], first=index == 0).eval().requires_grad_(False)


def _spec(version: str, block: int, channels: int, carried: int, small: int) -> EngineSpec:
    flow = (Port("flow", (BATCH, 4, SIZE, SIZE), "float32", scale=4.0),)
    return EngineSpec(
        name=f"rife/{version}/block{block}",
        inputs=(Port("x", (BATCH, channels, SIZE, SIZE), unit=True), *(flow if block else ())),
        outputs=("refined",),
        gate=Gate(1e-2),
        about=f"refinement block {block} at 1/{small}, {5 + carried} channels out; warps stay outside",
    )


def _recipes(version: str, first: int, later: int, carried: int, scales: tuple[int, ...]) -> Iterator[NetworkRecipe]:
    for index, scale in enumerate(scales):

        def make(load: Load, index: int = index) -> nn.Module:
            network = load(f"rife/{version}")
            assert isinstance(network, IFNet)  # noqa: S101 - what these names build
            return rife_block(network, index)

        yield NetworkRecipe(_spec(version, index, later if index else first, carried, scale), make, public_weights)


def public_weights(folder: Path | None) -> Load:
    """Loads the networks that `liveanchor weights` keeps; they have no folder of their own to name."""
    return lambda name: find_network(name).network


RECIPES: Final = (*_recipes("4.9", 15, 16, 0, (8, 4, 2, 1)), *_recipes("4.25", 15, 24, 8, (16, 8, 4, 2, 1)))
