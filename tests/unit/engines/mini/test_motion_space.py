from __future__ import annotations

import pytest
import torch

from engines.mini.load import random_networks
from engines.mini.motion_space import DEGREES_OF_FREEDOM, DofStatistics, MotionSpace, dof_basis, rest_motion
from engines.mini.rig import ACTIONS, actions_to_exp
from engines.mini.window_sampler import WindowSampler, correlation_factor
from engines.motion_layout import pack_motion, unpack_motion
from kernels.errors import ShapeError


def fitted() -> MotionSpace:
    generator = torch.Generator().manual_seed(0)
    dofs = torch.rand(500, 20, generator=generator) * torch.linspace(0.1, 3.0, 20)
    space = MotionSpace()
    space.fit(DofStatistics(dofs.mean(0), dofs.std(0), dofs.amin(0), dofs.amax(0)))
    return space


def test_the_basis_is_the_layout() -> None:
    generator = torch.Generator().manual_seed(1)
    dofs = torch.randn(7, 20, generator=generator) * 0.3
    motion = rest_motion() + dofs @ dof_basis()
    wanted = pack_motion(dofs[:, :3], dofs[:, 3:6], actions_to_exp(dofs[:, 7:]), 1.0 + dofs[:, 6])
    torch.testing.assert_close(motion, wanted, atol=2e-4, rtol=1e-5)
    assert len(DEGREES_OF_FREEDOM) == 7 + len(ACTIONS)


def test_motion_inside_the_range_survives_the_projection() -> None:
    space = fitted()
    dofs = space.dof_mean + 0.5 * space.dof_std
    motion = rest_motion() + dofs @ dof_basis()
    x = space.normalise(motion)
    torch.testing.assert_close(space.denormalise(space.project(x)), motion, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(space.standardised(motion), torch.full((20,), 0.5), atol=1e-3, rtol=0)


def test_what_lies_outside_is_brought_back() -> None:
    space = fitted()
    wild = space.denormalise(space.project(torch.randn(10, 265, generator=torch.Generator().manual_seed(2)) * 100))
    limits = space.standardised(wild)
    assert (limits <= space.high + 1e-3).all() and (limits >= space.low - 1e-3).all()
    angles, _, _, _ = unpack_motion(wild)
    assert angles.abs().max() < 5.0


def test_noise_has_unit_variance_where_motion_moves() -> None:
    space = fitted()
    noise = space.noise(torch.randn(20_000, 20, generator=torch.Generator().manual_seed(3)))
    moving = space.from_dof.abs().sum(0) > 0
    torch.testing.assert_close(noise.std(0)[moving], torch.ones(int(moving.sum())), atol=0.05, rtol=0)
    assert not noise[:, ~moving].any()


def sampler() -> WindowSampler:
    networks = random_networks()
    return WindowSampler(networks.lmdm, fitted(), steps=3).eval()


def test_a_window_starts_where_the_motion_was() -> None:
    module = sampler()
    history = rest_motion().expand(1, 25, 265).clone()
    cond = torch.zeros(1, 32, 257)
    noise = torch.randn(1, 3, 8, 20, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        moved = history.clone()
        moved[..., 202:] += 0.1
        plain, shifted = module(history, cond, noise), module(moved, cond, noise)
    assert plain.shape == (1, 8, 265)
    assert not torch.allclose(plain, shifted)


def test_the_residual_fades_to_nothing() -> None:
    networks = random_networks()
    history = rest_motion().expand(1, 25, 265).clone()
    cond = torch.zeros(1, 32, 257)
    noise = torch.zeros(1, 3, 8, 20)
    with torch.inference_mode():
        bare = WindowSampler(networks.lmdm, fitted(), steps=3, fuse_frames=0).eval()(history, cond, noise)
        fused = WindowSampler(networks.lmdm, fitted(), steps=3, fuse_frames=4).eval()(history, cond, noise)
    difference = (fused - bare).abs().amax(-1)[0]
    assert (difference[:4].diff() < 0).all() and torch.equal(fused[:, 4:], bare[:, 4:])


def test_noise_of_the_wrong_shape_is_named() -> None:
    with pytest.raises(ShapeError, match="noise"):
        sampler()(torch.zeros(1, 25, 265), torch.zeros(1, 32, 257), torch.zeros(1, 3, 7, 20))


def test_pose_noise_is_slow_and_keeps_its_variance() -> None:
    white = torch.randn(20_000, 8, generator=torch.Generator().manual_seed(4))
    slow = white @ correlation_factor(8, 0.9).T
    torch.testing.assert_close(slow.std(0), torch.ones(8), atol=0.03, rtol=0)
    assert (slow[:, 3] * slow[:, 4]).mean() == pytest.approx(0.9, abs=0.03)
    assert (slow[:, 0] * slow[:, 7]).mean() == pytest.approx(0.9**7, abs=0.03)


def test_a_shorter_window_uses_the_head_of_the_same_factor() -> None:
    assert torch.equal(correlation_factor(32, 0.9)[:8, :8], correlation_factor(8, 0.9))
