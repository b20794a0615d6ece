"""The baseline of the motion benchmark computes the same function as what it is compared with."""

from __future__ import annotations

import torch

from benchmarks.ditto.motion import relative_error, window_inputs
from benchmarks.ditto.reference_lmdm import ReferenceSampling
from engines.ditto.motion_sampler import MotionSampler
from engines.networks import build
from engines.networks.lmdm import Lmdm


def test_it_gives_the_sampler_s_motion() -> None:
    lmdm = build(
        "mini/lmdm", cond_dim=37, seq_frames=20, latent=64, heads=4, layers=2, cond_layers=2, guidance_weight=2.0
    )
    assert isinstance(lmdm, Lmdm)
    given = window_inputs(lmdm, 4, 2, "cpu")
    with torch.inference_mode():
        want = MotionSampler(lmdm, 4)(*given)
        assert relative_error(ReferenceSampling(lmdm, 4, torch.float32)(*given), want) < 1e-5


def test_errors_count_nan() -> None:
    assert relative_error(torch.tensor([float("nan")]), torch.ones(1)) == float("inf")
