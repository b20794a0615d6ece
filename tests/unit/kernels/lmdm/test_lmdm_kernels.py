"""The four operations that LMDM's fast path is made of: Triton bodies and torch references against float64 formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from kernels.errors import ShapeError
from kernels.lmdm.ddim_project import ddim_project, ddim_project_torch
from kernels.lmdm.linear_film import linear_film, linear_film_torch
from kernels.lmdm.norm_linear import norm_linear, norm_linear_torch
from kernels.lmdm.short_attention import short_attention, short_attention_torch
from tests.support.triton import DEVICES, assert_close

TYPES = [torch.float32, torch.float16, torch.bfloat16]
PLACES = [
    pytest.param(*place.values, dtype, id=f"{place.id}-{str(dtype).removeprefix('torch.')}", marks=place.marks)
    for place in DEVICES
    for dtype in TYPES
    if place.id == "compiled" or dtype != torch.bfloat16  # the interpreter multiplies bfloat16 tiles as integers
]
ERRORS = {torch.float32: 2e-3, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""float32 products of tiles run in tf32 on a GPU."""


def draw(seed: int, *shape: int, scale: float = 1.0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)) * scale


def tables(length: int, width: int) -> tuple[Tensor, Tensor]:
    angles = torch.arange(length)[:, None] * 100.0 ** (-torch.arange(0, width, 2) / width)
    angles = angles.repeat_interleave(2, dim=-1)
    sign = torch.tensor([-1.0, 1.0]).repeat(width // 2)
    return angles.cos(), angles.sin() * sign


def want_norm_linear(x, gain, offset, weight, bias, turn, rotated, gelu) -> Tensor:
    x, gain, offset, weight, bias = (t.double() for t in (x, gain, offset, weight, bias))
    normed = (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt() * gain + offset
    cos, sin = (t[: x.shape[1]].double() for t in turn)
    swapped = torch.stack([normed[..., 1::2], normed[..., 0::2]], dim=-1).flatten(-2)
    turned = normed * cos + swapped * sin
    out = torch.cat([turned @ weight[:rotated].T, normed @ weight[rotated:].T], dim=-1) + bias
    return 0.5 * out * (1 + torch.erf(out / math.sqrt(2.0))) if gelu else out


@pytest.mark.parametrize("device,dtype", PLACES)
@pytest.mark.parametrize(
    "batch,length,k,n,rotated,gelu",
    [(2, 20, 64, 192, 128, False), (1, 35, 48, 33, 0, True), (3, 7, 96, 40, 40, False)],
)
def test_norm_linear(device, dtype, batch, length, k, n, rotated, gelu):
    from kernels.lmdm.norm_linear_triton import Tiling, launch

    x, gain, offset = draw(1, batch, length, k) + 3.0, draw(2, k) + 1.0, draw(3, k)
    weight, bias, turn = draw(4, n, k, scale=k**-0.5).to(dtype), draw(5, n), tables(length + 2, k)
    want = want_norm_linear(x, gain, offset, weight, bias, turn, rotated, gelu)
    on = [t.to(device) for t in (x, gain, offset, weight, bias)]
    turn_on = tuple(t.to(device) for t in turn)
    for tiling in (None, Tiling(rows=16, columns=64, depth=32)):
        got = launch(*on, turn_on if rotated else None, rotated, gelu, tiling)
        assert got.dtype == dtype
        assert_close(got, want, ERRORS[dtype] * float(want.abs().max()), f"triton {tiling}")
    plain = norm_linear_torch(x, gain, offset, weight, bias, tables=turn, rotated=rotated, gelu=gelu)
    assert_close(plain, want, (1e-5 if dtype == torch.float32 else ERRORS[dtype]) * float(want.abs().max()), "torch")


@pytest.mark.parametrize("device,dtype", PLACES)
@pytest.mark.parametrize("film,bias,copies", [(True, True, 1), (False, False, 2), (True, False, 3)])
def test_linear_film(device, dtype, film, bias, copies):
    from kernels.lmdm.linear_film_triton import launch

    length, k, n = 21, 53, 70
    h, y = draw(1, 2 * copies, length, n), draw(2, 2, length, k).to(torch.float32 if copies > 1 else dtype)
    weight, offset = draw(3, n, k, scale=k**-0.5).to(dtype), draw(4, n) if bias else None
    factors = draw(5, 2 * copies, 4, 2, n).to(dtype)[:, 2] if film else None
    out = y.double().repeat(copies, 1, 1) @ weight.double().T + (offset.double() if offset is not None else 0.0)
    want = h.double() + out
    if factors is not None:
        scale, shift = factors.double().unbind(1)
        want = h.double() + shift[:, None] + (1 + scale[:, None]) * out
    on = [None if t is None else t.to(device) for t in (y, weight, offset, factors)]
    target = h.to(device, copy=True)
    assert launch(target, *on) is target
    assert_close(target, want, ERRORS[dtype] * float(want.abs().max()), "triton")
    target = h.clone()
    assert linear_film_torch(target, y, weight, offset, factors) is target
    assert_close(target, want, (1e-5 if dtype == torch.float32 else ERRORS[dtype]) * float(want.abs().max()), "torch")


@pytest.mark.parametrize("device,dtype", PLACES)
@pytest.mark.parametrize("keys,more", [(35, 0), (35, 2), (16, 0), (126, 2), (5, 3)])
def test_short_attention(device, dtype, keys, more):
    from kernels.lmdm.short_attention_triton import launch

    items, length, heads, depth = 2, 35, 3, 16
    width = heads * depth
    wide = draw(1, items, max(length, keys), 3 * width).to(dtype)
    q, k, v = wide[:, :length, :width], wide[:, :keys, width : 2 * width], wide[:, :keys, 2 * width :]
    late = draw(2, more, 2 * width).to(dtype)
    shared = (late[:, :width], late[:, width:]) if more else None
    all_k, all_v = (
        torch.cat([own.double(), part.double().expand(items, -1, -1)], 1)
        for own, part in ((k, late[:, :width]), (v, late[:, width:]))
    )
    split = [torch.unflatten(t.double(), -1, (heads, depth)).transpose(1, 2) for t in (q, all_k, all_v)]
    weights = torch.softmax(split[0] @ split[1].transpose(-1, -2) / math.sqrt(depth), dim=-1)
    want = (weights @ split[2]).transpose(1, 2).flatten(-2)
    on = [t.to(device) for t in (wide, late)]
    q, k, v = on[0][:, :length, :width], on[0][:, :keys, width : 2 * width], on[0][:, :keys, 2 * width :]
    shared = (on[1][:, :width], on[1][:, width:]) if more else None
    got = launch(q, k, v, heads, shared)
    assert got.dtype == dtype and got.is_contiguous()
    assert_close(got, want, ERRORS[dtype] * 3, "triton")
    assert_close(short_attention_torch(q, k, v, heads, shared), want, 2e-2 if dtype != torch.float32 else 1e-5, "torch")


@pytest.mark.parametrize("device,dtype", PLACES)
@pytest.mark.parametrize("guidance", [None, 2.0, 0.5])
def test_ddim_project(device, dtype, guidance):
    from kernels.lmdm.ddim_project_triton import launch

    batch, length, k, n = 3, 9, 40, 53
    h = draw(1, batch * (1 if guidance is None else 2), length, k)
    weight, bias, x = draw(2, n, k, scale=k**-0.5).to(dtype), draw(3, n), draw(4, batch, length, n)
    noise = draw(5, batch, 4, length, n)[:, 2]
    update = (0.7, -0.4, 0.2)
    mixed = h.double()
    if guidance is not None:
        mixed = h[batch:].double() + guidance * (h[:batch].double() - h[batch:].double())
    want = 0.7 * (mixed @ weight.double().T + bias) - 0.4 * x.double() + 0.2 * noise.double()
    before = x.clone()
    on = [t.to(device) for t in (h, weight, bias, x)]
    strided = draw(5, batch, 4, length, n).to(device)[:, 2]
    assert_close(launch(*on, strided, update, guidance), want, ERRORS[dtype] * 4, "triton")
    got = ddim_project_torch(h, weight, bias, x, noise, update, guidance)
    assert_close(got, want, 1e-5 if dtype == torch.float32 else ERRORS[dtype] * 4, "torch")
    assert_close(x, before, 0.0, "the motion that came in")


def test_what_does_not_fit_is_refused():
    x, w, b = draw(1, 2, 5, 32), draw(2, 48, 32), draw(3, 48)
    gain = torch.ones(32)
    with pytest.raises(ShapeError, match="x"):
        norm_linear(x.half(), gain, gain, w, b)
    with pytest.raises(ShapeError, match="weight"):
        norm_linear(x, gain, gain, w[:, :16], b)
    with pytest.raises(ShapeError, match="tables"):
        norm_linear(x, gain, gain, w, b, tables=tables(4, 32), rotated=48)
    with pytest.raises(ShapeError, match="rotated"):
        norm_linear(x, gain, gain, w, b, tables=tables(5, 32), rotated=49)
    h = draw(4, 2, 5, 48)
    with pytest.raises(ShapeError, match="film"):
        linear_film(h, x, w, b, draw(5, 2, 3, 48))
    with pytest.raises(ShapeError, match="y"):
        linear_film(h, draw(1, 3, 5, 32), w, b)
    with pytest.raises(ShapeError, match="keys"):
        short_attention(x, draw(1, 2, 129, 32), draw(1, 2, 129, 32), 2)
    with pytest.raises(ShapeError, match="heads"):
        short_attention(x, x, x, 3)
    with pytest.raises(ShapeError, match="h:"):
        ddim_project(h, w[:, :48].T.contiguous(), b, draw(6, 2, 5, 32), draw(6, 2, 5, 32), (1, 0, 0), 2.0)
    with pytest.raises(ShapeError, match="noise"):
        ddim_project(h, draw(7, 32, 48), gain, draw(6, 2, 5, 32), draw(6, 2, 5, 31), (1, 0, 0), None)


@pytest.mark.gpu
def test_the_wrappers_stay_on_the_gpu():
    x, w, b, gain = draw(1, 2, 5, 32).cuda(), draw(2, 48, 32).cuda(), draw(3, 48).cuda(), torch.ones(32).cuda()
    y = norm_linear(x, gain, gain, w, b)
    assert y.is_cuda and short_attention(y, y, y, 3).is_cuda
    assert linear_film(x.clone(), y, w.T.contiguous(), None).is_cuda
    assert ddim_project(x, w, b, y, y, (1.0, 0.0, 0.0), None).is_cuda
