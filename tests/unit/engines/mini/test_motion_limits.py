import pytest
import torch

from engines.mini.control_points import INDEX
from engines.mini.motion_limits import (
    ANGLE_LIMITS_DEG,
    GAP_LIMIT,
    SCALE_LIMIT,
    TRANSLATION_LIMITS,
    limit_motion,
    soft_limit,
)
from engines.mini.rig import ACTIONS, mouth_gap
from engines.motion_layout import EXP, pack_motion
from tests.support.mesh import motion, motion_of


@pytest.mark.parametrize("name", [a for a in ACTIONS if a not in ("lower_tuck", "press")])
def test_an_action_in_its_range_passes_unchanged(name: str) -> None:
    vector = motion_of({name: 1.0})
    torch.testing.assert_close(limit_motion(vector).exp.flatten(1), vector[:, EXP], atol=2e-3, rtol=0)


def test_a_press_stays_a_press() -> None:
    assert limit_motion(motion(press=1.0)).gap < -0.02


def test_a_tucked_lip_shows_less_gap_than_commanded() -> None:
    vector = motion(lower_tuck=1.0)
    limited = limit_motion(vector)
    assert limited.tuck > 0.95
    assert 0 < limited.gap < mouth_gap(vector[:, EXP].view(1, 21, 3))


@pytest.mark.parametrize("size", [10.0, 1e4, 1e30])
def test_any_size_of_motion_ends_within_the_limits(size: float) -> None:
    generator = torch.Generator().manual_seed(5)
    exp = torch.randn(40, 21, 3, generator=generator) * size
    pose = torch.randn(40, 3, generator=generator)
    limited = limit_motion(pack_motion(pose * 60, pose * size, exp, 1 + pose[:, 0] * size))
    assert (limited.angles_deg.abs() <= torch.tensor(ANGLE_LIMITS_DEG)).all()
    assert (limited.translation.abs() <= torch.tensor(TRANSLATION_LIMITS) + 1e-6).all()
    assert ((limited.scale - 1).abs() <= SCALE_LIMIT + 1e-6).all()
    assert torch.isfinite(limited.exp).all()
    assert limited.exp.abs().max() < 2.5
    assert limited.gap.max() <= GAP_LIMIT + 1e-5


def test_the_sides_of_the_mouth_close_with_its_middle() -> None:
    exp = torch.zeros(1, 21, 3)
    exp[0, INDEX["lip_lower_right"], 1] = 0.02
    assert (
        limit_motion(pack_motion(torch.zeros(1, 3), torch.zeros(1, 3), exp)).exp[0, INDEX["lip_lower_right"], 1]
        <= 0.005
    )


def test_soft_limit_is_smooth_monotone_and_odd() -> None:
    values = torch.linspace(-3, 3, 6001, dtype=torch.float64)
    limited = soft_limit(values, 1.0)
    slope = limited.diff() / values.diff()
    assert (slope > -1e-9).all() and (slope < 1 + 1e-9).all()
    assert slope.diff().abs().max() < 0.01
    torch.testing.assert_close(limited, -limited.flip(0))
    assert torch.equal(limited[values.abs() < 0.69], values[values.abs() < 0.69])
