"""LMDM and its DDIM sampling against stored outputs of the reference under the documented weight formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.ditto.formula import filled
from engines.diffusion import alphas_cumprod, ddim_sample, ddim_steps
from engines.ditto.fast.sampler import FastSampler
from engines.networks.lmdm import Lmdm
from tests.golden.support import assert_golden, golden, manifest_shapes, normal

MAX_ERROR = 5e-4


@pytest.fixture(scope="module")
def lmdm() -> Lmdm:
    module = filled("lmdm")
    assert isinstance(module, Lmdm)
    return module


def test_names_and_shapes_are_those_of_the_public_checkpoint(lmdm: Lmdm) -> None:
    assert {key: tuple(value.shape) for key, value in lmdm.state_dict().items()} == manifest_shapes("lmdm")


def test_schedule() -> None:
    np.testing.assert_allclose(alphas_cumprod().numpy(), golden("lmdm")["alphas_cumprod"], atol=1e-7, rtol=0)


@pytest.mark.parametrize("timestep", [999, 500, 33, 0])
def test_one_prediction(lmdm: Lmdm, timestep: int) -> None:
    x = normal("lmdm/x", (1, 80, 265))
    cond_frame, cond = normal("lmdm/cond_frame", (1, 265), 0.5), normal("lmdm/cond", (1, 80, 1103), 0.5)
    t, stored = torch.tensor([timestep]), golden("lmdm")
    with torch.inference_mode():
        x_start = lmdm(x, cond_frame, cond, t)
        assert_golden(stored, f"x_start_t{timestep}", x_start, MAX_ERROR)
        grows = 1 / float(
            stored["sqrt_recipm1_alphas_cumprod"][timestep]
        )  # by this an error of x_start shows in the noise
        if grows < 100:
            noise = ((1 / alphas_cumprod()[timestep]).sqrt() * x - x_start) * grows
            assert_golden(stored, f"pred_noise_t{timestep}", noise, 2 * MAX_ERROR * max(1.0, grows))
        cache = lmdm.encode_condition(cond_frame, cond, t)
        conditional, unconditional = lmdm.denoise_branches(x, 0, cache).chunk(2)
        assert_golden(stored, f"cond_t{timestep}", conditional, MAX_ERROR)
        assert_golden(stored, f"uncond_t{timestep}", unconditional, MAX_ERROR)


@pytest.mark.parametrize("count", [10, 50])
def test_ddim(lmdm: Lmdm, count: int) -> None:
    schedule, stored = ddim_steps(count), golden(f"ddim_{count}")
    assert [[step.time, step.next_time] for step in schedule] == stored["time_pairs"].tolist()
    np.testing.assert_allclose([step.sigma for step in schedule[:-1]], stored["sigma"], atol=1e-6)
    np.testing.assert_allclose([step.direction for step in schedule[:-1]], stored["c"], atol=5e-5)
    np.testing.assert_allclose([step.keep for step in schedule[:-1]], stored["alpha_next_sqrt"], atol=1e-6)
    cond_frame, cond = normal("ddim/cond_frame", (1, 265), 0.5), normal("ddim/cond", (1, 80, 1103), 0.5)
    noise = torch.stack([normal(f"ddim/{count}/randn/{k}", (1, 80, 265)) for k in range(count)])
    with torch.inference_mode():
        cache = lmdm.encode_condition(cond_frame, cond, torch.tensor([step.time for step in schedule]))
        x = ddim_sample(lambda x, i: lmdm.denoise(x, i, cache), noise[-1], noise[:-1], schedule)
        fused = FastSampler(lmdm, count)(cond_frame, cond, noise.transpose(0, 1))
    np.testing.assert_allclose(x.numpy(), stored["x"], atol=MAX_ERROR, rtol=0)
    np.testing.assert_allclose(fused.numpy(), stored["x"], atol=MAX_ERROR, rtol=0)
