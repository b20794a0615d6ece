"""Trilinear sampling of feature volumes: the semantics of dense motion, zeros outside, corners not aligned."""

from __future__ import annotations

import pytest
import torch

from engines.networks.ditto.dense_motion import identity_grid, sample_volume
from kernels.errors import ShapeError
from kernels.sampling.grid_sample_3d import grid_sample_3d, grid_sample_3d_torch
from tests.support.triton import DEVICES, assert_close

TOLERANCES = [(torch.float32, 2e-5), (torch.float16, 3e-3), (torch.bfloat16, 2e-2)]


def float64_samples(volume: torch.Tensor, grid: torch.Tensor) -> torch.Tensor:
    """Corner by corner."""
    volume = volume.double().repeat_interleave(grid.shape[0] // volume.shape[0], dim=0)
    n, c, d, h, w = volume.shape
    x, y, z = (((grid.double()[..., i] + 1) * size - 1) / 2 for i, size in enumerate((w, h, d)))
    out = torch.zeros(n, c, *grid.shape[1:4], dtype=torch.float64)
    item = torch.arange(n)[:, None, None, None]
    for dz in (0, 1):
        for dy in (0, 1):
            for dx in (0, 1):
                xi, yi, zi = x.floor() + dx, y.floor() + dy, z.floor() + dz
                weight = (1 - (x - xi).abs()) * (1 - (y - yi).abs()) * (1 - (z - zi).abs())
                inside = (xi >= 0) & (xi < w) & (yi >= 0) & (yi < h) & (zi >= 0) & (zi < d)
                index = (zi.clamp(0, d - 1).long(), yi.clamp(0, h - 1).long(), xi.clamp(0, w - 1).long())
                out += (volume[item, :, *index] * (weight * inside)[..., None]).permute(0, 4, 1, 2, 3)
    return out


def inputs(dtype: torch.dtype, b: int, k: int, c: int, size, out_size, seed: int = 0):
    generator = torch.Generator().manual_seed(seed)
    volume = torch.randn(b, c, *size, generator=generator).to(dtype)
    grid = torch.rand(b * k, *out_size, 3, generator=generator) * 2.6 - 1.3
    return volume, grid


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype,atol", TOLERANCES, ids=str)
@pytest.mark.parametrize(
    "b,k,c,size,out_size",
    [(2, 3, 4, (4, 6, 5), (3, 7, 11)), (1, 1, 1, (1, 1, 1), (2, 2, 2)), (2, 1, 5, (3, 8, 8), (1, 1, 1))],
)
def test_triton_and_reference_match_float64(device, dtype, atol, b, k, c, size, out_size):
    from kernels.sampling.grid_sample_3d_triton import sample

    volume, grid = inputs(dtype, b, k, c, size, out_size)
    want = float64_samples(volume, grid)
    assert_close(sample(volume.to(device), grid.to(device)), want, atol, "triton")
    assert_close(grid_sample_3d_torch(volume, grid), want, atol, "reference")


@pytest.mark.parametrize("device", DEVICES)
def test_places_far_outside_or_not_a_number_are_zero(device):
    from kernels.sampling.grid_sample_3d_triton import sample

    volume = torch.ones(1, 2, 3, 4, 5, device=device)
    grid = torch.zeros(1, 1, 1, 5, 3, device=device)
    for i, value in enumerate((1e30, -1e30, float("inf"), float("nan"))):
        grid[0, 0, 0, i, i % 3] = value
    got = sample(volume, grid)
    assert got[..., :4].abs().max() == 0 and (got[..., 4] > 0.99).all()


def test_it_samples_as_the_dense_motion_network_was_trained():
    volume, _ = inputs(torch.float32, 2, 1, 3, (4, 6, 5), (1, 1, 1))
    grid = identity_grid(4, 6, 5, volume).expand(2, -1, -1, -1, -1)
    got = grid_sample_3d(volume, grid)
    assert torch.equal(got, sample_volume(volume, grid))
    assert not torch.allclose(got, volume), "the identity grid of these networks is no identity"


@pytest.mark.gpu
def test_the_wrapper_stays_on_the_gpu_and_takes_views():
    volume, grid = inputs(torch.float16, 2, 22, 4, (16, 64, 64), (16, 64, 64))
    view = volume.cuda().to(memory_format=torch.channels_last_3d)
    got = grid_sample_3d(view, grid.cuda())
    assert got.is_cuda and got.dtype == torch.float16
    assert_close(got, grid_sample_3d_torch(volume, grid), 6e-3)


@pytest.mark.parametrize(
    "volume,grid",
    [
        (torch.zeros(2, 3, 4, 4), torch.zeros(2, 1, 1, 1, 3)),
        (torch.zeros(2, 3, 4, 4, 4, dtype=torch.float64), torch.zeros(2, 1, 1, 1, 3)),
        (torch.zeros(2, 3, 4, 4, 4), torch.zeros(3, 1, 1, 1, 3)),
        (torch.zeros(2, 3, 4, 4, 4), torch.zeros(2, 1, 1, 1, 2)),
        (torch.zeros(2, 3, 4, 0, 4), torch.zeros(2, 1, 1, 1, 3)),
    ],
)
def test_bad_shapes_are_refused(volume, grid):
    with pytest.raises(ShapeError):
        grid_sample_3d(volume, grid)
