"""Motion stitch of the Ditto family against stored outputs of the reference, all scenarios."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks.ditto.formula import FILL, SALT, filled
from engines.rotation import rotation_matrix
from kernels.arrays import F32
from pipeline.ditto.motion_fields import mirror_index, smooth_fields, to_degrees
from pipeline.ditto.motion_stitch import FrameControl, MotionStitch, StitchOptions
from tests.golden.support import bins, golden, motion_info
from tests.support.blink_schedule import blink_schedule

MAX_ERROR = 1e-4


def schedule(frames: int, gaps: int | Sequence[int]) -> list[int]:
    return blink_schedule(frames, gaps, random.Random(1234))


def scenarios() -> dict[str, tuple[int, int, dict[str, Any], dict[int, FrameControl], bool]]:
    """Name -> (source frames, frames, options, per-frame controls, whether a reference character is used)."""
    delta_eye = FILL.normal("stitch/delta_eye_arr", (15, 63), SALT, 0.02)
    return {
        "image_default": (1, 30, {"delta_eye": delta_eye, "blinks": schedule(60, [3, 5])}, {}, False),
        "image_no_eye_arr": (1, 6, {}, {}, False),
        "image_ch_info": (
            1,
            24,
            {
                "delta_eye": delta_eye,
                "blinks": schedule(40, [2]),
                "fade_type": "d0",
                "overall": FrameControl(delta={"pitch": 2.0}),
            },
            {3: FrameControl(fade_alpha=0.25), 4: FrameControl(fade_alpha=0.6)},
            True,
        ),
        "image_fade_s": (1, 4, {"fade_type": "s"}, {1: FrameControl(fade_alpha=0.5, fade_keys=("exp", "t"))}, False),
        "image_absolute": (1, 4, {"relative": False, "drive_eye": False}, {}, False),
        "image_keys_dict": (
            1,
            4,
            {"keys": {"exp": 1.2, "pitch": 0.5, "yaw": 0.5}},
            {1: FrameControl(delta={"yaw": 3.0, "roll": -2.0}, alpha={"yaw": 0.5}, vad_alpha=0.4)},
            False,
        ),
        "image_no_stitch": (1, 4, {}, {}, False),
        "video_default": (5, 12, {"is_image": False}, {}, False),
        "video_drive_eye_ch": (
            5,
            20,
            {"is_image": False, "drive_eye": True, "delta_eye": delta_eye, "blinks": schedule(50, [2, 4])},
            {},
            True,
        ),
    }


@pytest.fixture(scope="module")
def stitch() -> Any:
    net = filled("stitch_network")

    def run(source: F32, driving: F32) -> F32:
        with torch.inference_mode():
            return net(torch.from_numpy(source), torch.from_numpy(driving)).numpy()

    return run


@pytest.mark.parametrize("name", list(scenarios()))
def test_scenario(name: str, stitch: Any) -> None:
    n_source, frames, options, controls, with_character = scenarios()[name]
    stored = golden("motion_stitch")
    source = [motion_info(f"stitch/{name}/x_s/{j}") for j in range(n_source)]
    if with_character:
        options["character_scale"] = float(motion_info(f"stitch/{name}/ch")["scale"][0, 0])
    if f"{name}__eye_idx" in stored:
        assert options["blinks"] == stored[f"{name}__eye_idx"].tolist()
    session = MotionStitch(source, StitchOptions(**options), None if name == "image_no_stitch" else stitch)
    for index in range(frames):
        driving = motion_info(f"stitch/{name}/x_d/{index}")
        driving.pop("kp")
        x_source, x_driven = session.step(driving, controls.get(index))
        np.testing.assert_allclose(x_source[0], stored[f"{name}__x_s"][index], atol=MAX_ERROR, err_msg=f"x_s {index}")
        np.testing.assert_allclose(x_driven[0], stored[f"{name}__x_d"][index], atol=MAX_ERROR, err_msg=f"x_d {index}")


def test_blink_schedules() -> None:
    stored = golden("motion_stitch")
    assert blink_schedule(400, 0, random.Random(1234)) == stored["blink_random_seed1234_N400"].tolist()
    assert blink_schedule(200, 40, random.Random(0)) == stored["blink_fix_N200_open40"].tolist()
    assert blink_schedule(20, -1, random.Random(0)) == stored["blink_none_N20"].tolist() == [0] * 20
    assert len(blink_schedule(-1, 0, random.Random(0))) == 3000


def test_angles_and_rotations() -> None:
    stored = golden("motion_stitch")
    degrees = np.concatenate([to_degrees(bins(f"stitch/bin/{i}")) for i in range(4)])
    np.testing.assert_allclose(degrees, stored["bin66_degree"], atol=1e-4)
    angles = torch.from_numpy(FILL.uniform("stitch/angles", (3, 5), SALT, -40, 40)).T
    np.testing.assert_allclose(rotation_matrix(angles).numpy(), stored["rotation_matrix"], atol=1e-5)


def test_source_smoothing() -> None:
    frames = smooth_fields([motion_info(f"stitch/smooth/{i}") for i in range(20)], 13)
    order = ("pitch", "yaw", "roll", "t", "exp", "kp")
    vectors = [np.concatenate([f["scale"][0] - 1, *(f[name][0] for name in order)]) for f in frames]
    np.testing.assert_allclose(np.stack(vectors), golden("motion_stitch")["smooth_x_s_info"], atol=1e-5)


def test_mirror_index() -> None:
    assert [mirror_index(i, 3) for i in range(-1, 8)] == [0, 0, 1, 2, 2, 1, 0, 0, 1]
    assert [mirror_index(i, 1) for i in range(4)] == [0] * 4


@pytest.mark.parametrize("name", sorted(scenarios()))
def test_frames_at_once_are_frames_one_by_one(name: str) -> None:
    """All scenarios without controls of single frames, in calls of several lengths."""
    source_count, frames, given, _, _ = scenarios()[name]
    options = StitchOptions(**given)
    source = [motion_info(f"stitch/many/source/{i}") for i in range(source_count)]
    driving = [motion_info(f"stitch/many/driving/{i}") for i in range(frames)]
    for one in driving:
        del one["kp"]
    stitch = filled("stitch_network")

    def network(x: F32, y: F32) -> F32:
        out: F32 = stitch(torch.from_numpy(x), torch.from_numpy(y)).numpy()
        return out

    single, several = (MotionStitch(source, options, network, first_frame=3) for _ in range(2))
    want = [single.step(row) for row in driving]
    got_source, got_driven = [], []
    for start, stop in ((0, 1), (1, 3), (3, frames)):
        part = {key: np.concatenate([row[key] for row in driving[start:stop]]) for key in driving[0]}
        x_source, x_driven = several.steps(part)
        got_source.append(x_source)
        got_driven.append(x_driven)
    np.testing.assert_allclose(np.concatenate(got_source), np.concatenate([x for x, _ in want]), atol=1e-6)
    np.testing.assert_allclose(np.concatenate(got_driven), np.concatenate([x for _, x in want]), atol=2e-6)
