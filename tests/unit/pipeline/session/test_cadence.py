"""Frame-rate changes in motion space, rotations, and the motion layout."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engines.motion_layout import MOTION_DIM, decode_angle, encode_angle, pack_motion, unpack_motion
from engines.rotation import matrix_to_angles_deg, rotation_matrix, slerp
from pipeline.session.cadence import double_rate, infill_odd_frames


def smooth_motion(n: int) -> np.ndarray:
    t = torch.linspace(0, 1, n).unsqueeze(-1)
    angles = torch.cat([4 * t, -3 * t, 2 * t], dim=-1)
    exp = (t * 0.1).expand(n, 63)
    return pack_motion(angles, torch.cat([t, 2 * t, 0 * t], -1) * 0.01, exp).numpy()


def test_angles_survive_the_bins() -> None:
    angles = torch.linspace(-40, 40, 161)
    assert (decode_angle(encode_angle(angles)) - angles).abs().max() < 1e-3


def test_averaging_logits_averages_angles() -> None:
    mean = (encode_angle(torch.tensor(-8.0)) + encode_angle(torch.tensor(5.0))) / 2
    assert float(decode_angle(mean)) == pytest.approx(-1.5, abs=1e-3)


def test_pack_and_unpack_are_inverse() -> None:
    motion = smooth_motion(5)
    assert motion.shape == (5, MOTION_DIM)
    again = pack_motion(*unpack_motion(torch.from_numpy(motion))).numpy()
    np.testing.assert_allclose(again[:, 199:], motion[:, 199:], atol=1e-6)
    np.testing.assert_allclose(again, motion, atol=2e-3)


def test_rotation_is_right_handed_and_invertible() -> None:
    angles = torch.tensor([[3.0, -7.0, 11.0], [0.0, 0.0, 0.0], [0.004, 0.0, -0.003]])
    rotation = rotation_matrix(angles)
    assert torch.allclose(rotation @ rotation.transpose(-1, -2), torch.eye(3).expand(3, 3, 3), atol=1e-6)
    assert torch.allclose(torch.linalg.det(rotation), torch.ones(3), atol=1e-6)
    assert torch.allclose(matrix_to_angles_deg(rotation), angles, atol=1e-4)
    quarter = rotation_matrix(torch.tensor([0.0, 0.0, 90.0]))
    assert torch.allclose(torch.tensor([1.0, 0.0, 0.0]) @ quarter, torch.tensor([0.0, 1.0, 0.0]), atol=1e-6)


@pytest.mark.parametrize("degrees", [0.0, 0.001, 0.5, 20.0])
def test_slerp_half_way_is_half_the_angle(degrees: float) -> None:
    end = rotation_matrix(torch.tensor([degrees, 0.0, 0.0]))
    half = matrix_to_angles_deg(slerp(torch.eye(3), end, 0.5))
    assert torch.allclose(half, torch.tensor([degrees / 2, 0.0, 0.0]), atol=2e-4)


def test_doubling_keeps_frames_and_is_independent_of_chunks() -> None:
    motion = smooth_motion(12)
    whole = double_rate(motion, None)
    assert np.array_equal(whole[0::2], motion) and np.array_equal(whole[-1], double_rate(motion[-1:], None)[-1])
    for cut in (1, 4, 7, 11):
        parts = np.concatenate([double_rate(motion[:cut], motion[cut]), double_rate(motion[cut:], None)])
        assert np.array_equal(parts, whole)


def test_midpoints_lie_midway() -> None:
    motion = smooth_motion(4)
    doubled = double_rate(motion, None)
    np.testing.assert_allclose(doubled[1::2][:-1][:, 199:], (motion[:-1] + motion[1:])[:, 199:] / 2, atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 25])
def test_stride_two_never_reads_an_odd_frame(n: int) -> None:
    motion = smooth_motion(n)
    poisoned = motion.copy()
    poisoned[1::2] = np.nan
    filled = infill_odd_frames(poisoned, 0, None)
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[0::2], motion[0::2])


def test_stride_two_is_the_same_at_every_even_boundary() -> None:
    motion = smooth_motion(25)
    whole = infill_odd_frames(motion, 0, None)
    for cut in range(2, 24, 2):
        parts = np.concatenate(
            [infill_odd_frames(motion[:cut], 0, motion[cut]), infill_odd_frames(motion[cut:], cut, None)]
        )
        np.testing.assert_allclose(parts, whole, atol=1e-6)


def test_stride_two_refuses_an_odd_start() -> None:
    with pytest.raises(ValueError, match="even frame"):
        infill_odd_frames(smooth_motion(4), 3, None)
