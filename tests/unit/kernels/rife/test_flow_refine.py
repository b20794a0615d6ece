"""Refinement steps of interpolation networks: the warp, the blocks' inputs and the fusion, kernel against formula."""

from __future__ import annotations

import pytest
import torch

from kernels.errors import InvalidInputError, ShapeError
from kernels.rife.flow_refine import (
    Head,
    averaged,
    flow_and_logit,
    fuse,
    fuse_torch,
    refine_input,
    refine_input_torch,
    upsampled,
)
from kernels.sampling.backward_warp import backward_warp
from tests.support.triton import DEVICES, assert_close


def sides(
    n: int, height: int, width: int, device: str = "cpu", dtype: torch.dtype = torch.float32
) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.rand(n, height, width, 8, device=device, dtype=dtype) for _ in range(2)]


def heads_of(
    n: int, height: int, width: int, ups: tuple[int, ...], channels: int = 8, sub: int = 4, **options: object
) -> list[Head]:
    made = []
    for up in ups:
        shape = (n, height // (up * sub), width // (up * sub), sub * sub * channels)
        made.append(Head((torch.randn(shape) * 1.5).to(**options), up, sub, channels))  # type: ignore[arg-type, call-overload]
    return made


def test_a_head_of_known_flow_moves_the_sides_by_it() -> None:
    n, height, width = 1, 32, 32
    first, second = sides(n, height, width)
    values = torch.zeros(1, 4, 4, 16, 8)
    values[..., 0], values[..., 3], values[..., 4] = 1.5, -2.0, 100.0  # grid steps of two pixels; only side 0 counts
    heads = [Head(values.reshape(1, 4, 4, 128), 2, 4, 8)]
    picture = fuse(first, second, heads, height, width, logits_add=False)
    wanted = (first[:, :, 3:, :3] * 255 + 0.5).floor().to(torch.uint8)
    assert torch.equal(picture[:, :, :-3], wanted)
    made = refine_input(first, second, torch.tensor([0.25]), heads, 1, logits_add=False)
    torch.testing.assert_close(made[:, 4:, :, 8:16], second[:, :-4])
    torch.testing.assert_close(made[0, 0, 0, 16:24], torch.tensor([0.25, 100.0, 3.0, 0.0, 0.0, -4.0, 0.0, 0.0]))


@pytest.mark.parametrize("add", [False, True])
def test_logits_add_or_replace(add: bool) -> None:
    heads = heads_of(1, 32, 32, (2, 1))
    _, logit = flow_and_logit(heads, add)
    alone = [flow_and_logit([head], add)[1] for head in heads]
    torch.testing.assert_close(logit, alone[0] + alone[1] if add else alone[1])


@pytest.mark.parametrize(("channels", "sub"), [(8, 4), (16, 4), (8, 2)])
def test_a_head_is_averaged_over_its_grid_across_cells(channels: int, sub: int) -> None:
    [head] = heads_of(2, 16, 24, (1,), channels, sub)
    grid, mean = upsampled(head), upsampled(averaged(head, 5))
    torch.testing.assert_close(mean[:, :, 7, 8], grid[:, :, 5:10, 6:11].mean((2, 3)))
    torch.testing.assert_close(mean[:, :, 0, -1], grid[:, :, :3, -3:].mean((2, 3)))
    assert averaged(head, 1) is head
    half = averaged(Head(head.values.half(), 1, sub, channels), 3)
    assert half.values.dtype == torch.float16 and half.values.is_contiguous()
    with pytest.raises(InvalidInputError, match="window"):
        averaged(head, 4)


@pytest.mark.parametrize("size", [(1, 1), (1, 5), (4, 1)])
def test_an_axis_of_one_pixel_has_that_pixel_everywhere(size: tuple[int, int]) -> None:
    image = torch.rand(1, 2, *size)
    torch.testing.assert_close(backward_warp(image, torch.zeros(1, 2, *size)), image)
    far = torch.full((1, 2, *size), 99.0)
    torch.testing.assert_close(backward_warp(image, far), image[..., -1:, -1:].expand_as(image))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("ups", "channels", "sub", "scale"),
    [((), 8, 4, 2), ((4, 2), 16, 4, 1), ((4, 2, 1), 8, 2, 2), ((8, 4), 16, 4, 4)],
)
def test_block_input_equals_the_formula(device: str, ups: tuple[int, ...], channels: int, sub: int, scale: int) -> None:
    from kernels.rife.flow_refine_triton import launch_refine

    first, second = sides(2, 32, 64, device)
    heads = heads_of(2, 32, 64, ups, channels, sub, device=device)
    times = torch.tensor([0.25, 0.5], device=device)
    add = channels == 8
    wanted = refine_input_torch(first, second, times, heads, scale, logits_add=add)
    assert_close(launch_refine(first, second, times, heads, scale, add), wanted, 2e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("ups", [(8,), (4, 2, 1), (8, 4, 2, 1, 1)])
def test_fusion_equals_the_formula(device: str, ups: tuple[int, ...]) -> None:
    from kernels.rife.flow_refine_triton import launch_fuse

    first, second = sides(1, 32, 64, device, torch.float16)
    heads = heads_of(1, 32, 64, ups, device=device, dtype=torch.float16)
    wanted = fuse_torch(first, second, heads, 29, 50, logits_add=False)
    got = launch_fuse(first, second, heads, 29, 50, False)
    assert got.shape == (1, 29, 50, 3)
    assert_close(got.float(), wanted.float(), 1.0)
    assert (got != wanted).float().mean() < 0.01


@pytest.mark.parametrize("device", DEVICES)
def test_sides_are_packed_and_features_placed(device: str) -> None:
    from kernels.rife.flow_refine_triton import launch_pack, launch_place

    frames = torch.randint(0, 256, (2, 5, 7, 3), dtype=torch.uint8, device=device)
    side = launch_pack(frames, 8, 8, torch.float32)
    assert_close(side[:, :5, :7, :3], frames / 255.0, 1e-6)
    assert not side[:, 5:].any() and not side[:, :, 7:].any() and not side[..., 3:].any()
    values = torch.randn(2, 4, 4, 16, device=device)
    launch_place(values, side)
    grid = values.reshape(2, 4, 4, 2, 2, 4).permute(0, 1, 3, 2, 4, 5).reshape(2, 8, 8, 4)
    assert torch.equal(side[..., 3:7], grid) and not side[..., 7].any()
    assert_close(side[:, :5, :7, :3], frames / 255.0, 1e-6)


def test_what_does_not_fit_is_named() -> None:
    first, second = sides(1, 32, 32)
    heads, times = heads_of(1, 32, 32, (2,)), torch.zeros(1)
    with pytest.raises(ShapeError, match="side0"):
        refine_input(first, second[:, :16], times, heads, 1, logits_add=False)
    with pytest.raises(ShapeError, match="times"):
        refine_input(first, second, torch.zeros(2), heads, 1, logits_add=False)
    with pytest.raises(InvalidInputError, match="scale"):
        refine_input(first, second, times, heads, 3, logits_add=False)
    with pytest.raises(ShapeError, match="head"):
        fuse(first, second, [Head(heads[0].values, 1, 4, 8)], 32, 32, logits_add=False)
    with pytest.raises(ShapeError, match="heads, height"):
        fuse(first, second, [], 32, 32, logits_add=False)
