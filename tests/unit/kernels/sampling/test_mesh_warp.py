import numpy as np
import pytest
import torch

from kernels.errors import InvalidInputError, ShapeError
from kernels.sampling.mesh_warp import mesh_warp, mesh_warp_reference


def texture(channels: int = 3, height: int = 64, width: int = 80, batch: int = 1) -> torch.Tensor:
    rows = torch.linspace(0, 6, height)[:, None, None]
    columns = torch.linspace(0, 5, width)[None, :, None]
    phase = torch.arange(channels) * 0.7 + torch.arange(batch)[:, None, None, None] * 0.3
    return ((torch.sin(rows + phase) * torch.cos(columns - phase) + 1) * 127).to(torch.uint8)


def test_no_displacement_returns_the_texture_exactly() -> None:
    source = texture()
    assert torch.equal(mesh_warp(source, torch.zeros(2, 8, 10, 2), 8)[1], source[0])


def test_a_uniform_shift_moves_the_picture_by_whole_pixels() -> None:
    source = texture()
    shifted = mesh_warp(source, torch.tensor([3.0, -2.0]).expand(1, 8, 10, 2).contiguous(), 8)[0]
    assert torch.equal(shifted[2:, :-3], source[0, :-2, 3:])


def test_a_finer_texture_keeps_whole_crop_pixels() -> None:
    coarse = texture()
    fine = torch.zeros(1, 128, 160, 3, dtype=torch.uint8)
    fine[:, ::2, ::2] = coarse
    assert torch.equal(mesh_warp(fine, torch.zeros(1, 8, 10, 2), 8, texture_scale=2.0), coarse)


def test_origins_choose_the_region() -> None:
    source = texture()
    part = mesh_warp(source, torch.zeros(1, 4, 4, 2), 4, region_origin=(20, 12), texture_origin=(4, 2))
    assert torch.equal(part[0], source[0, 10:26, 16:32])


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize("cell", [1, 4, 8])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_fast_path_agrees_with_the_reference(channels: int, cell: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(channels * 100 + cell)
    lattice = torch.randn(2, 5, 7, 2, generator=generator) * 3
    source = texture(channels, batch=2)
    fast = mesh_warp(source, lattice, cell, region_origin=(3, 4), texture_scale=scale)
    slow = mesh_warp_reference(source, lattice, cell, region_origin=(3, 4), texture_scale=scale)
    assert fast.shape == slow.shape == (2, 5 * cell, 7 * cell, channels)
    assert (fast.int() - slow.int()).abs().max() <= 2


def test_frames_do_not_depend_on_their_batch() -> None:
    lattice = torch.randn(3, 8, 10, 2, generator=torch.Generator().manual_seed(1)) * 4
    together = mesh_warp(texture(), lattice, 8)
    assert all(torch.equal(together[i : i + 1], mesh_warp(texture(), lattice[i : i + 1], 8)) for i in range(3))


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_given_output_is_written(channels: int) -> None:
    lattice = torch.randn(2, 8, 10, 2, generator=torch.Generator().manual_seed(1)) * 4
    out = torch.zeros(2, 64, 80, channels, dtype=torch.uint8)
    result = mesh_warp(texture(channels), lattice, 8, out=out)
    assert result is out
    assert torch.equal(out, mesh_warp(texture(channels), lattice, 8))


def test_a_wrong_output_is_refused() -> None:
    with pytest.raises(ShapeError):
        mesh_warp(texture(), torch.zeros(1, 8, 10, 2), 8, out=torch.zeros(1, 64, 79, 3, dtype=torch.uint8))


def test_samples_far_outside_repeat_the_edge() -> None:
    source = texture()
    out = mesh_warp(source, torch.full((1, 8, 10, 2), 1e6), 8)
    assert np.abs(out[0, 0, 0].int().numpy() - source[0, -1, -1].int().numpy()).max() <= 1


@pytest.mark.parametrize(
    ("source", "lattice"),
    [
        (torch.zeros(64, 80, 3, dtype=torch.uint8), torch.zeros(1, 8, 10, 2)),
        (torch.zeros(1, 64, 80, 3), torch.zeros(1, 8, 10, 2)),
        (torch.zeros(1, 64, 80, 5, dtype=torch.uint8), torch.zeros(1, 8, 10, 2)),
        (torch.zeros(1, 64, 80, 3, dtype=torch.uint8), torch.zeros(1, 8, 10, 3)),
        (torch.zeros(1, 64, 80, 3, dtype=torch.uint8), torch.zeros(1, 8, 10, 2, dtype=torch.float64)),
        (torch.zeros(1, 64, 80, 3, dtype=torch.uint8), torch.zeros(0, 8, 10, 2)),
        (torch.zeros(2, 64, 80, 3, dtype=torch.uint8), torch.zeros(3, 8, 10, 2)),
    ],
)
def test_wrong_tensors_are_refused(source: torch.Tensor, lattice: torch.Tensor) -> None:
    with pytest.raises(ShapeError):
        mesh_warp(source, lattice, 8)


@pytest.mark.parametrize(("cell", "scale"), [(0, 1.0), (8, 0.0), (8, float("nan"))])
def test_wrong_numbers_are_refused(cell: int, scale: float) -> None:
    with pytest.raises(InvalidInputError):
        mesh_warp(texture(), torch.zeros(1, 8, 10, 2), cell, texture_scale=scale)
