"""Small engines for tests: a tiny spec, its network, and a library that is a fake."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import Tensor, nn

from engines.ditto.recipes import NETWORK_RECIPES
from engines.rife.recipes import RECIPES as RIFE_RECIPES
from engines.tensorrt.library import Absence, Library, look_for
from engines.tensorrt.spec import BATCH, EngineSpec, Gate, Port
from engines.tensorrt.target import Target
from tests.support.require import missing

RECIPES = {recipe.name: recipe for recipe in (*NETWORK_RECIPES, *RIFE_RECIPES)}
"""Every engine of a network of ours, by name."""

TINY = EngineSpec(
    name="test/tiny",
    inputs=(Port("image", (BATCH, 3, 8, 8), unit=True), Port("shift", (BATCH, 4), "float32")),
    outputs=("out",),
    gate=Gate(1e-2, min_psnr_db=40.0),
    about="a convolution and a shift",
    max_batch=4,
    best_batch=2,
)


class Tiny(nn.Module):
    """(B, 3, 8, 8), (B, 4) -> (B, 4, 8, 8)."""

    def __init__(self, seed: int = 0, gain: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.gain = gain

    def forward(self, image: Tensor, shift: Tensor) -> Tensor:
        return self.gain * torch.relu(self.conv(image)) + shift[:, :, None, None].to(image.dtype)


def fake_library(version: str = "1.7.1", flavour: str = "tensorrt_rtx") -> Library:
    capabilities = type("ComputeCapability", (), {"SM80": 1, "SM120": 2, "CURRENT": 0})
    return Library(flavour, version, SimpleNamespace(__version__=version, ComputeCapability=capabilities))  # type: ignore[arg-type]


def real_library() -> Library:
    """`tensorrt_rtx`, which builds without a GPU; the test is skipped, or fails in CI, where it is missing."""
    found = look_for("tensorrt_rtx")
    if isinstance(found, Absence):
        missing("EXTRAS", f"tensorrt_rtx is {found.reason}: {found.advice}")
    return found


def elsewhere() -> Target:
    return Target("sm_120", "any", False)
