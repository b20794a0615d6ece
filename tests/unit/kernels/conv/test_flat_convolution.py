"""Flat picture stacks: the layout, convolutions in it with what follows them, and SPADE's modulation."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from kernels.conv.flat_convolution import (
    flat_convolution,
    flat_convolution_torch,
    flat_convolution_with_statistics,
    flat_modulated_convolution_torch,
    interleave_modulation,
    pack_weight,
)
from kernels.conv.flat_maps import FlatShape, from_flat, to_flat
from kernels.conv.instance_norm import Normed, statistics_torch
from kernels.errors import ShapeError
from tests.support.triton import DEVICES, assert_close

DECODER_CONVOLUTIONS = [
    (64, 512, 256, 3),
    (64, 256, 256, 1),
    (64, 256, 1536, 3),
    (64, 512, 512, 3),
    (64, 128, 1024, 3),
    (128, 512, 256, 3),
    (256, 256, 64, 3),
    (256, 128, 128, 3),
    (256, 64, 64, 3),
    (256, 64, 16, 3),
]
SHAPES = [FlatShape(2, 5, 7), FlatShape(1, 18, 16), FlatShape(3, 9, 4)]


def random(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def stack(shape: FlatShape, channels: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return to_flat(random(shape.batch, shape.height, shape.width, channels, seed=seed, dtype=dtype))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_layout_is_lossless_and_pads_with_zeros(shape: FlatShape) -> None:
    pictures = random(shape.batch, shape.height, shape.width, 3) + 10.0
    flat = to_flat(pictures)
    assert flat.shape == (shape.rows, 3)
    assert torch.equal(from_flat(flat, shape), pictures)
    assert (flat != 0).sum() == pictures.numel()


@pytest.mark.parametrize("kernel", [1, 3])
@pytest.mark.parametrize("shape", SHAPES)
def test_shifted_products_are_the_convolution(shape: FlatShape, kernel: int) -> None:
    """The layout's claim, by the definition: rows a fixed distance away, zeros outside the stack."""
    x, weight = stack(shape, 4), random(6, 4, kernel, kernel, seed=1)
    packed = pack_weight(weight)
    total = torch.zeros(shape.rows, 6)
    for tap in range(kernel * kernel):
        distance = (tap // kernel - kernel // 2) * shape.pitch + tap % kernel - kernel // 2
        moved = torch.zeros_like(x)
        low, high = max(0, -distance), min(shape.rows, shape.rows - distance)
        moved[low:high] = x[low + distance : high + distance]
        total += moved @ packed[:, tap * 4 : (tap + 1) * 4].T
    want = F.conv2d(from_flat(x, shape).permute(0, 3, 1, 2), weight, padding=kernel // 2).permute(0, 2, 3, 1)
    assert_close(from_flat(total, shape), want, 1e-4)
    assert_close(from_flat(flat_convolution(x, packed, shape, kernel), shape), want, 1e-4)


def test_what_follows_is_applied_in_order() -> None:
    shape = SHAPES[0]
    x, weight, bias = stack(shape, 4), pack_weight(random(6, 4, 3, 3, seed=1)), random(6, seed=2)
    residual, scale = stack(shape, 6, seed=3), to_flat(random(2, 5, 7, 1, seed=4))[:, 0]
    plain = from_flat(flat_convolution_torch(x, weight, shape, 3), shape)
    want = F.leaky_relu(plain + bias + from_flat(residual, shape), 0.2) * from_flat(scale[:, None], shape)
    got = flat_convolution_torch(
        x, weight, shape, 3, bias=bias, slope=0.2, residual=residual, row_scale=scale, planes=2
    )
    assert got.shape == (2, shape.rows, 3)
    assert_close(torch.cat([from_flat(part, shape) for part in got], dim=-1), want, 1e-4)


def test_statistics_are_instance_norms() -> None:
    shape = SHAPES[0]
    x, weight = stack(shape, 4), pack_weight(random(6, 4, 3, 3, seed=1))
    out, statistics = flat_convolution_with_statistics(x, weight, shape, 3)
    pictures = from_flat(out, shape)
    want = F.instance_norm(pictures.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
    got = (pictures - statistics.mean[:, None, None]) * statistics.rstd[:, None, None]
    assert_close(got, want, 1e-4)


@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("scale", [1, 2])
def test_modulation_is_spades(scale: int, shift: bool) -> None:
    small = FlatShape(2, 3, 5)
    shape = small.scaled(scale)
    z, shared = stack(small, 6, seed=5), stack(shape, 4, seed=6)
    gamma, beta = random(6, 4, 3, 3, seed=7), random(6, 4, 3, 3, seed=8)
    gamma_bias, beta_bias = random(6, seed=9), random(6, seed=10)
    weight = interleave_modulation(pack_weight(gamma), pack_weight(beta)) if shift else pack_weight(gamma)
    bias = interleave_modulation(gamma_bias, beta_bias) if shift else gamma_bias
    normed = Normed(z, small, statistics_torch(z, small), scale)
    got = flat_modulated_convolution_torch(shared, weight, bias, shape, normed, slope=0.2, shift=shift)
    picture = F.interpolate(from_flat(z, small).permute(0, 3, 1, 2), scale_factor=float(scale))
    segment = from_flat(shared, shape).permute(0, 3, 1, 2)
    want = F.instance_norm(picture) * (1 + F.conv2d(segment, gamma, gamma_bias, padding=1))
    want = want + F.conv2d(segment, beta, beta_bias, padding=1) if shift else want
    assert_close(from_flat(got, shape), F.leaky_relu(want, 0.2).permute(0, 2, 3, 1), 1e-4)


def test_operands_that_do_not_fit_are_refused() -> None:
    shape = SHAPES[0]
    x = stack(shape, 4)
    with pytest.raises(ShapeError, match="weight"):
        flat_convolution(x, torch.zeros(6, 4), shape, 3)
    with pytest.raises(ShapeError, match="kernel"):
        flat_convolution(x, torch.zeros(6, 100), shape, 5)
    with pytest.raises(ShapeError, match="x"):
        flat_convolution(x[1:], torch.zeros(6, 4), shape, 1)
    with pytest.raises(ShapeError, match="planes"):
        flat_convolution(x, torch.zeros(6, 4), shape, 1, planes=4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("kernel", "planes", "follow"), [(3, 1, True), (1, 2, False), (3, 2, True)])
@pytest.mark.parametrize("shape", SHAPES)
def test_triton_convolution(device: str, shape: FlatShape, kernel: int, planes: int, follow: bool) -> None:
    from kernels.conv.flat_convolution_triton import convolve
    from kernels.conv.flat_tiles import Tile

    dtype = torch.float16
    x = stack(shape, 32, dtype=dtype).to(device)
    weight = pack_weight(random(64, 32, kernel, kernel, seed=1, dtype=dtype) * 0.1).to(device)
    more = {
        "bias": random(64, seed=2).to(device),
        "slope": 0.2,
        "residual": stack(shape, 64, seed=3, dtype=dtype).to(device),
        "row_scale": to_flat(random(shape.batch, shape.height, shape.width, 1, seed=4))[:, 0].contiguous().to(device),
    }
    if not follow:
        more = {"bias": None, "slope": 1.0, "residual": None, "row_scale": None}
    want = flat_convolution_torch(x.float(), weight.float(), shape, kernel, planes=planes, **more)
    tile = Tile(64, 32, 16, 2, 4)
    got = convolve(x, weight, shape, kernel, *more.values(), planes, dtype, tile=tile)
    assert_close(got.float(), want, 2e-2)
    assert torch.equal(got == 0, want == 0)


@pytest.mark.parametrize("shared", [48 * 1024 + 4096, 99 * 1024, 227 * 1024])
@pytest.mark.parametrize(("size", "channels", "outputs", "kernel"), DECODER_CONVOLUTIONS)
@pytest.mark.parametrize("batch", [1, 2, 4, 8, 16])
def test_tiles_divide_the_work_and_fit(
    batch: int, size: int, channels: int, outputs: int, kernel: int, shared: int
) -> None:
    from kernels.conv.flat_tiles import tile_for

    for modulation in (False, True):
        tile = tile_for(
            FlatShape(batch, size, size), channels, outputs, kernel, modulation=modulation, shared_bytes=shared
        )
        assert outputs % tile.outputs == 0 and channels % tile.depth == 0
        assert tile.stages * (tile.rows + tile.outputs) * tile.depth * 2 + 2048 <= shared


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", SHAPES)
def test_triton_statistics(device: str, shape: FlatShape) -> None:
    from kernels.conv.flat_statistics_triton import statistics

    flat = (stack(shape, 80) * 3 + 50 * (stack(shape, 80) != 0)).half().to(device)  # a mean far above the deviation
    want = statistics_torch(flat.double(), shape)
    got = statistics(flat, shape)
    assert_close(got.mean, want.mean, 1e-3)
    assert_close(got.rstd, want.rstd, 1e-3)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shift", [True, False])
@pytest.mark.parametrize("scale", [1, 2])
def test_triton_modulation(device: str, scale: int, shift: bool) -> None:
    from kernels.conv.flat_convolution_triton import modulate
    from kernels.conv.flat_tiles import Tile

    dtype = torch.float16
    small = FlatShape(2, 5, 6)
    shape = small.scaled(scale)
    z, shared = stack(small, 64, seed=5, dtype=dtype).to(device), stack(shape, 32, seed=6, dtype=dtype).to(device)
    columns = 128 if shift else 64
    weight = pack_weight(random(columns, 32, 3, 3, seed=7, dtype=dtype) * 0.1).to(device)
    bias = random(columns, seed=9).to(device)
    statistics = statistics_torch(z, small)
    want = flat_modulated_convolution_torch(
        shared.float(),
        weight.float(),
        bias,
        shape,
        Normed(z.float(), small, statistics, scale),
        slope=0.2,
        shift=shift,
    )
    normed = Normed(z, small, statistics, scale)
    got = modulate(shared, weight, bias, shape, normed, 0.2, shift, tile=Tile(32, 64, 32, 2, 4))
    assert_close(got.float(), want, 5e-2)
    assert torch.equal(got == 0, want == 0)
