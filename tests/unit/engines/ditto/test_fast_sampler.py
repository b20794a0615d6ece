"""The fused sampling loop against the plain one: the same numbers on the CPU, close ones in 16 bits on a GPU."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engines.ditto.fast.sampler import FastSampler
from engines.ditto.motion_sampler import MotionSampler
from engines.networks import build
from engines.networks.lmdm import Lmdm
from engines.runtimes.cuda_graphs import BucketedGraph
from kernels.errors import ShapeError


def small(guidance: float = 2.0) -> Lmdm:
    """The class at a size that a test can afford; weights away from their initial zeros and ones."""
    module = build(
        "mini/lmdm",
        cond_dim=37,
        seq_frames=20,
        latent=64,
        heads=4,
        feed_forward=96,
        layers=3,
        cond_layers=2,
        guidance_weight=guidance,
    )
    assert isinstance(module, Lmdm)
    generator = torch.Generator().manual_seed(3)
    for name, parameter in module.named_parameters():
        if name.endswith("bias") or "norm" in name:
            parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    return module.requires_grad_(False)


def inputs(lmdm: Lmdm, steps: int, batch: int, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = (
        (batch, lmdm.motion_dim),
        (batch, lmdm.seq_frames, lmdm.cond_dim),
        (batch, steps, lmdm.seq_frames, lmdm.motion_dim),
    )
    a, b, c = (torch.randn(shape, generator=generator) for shape in shapes)
    return a, b, c


def relative(got: Tensor, want: Tensor) -> float:
    got, want = got.cpu().double(), want.cpu().double()
    return float((got - want).norm() / want.norm())


@pytest.mark.parametrize("guidance", [2.0, 1.0, 0.5])
@pytest.mark.parametrize("steps,batch", [(1, 1), (4, 1), (3, 2)])
def test_it_is_the_sampler_s_function(guidance: float, steps: int, batch: int) -> None:
    lmdm = small(guidance)
    given = inputs(lmdm, steps, batch)
    with torch.inference_mode():
        want = MotionSampler(lmdm, steps)(*given)
        got = FastSampler(lmdm, steps)(*given)
    assert got.shape == want.shape
    assert relative(got, want) < 1e-5
    assert float((got - want).abs().max() / want.abs().max()) < 1e-5


def test_the_network_at_its_real_size() -> None:
    lmdm = build("ditto/lmdm", seed=5).requires_grad_(False)
    assert isinstance(lmdm, Lmdm)
    given = inputs(lmdm, 2, 1)
    with torch.inference_mode():
        assert relative(FastSampler(lmdm, 2)(*given), MotionSampler(lmdm, 2)(*given)) < 1e-5


def test_sessions_do_not_see_each_other() -> None:
    lmdm = small()
    fast = FastSampler(lmdm, 3)
    frame, cond, noise = inputs(lmdm, 3, 3)
    with torch.inference_mode():
        together = fast(frame, cond, noise)
        for i in range(3):
            assert relative(fast(frame[i : i + 1], cond[i : i + 1], noise[i : i + 1]), together[i : i + 1]) < 1e-5


def test_inputs_stay_as_they_are_and_shapes_are_checked() -> None:
    lmdm = small()
    fast = FastSampler(lmdm, 3)
    given = inputs(lmdm, 3, 2)
    before = [tensor.clone() for tensor in given]
    with torch.inference_mode():
        fast(*given)
        assert all(torch.equal(a, b) for a, b in zip(given, before, strict=True))
        with pytest.raises(ShapeError, match="noise"):
            fast(given[0], given[1], given[2][:, :2])


def test_sixteen_bit_products_stay_close_on_the_cpu_too() -> None:
    lmdm = small()
    given = inputs(lmdm, 4, 1)
    with torch.inference_mode():
        want = MotionSampler(lmdm, 4)(*given)
        assert relative(FastSampler(lmdm, 4, torch.bfloat16)(*given), want) < 3e-2


@pytest.mark.gpu
@pytest.mark.parametrize("dtype,bound", [(torch.float16, 2e-3), (torch.bfloat16, 1e-2)])
@pytest.mark.parametrize("steps", [10, 50])
def test_sixteen_bits_on_a_gpu_against_float32_on_the_cpu(dtype: torch.dtype, bound: float, steps: int) -> None:
    lmdm = build("ditto/lmdm", seed=5).requires_grad_(False)
    assert isinstance(lmdm, Lmdm)
    given = inputs(lmdm, steps, 2)
    with torch.inference_mode():
        want = MotionSampler(lmdm, steps)(*given)
        got = FastSampler(lmdm, steps, dtype).cuda()(*(tensor.cuda() for tensor in given))
    assert relative(got, want) < bound


@pytest.mark.gpu
def test_a_captured_loop_gives_the_same_and_interleaved_sessions_stay_apart() -> None:
    lmdm = build("ditto/lmdm", seed=5).requires_grad_(False)
    assert isinstance(lmdm, Lmdm)
    fast = FastSampler(lmdm, 10, torch.float16).cuda()
    graph = BucketedGraph(fast, lambda n: inputs(lmdm, 10, n, seed=99), (1, 2, 4), "cuda")
    sessions = [tuple(t.cuda() for t in inputs(lmdm, 10, 1, seed=i)) for i in range(3)]
    with torch.inference_mode():
        eager = [fast(*given) for given in sessions]
    for _ in range(2):
        alone = [graph(*given) for given in sessions]
        together = graph(*(torch.cat(parts) for parts in zip(*sessions, strict=True)))
        for i, want in enumerate(eager):
            assert relative(alone[i], want) < 1e-6
            assert relative(together[i : i + 1], want) < 1e-3
            assert not torch.isnan(together).any()
