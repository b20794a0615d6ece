"""What a UNet does between its products: Triton bodies and torch references against float64 formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from kernels.errors import InvalidInputError, ShapeError
from kernels.unet.add_residual import add_residual, add_residual_torch
from kernels.unet.doubled import doubled
from kernels.unet.gated_gelu import gated_gelu, gated_gelu_torch
from kernels.unet.group_norm import group_norm, group_norm_torch
from kernels.unet.layer_norm import layer_norm, layer_norm_torch
from tests.support.triton import DEVICES, assert_close

ERRORS = {torch.float32: 2e-5, torch.float16: 4e-3}
TYPES = tuple(ERRORS)


def draw(seed: int, *shape: int, scale: float = 1.0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale


def want_group_norm(x: Tensor, weight: Tensor, bias: Tensor, groups: int, silu: bool, offset: Tensor | None) -> Tensor:
    values = x.double() if offset is None else x.double() + offset.double()
    by_group = values.unflatten(-1, (groups, -1))
    mean = by_group.mean(dim=(1, 2, 4), keepdim=True)
    variance = by_group.var(dim=(1, 2, 4), keepdim=True, correction=0)
    made = ((by_group - mean) / (variance + 1e-6).sqrt()).flatten(-2) * weight.double() + bias.double()
    return made * torch.sigmoid(made) if silu else made


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(
    ("channels", "more", "groups", "held"), [(20, 0, 2, 32_768), (12, 18, 5, 32_768), (20, 12, 4, 128)]
)
def test_group_norm(device: str, dtype: torch.dtype, channels: int, more: int, groups: int, held: int) -> None:
    """Groups whose channels are no power of two, a group on the border between both maps, maps beyond the registers."""
    from kernels.unet.group_norm_triton import norm

    x, skip = (draw(seed, 1, 5, 6, c).add(3.0).to(dtype) for seed, c in ((1, channels), (2, more)))
    skip_or_none = skip if more else None
    weight, bias = draw(3, channels + more) + 1.0, draw(4, channels + more)
    both = torch.cat([x, skip], dim=-1)
    for silu, offset in ((True, None), (False, draw(5, channels + more))):
        want = want_group_norm(both, weight, bias, groups, silu, offset)
        on = [None if t is None else t.to(device) for t in (x, weight, bias, skip_or_none, offset)]
        assert on[0] is not None and on[1] is not None and on[2] is not None
        made = norm(on[0], on[1], on[2], groups, 1e-6, silu=silu, skip=on[3], offset=on[4], held=held)
        plain = group_norm_torch(x, weight, bias, groups, 1e-6, silu=silu, skip=skip_or_none, offset=offset)
        for got, what in ((made, "triton"), (plain, "torch")):
            assert got.dtype == dtype and got.is_contiguous()
            assert_close(got, want, ERRORS[dtype] * float(want.abs().max()), f"{what} silu={silu}")


def test_items_of_a_batch_are_normed_alone() -> None:
    x, ones, zeros = draw(1, 3, 4, 4, 8), torch.ones(8), torch.zeros(8)
    batch = group_norm(x, ones, zeros, 2, 1e-5)
    assert torch.equal(group_norm(x[1:2].clone(), ones, zeros, 2, 1e-5)[0], batch[1])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("rows", "columns"), [(37, 40), (5, 1280), (3, 48)])
def test_rows(device: str, dtype: torch.dtype, rows: int, columns: int) -> None:
    from kernels.unet.rows_triton import add_rows, gate_rows, norm_rows

    x, other, wide = (draw(seed, rows, c).to(dtype) for seed, c in ((1, columns), (2, columns), (3, 2 * columns)))
    weight, bias, offset = draw(4, columns) + 1.0, draw(5, columns), draw(6, columns, scale=3.0)
    values = x.double() + offset.double()
    centred = values - values.mean(-1, keepdim=True)
    normed = centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double() + bias.double()
    value, gate = wide.double().chunk(2, dim=-1)
    gated = value * 0.5 * gate * (1 + torch.erf(gate / math.sqrt(2)))
    summed = x.double() + other.double() + bias.double()
    on = [t.to(device) for t in (x, other, wide, weight, bias, offset)]
    cases = (
        (norm_rows(on[0], on[3], on[4], on[5]), layer_norm_torch(x, weight, bias, offset), normed),
        (gate_rows(on[2]), gated_gelu_torch(wide), gated),
        (add_rows(on[0].clone(), on[1], on[4]), add_residual_torch(x.clone(), other, bias), summed),
    )
    for got, plain, want in cases:
        assert got.dtype == plain.dtype == dtype
        assert_close(got, want, ERRORS[dtype] * float(want.abs().max()), "triton")
        assert_close(plain, want, ERRORS[dtype] * float(want.abs().max()), "torch")
    plain_norm = norm_rows(on[0], on[3], on[4], None)
    assert_close(plain_norm, layer_norm_torch(x, weight, bias), ERRORS[dtype] * 8, "no offset")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_doubled(device: str, dtype: torch.dtype) -> None:
    from kernels.unet.rows_triton import double_places

    x = draw(1, 2, 3, 5, 20).to(dtype)
    want = x.repeat_interleave(2, dim=1).repeat_interleave(2, dim=2)
    assert torch.equal(double_places(x.to(device)).cpu(), want) and torch.equal(doubled(x), want)


def test_a_residual_is_added_in_place() -> None:
    x = draw(1, 2, 3, 8)
    assert add_residual(x, torch.ones_like(x), torch.zeros(8)) is x
    assert_close(x, draw(1, 2, 3, 8) + 1, 1e-6)


def test_what_does_not_fit_is_refused() -> None:
    x, eight = torch.zeros(1, 2, 2, 8), torch.zeros(8)
    with pytest.raises(ShapeError, match="x"):
        group_norm(x.permute(0, 3, 1, 2), eight, eight, 2, 1e-5)
    with pytest.raises(ShapeError, match="skip"):
        group_norm(x, eight, eight, 2, 1e-5, skip=x.half())
    with pytest.raises(ShapeError, match="weight"):
        group_norm(x, eight, eight, 2, 1e-5, skip=x)
    with pytest.raises(InvalidInputError, match="groups"):
        group_norm(x, eight, eight, 3, 1e-5)
    with pytest.raises(ShapeError, match="offset"):
        layer_norm(x, eight, eight, torch.zeros(7))
    with pytest.raises(ShapeError, match="wide"):
        gated_gelu(torch.zeros(2, 3))
    with pytest.raises(ShapeError, match="residual"):
        add_residual(x, x[..., :4], eight)
    with pytest.raises(ShapeError, match="bias"):
        add_residual(x, x, eight.half())
