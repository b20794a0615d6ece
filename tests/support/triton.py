"""One test, two machines: Triton bodies interpreted on CPU tensors in CI, compiled on CUDA tensors where there is a GPU."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest
import torch

HAS_GPU = torch.cuda.is_available()
HAS_TRITON = importlib.util.find_spec("triton") is not None

DEVICES = [
    pytest.param(
        "cpu",
        id="interpreted",
        marks=pytest.mark.skipif(HAS_GPU or not HAS_TRITON, reason="compiled on this machine, or no triton"),
    ),
    pytest.param("cuda", id="compiled", marks=pytest.mark.gpu),
]
"""For `@pytest.mark.parametrize("device", DEVICES)`."""


def tiling_for(device: str) -> Any:
    """The measured default on a GPU; in the interpreter, whose time is one of programs, larger tiles that still overhang."""
    if device == "cuda":
        return None
    from kernels.nv12.splice_triton import Tiling

    return Tiling(block_w=64, rows=16, warps=4)


def assert_close(got: torch.Tensor, want: torch.Tensor, atol: float, what: str = "") -> None:
    """Largest difference at most `atol`; a failure names the largest and RMS difference, how many differ, and the worst place."""
    assert got.shape == want.shape, f"{what}: shape {tuple(got.shape)}, want {tuple(want.shape)}"
    difference = (got.detach().cpu().double() - want.detach().cpu().double()).abs()
    if difference.numel() == 0:
        return
    worst = float(difference.nan_to_num(nan=float("inf")).max())
    if worst > atol:
        place = tuple(int(i) for i in torch.unravel_index(difference.argmax(), difference.shape))
        rms, count = float(difference.square().mean().sqrt()), int((difference > atol).sum())
        raise AssertionError(
            f"{what}: max {worst:.4g} at {place}, rms {rms:.4g}, {count} of {difference.numel()} above {atol}"
        )
