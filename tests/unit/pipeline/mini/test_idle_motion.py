import numpy as np
import torch

from engines.mini.rig import mouth_gap
from engines.motion_layout import unpack_motion
from pipeline.mini.idle_motion import idle_motion


def test_mouth_is_closed_and_the_head_moves_a_little() -> None:
    angles, shift, exp, scale = unpack_motion(torch.from_numpy(idle_motion(3, 0, 1500)))
    assert mouth_gap(exp).abs().max() < 1e-6
    assert angles.abs().max() < 3.0
    assert angles.std(0).min() > 0.1
    assert shift.abs().max() < 0.02
    assert (scale - 1).abs().max() < 0.01


def test_pose_is_smooth() -> None:
    angles, _, _, _ = unpack_motion(torch.from_numpy(idle_motion(3, 0, 1500)))
    speed = angles.diff(dim=0).abs().max()
    change = angles.diff(dim=0).diff(dim=0).abs().max()
    assert speed < 0.1
    assert change < 0.02


def test_any_stretch_equals_the_whole_bit_for_bit() -> None:
    whole = idle_motion(7, -80, 400)
    for size in (1, 5, 8, 100):
        parts = np.concatenate([idle_motion(7, -80 + i, min(size, 400 - i)) for i in range(0, 400, size)])
        np.testing.assert_array_equal(parts, whole)


def test_shape_dtype_and_empty() -> None:
    assert idle_motion(0, 0, 0).shape == (0, 265)
    motion = idle_motion(0, 10**7, 3)
    assert motion.shape == (3, 265)
    assert motion.dtype == np.float32
    assert np.isfinite(motion).all()


def test_seeds_differ() -> None:
    assert not np.array_equal(idle_motion(1, 0, 50), idle_motion(2, 0, 50))
