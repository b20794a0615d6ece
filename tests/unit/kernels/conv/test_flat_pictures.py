"""Enlarged taps and shuffled pixels against the operators they stand for."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from kernels.conv.enlarged_taps import enlarged_taps, enlarged_taps_torch
from kernels.conv.flat_convolution import flat_convolution, pack_weight
from kernels.conv.flat_maps import FlatShape, from_flat, to_flat
from kernels.conv.shuffled_pixels import shuffled_picture, shuffled_pixels, shuffled_pixels_torch
from kernels.errors import ShapeError
from tests.support.triton import DEVICES, assert_close

SHAPE = FlatShape(2, 3, 9)


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def tap_weight(weight: torch.Tensor) -> torch.Tensor:
    """(c, in, 3, 3) -> the 1 x 1 convolution of the nine products (9 c, in)."""
    return weight.permute(2, 3, 0, 1).flatten(0, 2).contiguous()


@pytest.mark.parametrize("scale", [2, 4])
def test_taps_are_the_convolution_of_the_enlarged_picture(scale: int) -> None:
    picture, weight, bias = random(2, 3, 9, 5), random(16, 5, 3, 3, seed=1), random(16, seed=2)
    products = flat_convolution(to_flat(picture), tap_weight(weight), SHAPE, 1)
    got = from_flat(enlarged_taps(products, bias, SHAPE, scale), SHAPE.scaled(scale))
    large = F.interpolate(picture.permute(0, 3, 1, 2), scale_factor=float(scale))
    want = F.relu(F.conv2d(large, weight, bias, padding=1)).permute(0, 2, 3, 1)
    assert_close(got, want, 1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("scale", [2, 4])
def test_triton_taps(device: str, scale: int) -> None:
    from kernels.conv.enlarged_taps_triton import add_up

    products = to_flat(random(2, 3, 9, 16 * 9 + 32)).half().to(device)
    bias = random(16, seed=3).to(device)
    got = add_up(products, bias, SHAPE, scale, 16)
    want = enlarged_taps_torch(products.float(), bias, SHAPE, scale, 16)
    assert_close(got.float(), want, 2e-2)
    assert got[want == 0].eq(0).all()


def test_pixels_are_pixel_shuffle_and_sigmoid() -> None:
    logits = to_flat(random(2, 3, 9, 16) * 3)
    want = torch.sigmoid(F.pixel_shuffle(from_flat(logits, SHAPE)[..., :12].permute(0, 3, 1, 2), 2))
    assert_close(shuffled_picture(logits, SHAPE), want, 1e-6)
    assert_close(shuffled_pixels(logits, SHAPE).float(), (want * 255).round().permute(0, 2, 3, 1), 0)


@pytest.mark.parametrize("device", DEVICES)
def test_triton_pixels(device: str) -> None:
    from kernels.conv.shuffled_pixels_triton import shuffle

    logits = to_flat(random(2, 3, 70, 16) * 4).to(device)
    shape = FlatShape(2, 3, 70)
    assert_close(shuffle(logits, shape).float(), shuffled_pixels_torch(logits, shape).float(), 1)


def test_operands_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ShapeError, match="logits"):
        shuffled_pixels(torch.zeros(SHAPE.rows, 8), SHAPE)
    with pytest.raises(ShapeError, match="products"):
        enlarged_taps(torch.zeros(SHAPE.rows, 8), torch.zeros(4), SHAPE, 2)
    with pytest.raises(ShapeError, match="scale"):
        enlarged_taps(torch.zeros(SHAPE.rows, 36), torch.zeros(4), SHAPE, 3)
    assert pack_weight(torch.zeros(2, 3, 3, 3)).shape == (2, 27)
