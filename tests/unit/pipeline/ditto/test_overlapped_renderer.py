"""The renderer in buckets of many sessions' frames: the pictures of one chunk after the other, and the reference's keypoints."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from benchmarks.ditto.formula import FILL, SALT, filled
from engines.ditto.config import DittoConfig
from engines.motion_layout import EXP, MOTION_DIM
from kernels.arrays import F32
from kernels.errors import InvalidInputError, ShapeError
from pipeline.ditto.avatar_tensors import unpack
from pipeline.ditto.driven_keypoints import DrivenKeypoints, rest_rows
from pipeline.ditto.expressed import express
from pipeline.ditto.motion_fields import from_vector
from pipeline.ditto.motion_stitch import IMAGE_KEYS, FrameControl, MotionStitch, StitchOptions, frame_control
from pipeline.ditto.renderer import DittoEngines, DittoRenderer
from pipeline.ditto.speaker import STILL_DIMS
from pipeline.expression.looks import EXPRESSIONS, Look, Looks
from pipeline.session.overlap import DrawOrder
from pipeline.stages import RenderRequest
from pipeline.types import Avatar, CropBatch, MotionChunk, Nv12RectBatch
from tests.support.ditto_avatar import still_avatar, video_avatar

CONTROLS = {"delta_yaw": 3, "alpha_pitch": 0.8, "alpha_exp": 0.9, "alpha_t": 1.1, "vad_alpha": 0.7, "alpha_scale": 1.02}


def offsets(frames: int, salt: str) -> F32:
    made = FILL.normal(f"overlap/{salt}", (frames, MOTION_DIM), SALT, 0.05)
    return np.asarray(made, np.float32)


class Shades:
    """Crops whose shade follows the driven keypoints and the source volume."""

    name, device = "shades", torch.device("cpu")

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def run(self, *inputs: torch.Tensor) -> torch.Tensor:
        volume, source, driven = inputs
        self.sizes.append(len(driven))
        shade = 100 + 300 * (driven - source).mean(dim=(1, 2)) + 40 * volume.float().mean(dim=(1, 2, 3, 4))
        return shade.clamp(0, 255).to(torch.uint8)[:, None, None, None].expand(-1, 512, 512, 3).contiguous()


def renderer(*avatars: Avatar) -> tuple[DittoRenderer, Shades]:
    shades = Shades()
    engines = DittoEngines(shades, filled("stitch_network"), DittoConfig(), "0123456789abcdef", batch=8)
    return DittoRenderer({one.avatar_id: one for one in avatars}.__getitem__, engines), shades


def request(avatar: Avatar, motion: F32, first: int = 0, fps: int = 25) -> RenderRequest:
    return RenderRequest(avatar.avatar_id, MotionChunk(motion, first), None, fps, "bt709")


def test_sessions_in_shared_buckets_get_the_pictures_that_they_get_alone() -> None:
    still, video = still_avatar(), video_avatar()
    made, shades = renderer(still, video)
    asked = [
        DrawOrder(request(still, offsets(5, "a"))),
        DrawOrder(request(video, offsets(4, "b"), 3), crops_only=True),
        DrawOrder(request(still, offsets(9, "c"), 7)),
        DrawOrder(request(video, offsets(3, "d"), 2)),
    ]
    alone = [made.alone(one) for one in asked]
    shades.sizes.clear()
    loop = made.overlapped()
    futures = [loop.submit(one) for one in asked]
    loop.close()
    assert max(shades.sizes) == 8, "frames of several sessions in one call"
    for future, expected in zip(futures, alone, strict=True):
        got = future.result(0)
        if isinstance(expected, CropBatch):
            assert isinstance(got, CropBatch) and got.avatar_id == expected.avatar_id
            np.testing.assert_array_equal(got.crops, expected.crops)
        else:
            assert isinstance(got, Nv12RectBatch) and got.rect == expected.rect
            np.testing.assert_array_equal(got.y_planes, expected.y_planes)
            np.testing.assert_array_equal(got.uv_planes, expected.uv_planes)


def test_what_one_session_asks_wrongly_is_its_own_error() -> None:
    avatar = still_avatar()
    made, _ = renderer(avatar)
    loop = made.overlapped()
    good = loop.submit(DrawOrder(request(avatar, offsets(3, "a"))))
    narrow = loop.submit(DrawOrder(request(avatar, np.zeros((3, 7), np.float32))))
    fast = loop.submit(DrawOrder(request(avatar, offsets(3, "a"), fps=50)))
    unknown = loop.submit(DrawOrder(RenderRequest("x", MotionChunk(offsets(1, "a"), 0), None, 25, "bt709")))
    loop.close()
    assert len(good.result(0)) == 3
    assert isinstance(narrow.exception(0), ShapeError)
    assert isinstance(fast.exception(0), InvalidInputError) and isinstance(unknown.exception(0), KeyError)


@pytest.mark.parametrize("drive_eye", [True, False])
@pytest.mark.parametrize("controls", [{}, CONTROLS])
@pytest.mark.parametrize("network", [True, False])
def test_keypoints_are_the_reference_s_for_every_control(
    drive_eye: bool, controls: dict[str, float], network: bool
) -> None:
    source = unpack(video_avatar()).source_motion()
    stitch = filled("stitch_network")

    def run(a: F32, b: F32) -> F32:
        with torch.inference_mode():
            return np.asarray(stitch(torch.from_numpy(a), torch.from_numpy(b)).numpy(), np.float32)

    overall = frame_control(
        controls | ({"delta_exp": FILL.normal("overlap/exp", (63,), SALT, 0.01)} if controls else {})
    )
    options = StitchOptions(is_image=False, keys=IMAGE_KEYS, drive_eye=drive_eye, overall=overall)
    nothing = from_vector(np.zeros(MOTION_DIM, np.float32))
    nothing["scale"] -= 1
    reference = MotionStitch(source, options, run if network else None, d0=nothing)
    moved = offsets(len(source), "k")
    moved[:, STILL_DIMS] = 0.0
    pairs = []
    for row in moved:
        fields = from_vector(row)
        fields["scale"] -= 1
        pairs.append(reference.step(fields))
    module = DrivenKeypoints(stitch if network else None, overall)
    with torch.inference_mode():
        shown, driven = module(torch.from_numpy(rest_rows(source, drive_eye=drive_eye)), torch.from_numpy(moved))
    np.testing.assert_allclose(shown.numpy(), np.concatenate([one for one, _ in pairs]), atol=1e-6)
    np.testing.assert_allclose(driven.numpy(), np.concatenate([one for _, one in pairs]), atol=3e-5)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_arrives_as_a_slider_of_the_reference_s(name: str) -> None:
    source = unpack(video_avatar()).source_motion()[:1]
    still = np.zeros((1, MOTION_DIM), np.float32)
    shown = express(still, Looks((Look(expression=name, rise_s=0.0),)).values(0, 1))
    fields = from_vector(still[0])
    fields["scale"] -= 1
    overall = FrameControl(delta_exp=shown[0, EXP])
    reference = MotionStitch(source, StitchOptions(is_image=True, keys=IMAGE_KEYS, overall=overall), None, d0=fields)
    _, expected = reference.step(fields)
    with torch.inference_mode():
        rest = torch.from_numpy(rest_rows(source, drive_eye=True))
        _, driven = DrivenKeypoints(None, FrameControl())(rest, torch.from_numpy(shown))
    assert np.abs(shown[0, EXP]).max() > 1e-3
    np.testing.assert_allclose(driven.numpy(), expected, atol=1e-5)
