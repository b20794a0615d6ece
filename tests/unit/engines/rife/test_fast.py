"""The folded networks against the networks themselves, and the fast engine behind the interpolator."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engines.networks import build
from engines.networks.rewriting import UnsupportedNetworkError
from engines.networks.rife.ifnet import IFNet
from engines.rife.fast import FastEngine
from engines.rife.folded import fold
from engines.rife.interpolator import Interpolator

VERSIONS = ("4.0", "4.6", "4.9", "4.25", "mini")


def network_of(version: str, **config: object) -> IFNet:
    """Random weights that move things: flows of some pixels, betas and slopes away from their first values."""
    network = build(f"rife/{version}", **config)
    assert isinstance(network, IFNet)
    torch.manual_seed(3)
    with torch.no_grad():
        for name, value in network.named_parameters():
            if name.endswith("beta"):
                value.uniform_(0.6, 1.4)
            elif "lastconv" in name and name.endswith("weight"):
                value.mul_(6.0)
            elif value.dim() == 1 and value.shape and "bias" not in name:
                value.uniform_(0.1, 0.4)
    return network.requires_grad_(False)


def moving(count: int, height: int, width: int) -> torch.Tensor:
    """Smooth moving pictures, uint8 (n, h, w, 3)."""
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    made = [
        torch.stack([torch.sin((x + 2.0 * k) / 5.0 + c) * torch.cos((y - k) / 7.0 - c) for c in range(3)], dim=-1)
        for k in range(count)
    ]
    return (torch.stack(made) * 120 + 128).to(torch.uint8)


@pytest.mark.parametrize("version", VERSIONS)
def test_folding_changes_nothing(version: str) -> None:
    network, frames = network_of(version), moving(4, 70, 90)
    images = frames.permute(0, 3, 1, 2).float() / 255.0
    times = torch.tensor([0.5, 0.25])
    folded = fold(network)
    with torch.inference_mode():
        wanted = network(images[:2], images[2:], times).clamp(0, 1).permute(0, 2, 3, 1) * 255.0
        side = folded.encode(frames)
        made = folded.between(side[:2], side[2:], times, 70, 90).float()
    assert (made - wanted).abs().max() <= 0.51
    assert (wanted - 255.0 * images[:2].permute(0, 2, 3, 1)).abs().mean() > 1.0


@pytest.mark.parametrize("version", ["4.9", "mini"])
def test_half_precision_stays_near(version: str) -> None:
    network, frames = network_of(version), moving(2, 64, 64)
    exact, half = (
        Interpolator(network, "x", "cpu", FastEngine(network, "cpu", dtype)) for dtype in (torch.float32, torch.float16)
    )
    error = exact.interpolate(frames[:1], frames[1:], [0.5]).float() - half.interpolate(frames[:1], frames[1:], [0.5])
    assert error.square().mean() < 255.0**2 / 10**5.0  # 50 dB, rounding to levels included


def test_engines_agree_and_any_batch_fits_the_graphs() -> None:
    network, frames = network_of("mini"), moving(4, 40, 56)
    fast = Interpolator(network, "x", "cpu", FastEngine(network, "cpu", torch.float32, buckets=(1, 2)))
    eager = Interpolator(network, "x")
    pairs, times = (frames[:3], frames[1:]), np.array([0.25, 0.5, 0.75])
    assert (fast.interpolate(*pairs, times).int() - eager.interpolate(*pairs, times).int()).abs().max() <= 1
    one = fast.encode(frames[:1])[0]
    assert one.data.shape == (64, 64, 8)


def test_what_cannot_be_folded_is_refused() -> None:
    with pytest.raises(UnsupportedNetworkError, match="ensemble"):
        fold(network_of("4.9", ensemble=True))
    with pytest.raises(UnsupportedNetworkError, match="scales"):
        fold(network_of("4.9", scale=2.0))
    fold(network_of("4.9", scale=0.5))


@pytest.mark.gpu
@pytest.mark.parametrize("version", VERSIONS)
def test_the_fast_path_on_a_gpu_is_the_network_on_the_cpu(version: str) -> None:
    network, frames = network_of(version), moving(4, 128, 192)
    wanted = Interpolator(network, "x").interpolate(frames[:2], frames[2:], [0.5, 0.25])
    fast = Interpolator(network, "x", "cuda", FastEngine(network, "cuda"))
    for _ in range(2):  # captured, then replayed
        error = wanted.float() - fast.interpolate(frames[:2], frames[2:], [0.5, 0.25]).cpu()
        assert error.square().mean() < 255.0**2 / 10**4.5
