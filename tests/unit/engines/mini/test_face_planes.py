"""The face in the canvas's own pixels: as sharp as they are, the same motion as the crop's, and eyes at rest are cheap."""

import functools

import cv2
import numpy as np
import pytest
import torch

from engines.mini import eyelids
from engines.mini.eyelids import render_eye
from engines.mini.face_planes import FacePainter, FacePlanes, build_face_planes
from engines.mini.mesh_renderer import MeshFace, MeshRenderer
from kernels.arrays import F32, U8
from kernels.nv12.from_rgb import rgb_to_nv12
from tests.support.mesh import landmarks, motion, paint, prepared

SIDE = 700


@functools.cache
def square() -> U8:
    """A face on a canvas finer than the crop, with grain in every pixel."""
    large = cv2.resize(paint(landmarks()), (SIDE, SIDE), interpolation=cv2.INTER_CUBIC)
    grain = np.random.default_rng(5).integers(-30, 31, (SIDE, SIDE, 1))
    return np.clip(large.astype(int) + grain, 0, 255).astype(np.uint8)


def crop() -> U8:
    return np.asarray(cv2.resize(square(), (512, 512), interpolation=cv2.INTER_AREA), np.uint8)


@functools.cache
def face() -> MeshFace:
    return MeshRenderer().prepare(crop(), landmarks())


@functools.cache
def planes() -> FacePlanes:
    return build_face_planes(square(), crop(), landmarks(), (0, 0, SIDE, SIDE))


def draw(vector: torch.Tensor) -> tuple[U8, U8]:
    drawn = FacePainter(planes(), face().mouth).draw(next(MeshRenderer().posed(face(), vector)))
    return drawn[0].copy(), drawn[1].copy()


def rough(luma: U8) -> float:
    return float(cv2.Laplacian(luma[150:300, 250:450].astype(float), cv2.CV_64F).var())


def test_a_face_at_rest_is_the_canvas() -> None:
    (y, uv), (want_y, want_uv) = draw(motion()), rgb_to_nv12(square())
    away = np.ones((SIDE, SIDE), bool)
    away[390:560, 220:480] = False  # the mouth is drawn anew
    assert np.array_equal(y[away], want_y[away])
    off = np.abs(uv.reshape(SIDE // 2, SIDE).astype(int) - want_uv)[: 390 // 2]
    assert off.max() <= 1


def test_detail_of_the_canvas_outlives_the_motion() -> None:
    wanted = rough(rgb_to_nv12(square())[0])
    assert rough(draw(motion(brow_raise=0.5, angles=(2.0, 3.0, 1.0)))[0]) > 0.35 * wanted
    through_crop = MeshRenderer().render(face(), motion())[0].numpy()
    soft = cv2.resize(through_crop, (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
    assert rough(rgb_to_nv12(np.asarray(soft, np.uint8))[0]) < 0.2 * wanted, "what a detour through the crop leaves"


def shift(before: F32, after: F32, y: int, x: int) -> float:
    """Distance between two pictures' texture in a window of 80 pixels."""
    window = np.s_[y : y + 80, x : x + 80]
    (across, down), _ = cv2.phaseCorrelate(
        before[window].copy(), after[window].copy(), cv2.createHanningWindow((80, 80), 5)
    )
    return float(np.hypot(across, down))


def small(luma: U8) -> F32:
    return cv2.resize(luma, (512, 512), interpolation=cv2.INTER_AREA).astype(np.float32)


def test_it_moves_as_the_crop_does() -> None:
    vector = motion(brow_raise=1.0, jaw_open=0.6, angles=(2.0, 3.0, 3.0))
    still, mine = small(draw(motion())[0]), small(draw(vector)[0])
    theirs = rgb_to_nv12(MeshRenderer().render(face(), vector).numpy()[0])[0].astype(np.float32)
    for y, x in ((130, 150), (230, 200), (300, 330), (40, 200)):
        assert shift(still, theirs, y, x) > 2.0
        assert shift(mine, theirs, y, x) < 0.2


def test_a_part_is_a_part_of_the_whole() -> None:
    vector = motion(jaw_open=0.7, blink_left=0.6, angles=(1.0, 2.0, -2.0))
    part = build_face_planes(square(), crop(), landmarks(), (60, 0, SIDE - 20, SIDE - 150))
    drawn = FacePainter(part, face().mouth).draw(next(MeshRenderer().posed(face(), vector)))
    whole = draw(vector)
    np.testing.assert_array_equal(drawn[0][:400], whole[0][:400, 60 : SIDE - 20])
    np.testing.assert_array_equal(drawn[1][:200], whole[1][:200, 30 : SIDE // 2 - 10])
    assert drawn[0].shape == (SIDE - 150, SIDE - 80)


def test_frames_do_not_depend_on_those_before() -> None:
    painter = FacePainter(planes(), face().mouth)
    vectors = torch.cat([motion(blink_right=1.0, gaze_x=1.0), motion(jaw_open=0.3)])
    drawn = [painter.draw(posed)[0].copy() for posed in MeshRenderer().posed(face(), vectors)]
    np.testing.assert_array_equal(drawn[1], draw(vectors[1:])[0])


@pytest.mark.parametrize("gaze", [(0.0, 0.0), (0.03, 0.0), (-0.06, 0.04)])
def test_an_eye_at_rest_is_drawn_the_short_way_and_looks_the_same(
    monkeypatch: pytest.MonkeyPatch, gaze: tuple[float, float]
) -> None:
    eye, lids, where = prepared().right_eye, torch.zeros(1, 2), torch.tensor([gaze])
    short = render_eye(eye, lids, where).numpy().astype(int)
    monkeypatch.setattr(eyelids, "LIDS_AT_REST", -1.0)
    whole = render_eye(eye, lids, where).numpy().astype(int)
    assert np.abs(short - whole).max() <= 2
    assert np.abs(short - eye.source.numpy()).max() > 20 or gaze == (0.0, 0.0)
