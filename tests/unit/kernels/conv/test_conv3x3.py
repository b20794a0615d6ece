"""The fused 3x3 convolution: the formula against torch, the kernel against the formula."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from kernels.conv.conv3x3 import conv3x3, conv3x3_torch
from kernels.conv.conv3x3_layout import make_conv3x3
from kernels.errors import InvalidInputError, ShapeError
from tests.support.triton import DEVICES, assert_close

SHAPES = [
    (1, 5, 7, 8, 16, 1),
    (2, 9, 6, 32, 16, 2),
    (1, 16, 16, 32, 48, 1),
    (1, 4, 5, 96, 32, 1),
    (2, 7, 7, 16, 64, 2),
]


@pytest.mark.parametrize(("n", "h", "w", "i", "o", "stride"), SHAPES)
def test_formula_is_torch_s(n: int, h: int, w: int, i: int, o: int, stride: int) -> None:
    weight, bias, slope = torch.randn(o, i, 3, 3), torch.randn(o), torch.rand(o)
    x = torch.randn(n, i, h, w)
    value = F.conv2d(x, weight, bias, stride, 1)
    residual = torch.randn_like(value)
    conv = make_conv3x3(weight, bias, slope, stride)
    nhwc, extra = (t.permute(0, 2, 3, 1).contiguous() for t in (x, residual))
    for order, wanted in (
        ("none", F.prelu(value, slope)),
        ("before", F.prelu(value + residual, slope)),
        ("after", F.prelu(value, slope) + residual),
    ):
        got = conv3x3(nhwc, conv, None if order == "none" else extra, order)  # type: ignore[arg-type]
        torch.testing.assert_close(got.permute(0, 3, 1, 2), wanted, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("n", "h", "w", "i", "o", "stride"), SHAPES)
def test_kernel_equals_the_formula(device: str, n: int, h: int, w: int, i: int, o: int, stride: int) -> None:
    from kernels.conv.conv3x3_triton import ConvTile, launch

    torch.manual_seed(0)
    weight = torch.randn(o, i, 3, 3) / (9 * i) ** 0.5
    conv = make_conv3x3(weight, torch.randn(o), torch.rand(o), stride).to(device, torch.float16)
    x = torch.randn(n, h, w, i, device=device, dtype=torch.float16)
    residual = torch.randn_like(conv3x3_torch(x, conv))
    small = ConvTile(64, 16, 16, 4, 2)
    for order, extra, tile in (("none", None, None), ("before", residual, small), ("after", residual, None)):
        got = launch(x, conv, extra, order, tile)  # type: ignore[arg-type]
        assert got.dtype == torch.float16
        assert_close(got, conv3x3_torch(x, conv, extra, order), 6e-3, order)  # type: ignore[arg-type]


def test_channels_are_padded_with_zeros() -> None:
    conv = make_conv3x3(torch.randn(5, 3, 3, 3), torch.randn(5), 0.2)
    assert conv.weight.shape == (9, 8, 16)
    out = conv3x3(torch.randn(1, 4, 4, 8), conv)
    assert out.shape == (1, 4, 4, 16) and not out[..., 5:].any()


def test_what_does_not_fit_is_named() -> None:
    conv = make_conv3x3(torch.randn(16, 8, 3, 3), torch.randn(16))
    with pytest.raises(ShapeError, match="x:"):
        conv3x3(torch.randn(1, 4, 4, 16), conv)
    with pytest.raises(ShapeError, match="residual"):
        conv3x3(torch.randn(1, 4, 4, 8), conv, torch.randn(1, 4, 4, 8), "before")
    with pytest.raises(ShapeError, match="residual"):
        conv3x3(torch.randn(1, 4, 4, 8), conv, None, "after")
    with pytest.raises(InvalidInputError, match="stride"):
        make_conv3x3(torch.randn(16, 8, 3, 3), torch.randn(16), stride=3)
    with pytest.raises(ShapeError, match="weight"):
        make_conv3x3(torch.randn(16, 8, 1, 1), torch.randn(16))
