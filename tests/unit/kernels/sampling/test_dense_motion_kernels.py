"""The passes around dense motion's convolutions against the operators they stand for."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from engines.networks.ditto.dense_motion import DenseMotionNetwork, identity_grid
from kernels.conv.depth_taps import (
    depth_taps,
    depth_taps_torch,
    doubled_depth_taps,
    doubled_depth_taps_torch,
    doubled_kernels,
    folded_depth_taps,
    folded_depth_taps_torch,
)
from kernels.conv.flat_maps import FlatShape, from_flat
from kernels.errors import ShapeError
from kernels.sampling.dense_motion import CHANNELS, HEAT_FIRST, MASK_COLUMNS, PRODUCTS
from kernels.sampling.grid_sample_3d import grid_sample_3d_torch
from kernels.sampling.mask_motion import (
    mask_motion,
    mask_motion_torch,
    occlusion_rows,
    sample_features,
    sample_features_torch,
)
from kernels.sampling.sparse_motion import sparse_motion, sparse_motion_torch
from tests.support.triton import DEVICES, assert_close

SIZE = (3, 4, 6)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def keypoints(batch: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    source = torch.rand(batch, 21, 3, generator=torch.Generator().manual_seed(1)) * 1.6 - 0.8
    return source, source + 0.2 * random(batch, 21, 3, seed=2)


def slices(volume: torch.Tensor, weight: torch.Tensor, padding: int) -> torch.Tensor:
    """2-D convolution of every slice, channels-last."""
    y = F.conv2d(volume.flatten(0, 1).permute(0, 3, 1, 2), weight, padding=padding)
    return y.permute(0, 2, 3, 1).unflatten(0, volume.shape[:2]).contiguous()


def by_tap(weight: torch.Tensor) -> torch.Tensor:
    """(out, in, k, k, k) -> (k * out, in, k, k)."""
    return weight.permute(2, 0, 1, 3, 4).flatten(0, 1)


def conv3d(volume: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    y = F.conv3d(volume.permute(0, 4, 1, 2, 3), weight, bias, padding=weight.shape[-1] // 2)
    return y.permute(0, 2, 3, 4, 1)


@pytest.mark.parametrize("pool", [True, False])
def test_depth_taps_are_a_3d_convolution(pool: bool) -> None:
    volume, weight, bias = random(2, 3, 4, 6, 5), random(7, 5, 3, 3, 3, seed=1), random(7, seed=2)
    skip = torch.full((2, 3, 2, 3, 9) if pool else (2, 3, 4, 6, 9), 5.0)
    got = depth_taps(slices(volume, by_tap(weight), 1), bias, pool=pool, skip=skip)
    want = F.relu(conv3d(volume, weight, bias)).permute(0, 4, 1, 2, 3)
    want = (F.avg_pool3d(want, (1, 2, 2)) if pool else want).permute(0, 2, 3, 4, 1)
    assert_close(got, want, 1e-4)
    assert torch.equal(skip[..., 2:], got) and skip[..., :2].eq(5.0).all()


def test_folded_depth_taps_turn_a_wide_kernel_into_a_narrow_one() -> None:
    products, bias, weight = random(2, 3, 4, 6, 15), random(5, seed=1), random(7, 5, 7, 7, seed=2)
    features = depth_taps(products, bias, pool=False)
    folded = folded_depth_taps(products, bias, 7)
    assert folded.shape == (2, 3, 4, 6, 35) and torch.equal(folded[..., 15:20], features)
    narrow = weight.permute(0, 3, 1, 2).flatten(1, 2)[..., None]
    planar = folded.flatten(0, 1).permute(0, 3, 1, 2)
    got = F.conv2d(planar, narrow, padding=(3, 0)).permute(0, 2, 3, 1).unflatten(0, (2, 3))
    assert_close(got, slices(features, weight, 3), 1e-4)


def test_doubled_depth_taps_are_a_3d_convolution_of_the_doubled_volume() -> None:
    volume, weight, bias = random(2, 3, 4, 6, 5), random(8, 5, 3, 3, 3, seed=1), random(8, seed=2)
    phases = [doubled_kernels(weight[:, :, tap]) for tap in range(3)]
    kernels = torch.stack(phases, dim=1).flatten(0, 2)  # (phase, tap, out)
    joined = torch.full((2, 3, 8, 12, 10), 5.0)
    doubled_depth_taps(slices(volume, kernels, 1), bias, joined)
    large = volume.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3)
    assert_close(joined[..., :8], F.relu(conv3d(large, weight, bias)), 1e-4)
    assert joined[..., 8:].eq(5.0).all()


def test_sparse_motion_is_the_networks_input() -> None:
    volume = random(2, *SIZE, 4)
    source, driving = keypoints()
    got, wide = sparse_motion(volume, source, driving, 128)
    grid = identity_grid(*SIZE, volume)
    places = DenseMotionNetwork._sparse_motions(grid, source, driving)
    views = grid_sample_3d_torch(volume.permute(0, 4, 1, 2, 3), places.flatten(0, 1)).reshape(2, 88, *SIZE)
    heat = DenseMotionNetwork._heat_difference(grid, source, driving)
    assert_close(got[..., :HEAT_FIRST], views.permute(0, 2, 3, 4, 1), 1e-5)
    assert_close(got[..., HEAT_FIRST : HEAT_FIRST + 22], heat.permute(0, 2, 3, 4, 1), 1e-5)
    assert got[..., HEAT_FIRST + 22 :].eq(0).all() and torch.equal(wide[..., 16:], got)


def test_mask_motion_and_occlusion_are_the_networks() -> None:
    depth, height, width = 16, 2, 3
    volume = random(1, depth, height, width, 6)
    mask, mask_bias = random(22, 6, 7, 7, 7, seed=1) * 0.1, random(22, seed=2)
    hidden, hidden_bias = random(1, 6 * depth, 7, 7, seed=3) * 0.1, random(1, seed=4)
    columns = torch.cat([by_tap(mask), hidden[0].reshape(6, depth, 7, 7).transpose(0, 1), torch.zeros(6, 6, 7, 7)])
    products = slices(volume, columns, 3)
    assert products.shape[4] == PRODUCTS
    source, driving = keypoints(1)
    weights = torch.softmax(conv3d(volume, mask, mask_bias), dim=-1)
    grid = identity_grid(depth, height, width, volume)
    places = DenseMotionNetwork._sparse_motions(grid, source, driving)
    want = (places * weights.permute(0, 4, 1, 2, 3)[..., None]).sum(1)
    assert_close(mask_motion(products, mask_bias, source, driving), want, 1e-5)
    planar = volume.permute(0, 4, 1, 2, 3).flatten(1, 2)
    want = torch.sigmoid(F.conv2d(planar, hidden, hidden_bias, padding=3)).permute(0, 2, 3, 1)
    got = from_flat(occlusion_rows(products, hidden_bias)[:, None], FlatShape(1, height, width))
    assert_close(got, want, 1e-5)


def test_sampled_features_are_grid_samples() -> None:
    volume, places = random(2, *SIZE, 32), random(2, *SIZE, 3, seed=1)
    want = grid_sample_3d_torch(volume.permute(0, 4, 1, 2, 3), places).permute(0, 3, 4, 2, 1).flatten(3)
    assert_close(from_flat(sample_features(volume, places), FlatShape(2, 4, 6)), want, 1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("channels", [16, 144])
@pytest.mark.parametrize("pool", [True, False])
def test_triton_depth_taps(device: str, pool: bool, channels: int) -> None:
    from kernels.conv.depth_taps_triton import add_up

    products, bias = random(2, 3, 4, 6, 3 * channels).half().to(device), random(channels, seed=1).to(device)
    size = (2, 3, 2, 3) if pool else (2, 3, 4, 6)
    skip = torch.zeros(*size, channels + 8, dtype=torch.float16, device=device)
    got = add_up(products, bias, pool, skip)
    assert_close(got.float(), depth_taps_torch(products.float(), bias, pool=pool), 1e-2)
    assert torch.equal(skip[..., 8:], got) and skip[..., :8].eq(0).all()


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("channels", [5, 144])
def test_triton_folded_depth_taps(device: str, channels: int) -> None:
    from kernels.conv.depth_taps_triton import add_up_folded

    products, bias = random(2, 3, 2, 6, 3 * channels).half().to(device), random(channels, seed=1).to(device)
    want = folded_depth_taps_torch(products.float(), bias, 7)
    assert_close(add_up_folded(products, bias, 7).float(), want, 1e-2)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("channels", [32, 256])
def test_triton_doubled_depth_taps(device: str, channels: int) -> None:
    from kernels.conv.depth_taps_triton import add_up_doubled

    products, bias = random(1, 3, 3, 5, 12 * channels).half().to(device), random(channels, seed=1).to(device)
    got = torch.zeros(1, 3, 4, 8, channels + 16, dtype=torch.float16, device=device)
    want = got.float()
    add_up_doubled(products, bias, got)
    doubled_depth_taps_torch(products.float(), bias, want)
    assert_close(got.float(), want, 1e-2)


@pytest.mark.parametrize("device", DEVICES)
def test_triton_sparse_motion(device: str) -> None:
    from kernels.sampling.sparse_motion_triton import sample

    volume = random(2, *SIZE, 4).half().to(device)
    source, driving = (part.to(device) for part in keypoints())
    got, wide = sample(volume, source, driving, 144)
    want, _ = sparse_motion_torch(volume.float(), source, driving, 144)
    assert_close(got.float(), want, 5e-3)
    assert torch.equal(wide[..., 144 - CHANNELS :], got)


@pytest.mark.parametrize("device", DEVICES)
def test_triton_mask_motion(device: str) -> None:
    from kernels.sampling.mask_motion_triton import deform

    products, bias = random(2, 5, 4, 6, PRODUCTS).half().to(device), random(22, seed=1).to(device)
    source, driving = (part.to(device) for part in keypoints())
    want = mask_motion_torch(products, bias, source, driving)
    assert_close(deform(products, bias, source, driving), want, 2e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_triton_samples(device: str) -> None:
    from kernels.sampling.mask_motion_triton import sample

    volume, places = random(2, *SIZE, 32).half().to(device), random(2, *SIZE, 3, seed=1).to(device)
    want = sample_features_torch(volume.float(), places)
    got = sample(volume, places)
    assert_close(got.float(), want, 5e-3)
    assert got[want == 0].eq(0).all()


def test_operands_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match="products"):
        depth_taps(torch.zeros(1, 2, 2, 2, 7), torch.zeros(2), pool=False)
    with pytest.raises(ShapeError, match="skip"):
        depth_taps(torch.zeros(1, 2, 2, 2, 6), torch.zeros(2), pool=True, skip=torch.zeros(1, 2, 2, 2, 2))
    with pytest.raises(ShapeError, match="joined"):
        doubled_depth_taps(torch.zeros(1, 2, 3, 3, 24), torch.zeros(2), torch.zeros(1, 2, 4, 6, 2))
    with pytest.raises(ShapeError, match="volume"):
        sparse_motion(torch.zeros(1, 2, 2, 2, 3), *keypoints(1), 112)
    with pytest.raises(ShapeError, match="keypoints"):
        sparse_motion(torch.zeros(1, 2, 2, 2, 4), *keypoints(2), 112)
    with pytest.raises(ShapeError, match="products"):
        mask_motion(torch.zeros(1, 2, 2, 2, MASK_COLUMNS - 1), torch.zeros(22), *keypoints(1))
    with pytest.raises(ShapeError, match="deformation"):
        sample_features(torch.zeros(1, 2, 2, 2, 4), torch.zeros(1, 2, 2, 3, 3))
