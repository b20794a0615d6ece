"""Ditto on CUDA against its own float32 results and the stored ones; looser gates, see the golden README."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.ditto.formula import filled
from engines.ditto.face_synthesis import FaceSynthesis
from engines.ditto.motion_runtime import compiled_runtime
from engines.ditto.motion_sampler import MotionSampler
from engines.networks.ditto.convolutions import fold_spectral
from engines.networks.lmdm import Lmdm
from engines.runtimes.torch import TorchRuntime
from tests.golden.support import golden, normal, uniform

pytestmark = pytest.mark.gpu
MIN_PSNR_DB = 30.0


def test_half_precision_pictures_are_close_to_float32_ones() -> None:
    decoder = filled.__wrapped__("decoder")
    fold_spectral(decoder)
    warp = filled.__wrapped__("warp_network")
    volume = normal("warp_network/feature_3d", (1, 32, 16, 64, 64))
    source = uniform("warp_network/kp_source", (1, 21, 3), -0.7, 0.7).expand(2, -1, -1)
    driven = source + normal("warp_network/kp_delta", (1, 21, 3), 0.06)
    fast = TorchRuntime(FaceSynthesis(warp, decoder), "cuda").run(volume, source, driven).cpu().float()
    with torch.inference_mode():
        on_gpu = (tensor.cuda() for tensor in (volume.expand(2, -1, -1, -1, -1), source, driven))
        exact = (decoder(warp(*on_gpu)) * 255.0).permute(0, 2, 3, 1).cpu()
    error = (fast - exact).square().mean().item()
    assert 10 * np.log10(255.0**2 / error) >= MIN_PSNR_DB


def test_the_motion_sampler_agrees_with_the_stored_result() -> None:
    lmdm = filled.__wrapped__("lmdm")
    assert isinstance(lmdm, Lmdm)
    noise = torch.stack([normal(f"ddim/10/randn/{k}", (1, 80, 265)) for k in range(10)], dim=1)
    cond_frame, cond = normal("ddim/cond_frame", (1, 265), 0.5), normal("ddim/cond", (1, 80, 1103), 0.5)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        x = TorchRuntime(MotionSampler(lmdm, 10), "cuda").run(cond_frame, cond, noise)
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
    np.testing.assert_allclose(x.cpu().numpy(), golden("ddim_10")["x"], atol=5e-3)


def test_the_captured_16_bit_loop_agrees_with_the_stored_result() -> None:
    lmdm = filled.__wrapped__("lmdm")
    assert isinstance(lmdm, Lmdm)
    noise = torch.stack([normal(f"ddim/10/randn/{k}", (1, 80, 265)) for k in range(10)], dim=1)
    cond_frame, cond = normal("ddim/cond_frame", (1, 265), 0.5), normal("ddim/cond", (1, 80, 1103), 0.5)
    runtime = compiled_runtime(lmdm, 10, "cuda", buckets=(1, 2))
    stored = golden("ddim_10")["x"]
    for batch in (1, 2, 3):  # another place in a bucket, another bucket, mini-batches
        given = (tensor.repeat(batch, *[1] * (tensor.dim() - 1)) for tensor in (cond_frame, cond, noise))
        for x in runtime.run(*given).cpu().numpy():
            assert np.linalg.norm(x - stored[0]) / np.linalg.norm(stored[0]) < 5e-3
