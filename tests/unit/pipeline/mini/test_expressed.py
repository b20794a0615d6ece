import numpy as np
import pytest
import torch

from engines.mini.control_points import INDEX
from engines.mini.expression import PRESETS
from engines.mini.motion_limits import limit_motion
from engines.mini.rig import mouth_gap
from engines.motion_layout import EXP, unpack_motion
from kernels.arrays import F32
from pipeline.expression.looks import ATTEND, CHANNELS, EXPRESSIONS, NOD, Look, Looks
from pipeline.mini.expressed import express
from pipeline.mini.idle_motion import idle_motion
from tests.support.mesh import motion_of


def shown(look: Look, motion: F32) -> F32:
    return express(motion, Looks((look,)).values(100, len(motion)))


def rest() -> F32:
    still: F32 = motion_of({}).numpy()
    return still


def test_every_expression_has_a_preset() -> None:
    assert set(PRESETS) == set(EXPRESSIONS)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_passes_the_limits_of_the_renderer(name: str) -> None:
    commanded = shown(Look(expression=name), rest())[0, EXP]
    drawn = limit_motion(torch.from_numpy(shown(Look(expression=name), rest()))).exp.numpy().ravel()
    moved = np.abs(commanded) > 0.004
    assert moved.any()
    np.testing.assert_allclose(drawn[moved], commanded[moved], rtol=0.05, atol=1e-3)


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("gap", [0.0, 0.5, 1.0])
def test_no_expression_changes_the_gap_between_the_lips(name: str, gap: float) -> None:
    said = motion_of({"jaw_open": gap, "press": 1.0 - gap}).numpy()
    with_it = shown(Look(expression=name), said)
    gaps = [mouth_gap(unpack_motion(torch.from_numpy(one))[2]) for one in (said, with_it)]
    torch.testing.assert_close(gaps[0], gaps[1], atol=1e-6, rtol=0)


def test_half_the_strength_is_half_the_way() -> None:
    whole, half = (shown(Look(expression="angry", strength=s), rest())[0, EXP] for s in (1.0, 0.5))
    np.testing.assert_allclose(half, whole / 2, atol=1e-6)


@pytest.mark.parametrize("name", ["surprised", "happy", "sad"])
def test_a_blink_shuts_the_eye_whatever_is_expressed(name: str) -> None:
    blinking = motion_of({"blink_right": 1.0, "blink_left": 1.0}).numpy()
    for side in ("right", "left"):
        column = EXP.start + 3 * INDEX[f"lid_upper_{side}"] + 1
        assert shown(Look(expression=name), blinking)[0, column] == pytest.approx(blinking[0, column], abs=1e-6)


def test_energy_scales_the_head_and_leaves_the_face() -> None:
    idle = idle_motion(3, 0, 200)
    angles = [unpack_motion(torch.from_numpy(shown(Look(energy=e), idle)))[0].numpy() for e in (1.0, 0.0, 2.0)]
    np.testing.assert_allclose(angles[1], 0.0, atol=1e-3)
    np.testing.assert_allclose(angles[2], 2 * angles[0], atol=1e-2)
    np.testing.assert_array_equal(shown(Look(energy=0.0), idle)[:, EXP], idle[:, EXP])


def test_a_gaze_turns_both_eyes_to_its_side_of_the_picture() -> None:
    exp = shown(Look(gaze=(1.0, 0.0)), rest())[0, EXP].reshape(21, 3)
    assert exp[INDEX["gaze_right"], 0] > 0.05
    assert exp[INDEX["gaze_left"], 0] > 0.05


def test_how_frames_are_cut_changes_nothing() -> None:
    idle, values = idle_motion(3, 0, 40), Looks((Look(0.2, "happy"), Look(0.8, "sad", gaze=(0.3, 0.2)))).values(0, 40)
    parts = [express(idle[a:b], values[a:b]) for a, b in ((0, 1), (1, 9), (9, 40))]
    np.testing.assert_array_equal(np.concatenate(parts), express(idle, values))


def test_eyes_that_attend_rest_on_the_viewer_and_nothing_else_changes() -> None:
    motion, values = idle_motion(7, 0, 200), np.zeros((200, CHANNELS), np.float32)
    values[:, ATTEND] = 1.0
    before, after = (one[:, EXP].reshape(200, -1, 3) for one in (motion, express(motion, values)))
    eyes = [INDEX["gaze_right"], INDEX["gaze_left"]]
    assert np.abs(before[:, eyes, :2]).max() > 0.01, "idle eyes wander"
    assert np.abs(after[:, eyes, :2]).max() < 1e-6
    others = [row for row in INDEX.values() if row not in eyes]
    np.testing.assert_array_equal(after[:, others], before[:, others])


def test_a_nod_of_a_degree_turns_the_head_by_one() -> None:
    motion, values = np.repeat(rest(), 5, axis=0), np.zeros((5, CHANNELS), np.float32)
    values[:, NOD] = np.arange(5)
    pitch = unpack_motion(torch.from_numpy(express(motion, values)))[0][:, 0].numpy()
    np.testing.assert_allclose(np.diff(pitch), 1.0, atol=0.05)
