"""The default presenter: what is drawn, where its landmarks lie, and that the face mesh agrees."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from kernels.arrays import F32, F64, U8
from kernels.errors import InvalidInputError
from pipeline.avatars.store import AvatarStore
from pipeline.mini import presenter as avatar
from pipeline.mini.presenter import default_avatar
from pipeline.mini.registration import make_avatar
from pipeline.presenter.draw import PresenterDrawing, draw_presenter
from pipeline.presenter.template import landmarks_on
from tests.support.faces import face_mesh

CPU_SECONDS = 8.0
"""Twice what an unloaded core needs with room to spare; wall time would measure the neighbours."""


@pytest.fixture(scope="module")
def timed_drawing() -> tuple[PresenterDrawing, float]:
    before = time.thread_time()
    drawing = draw_presenter()
    return drawing, time.thread_time() - before


@pytest.fixture(scope="module")
def drawing(timed_drawing: tuple[PresenterDrawing, float]) -> PresenterDrawing:
    return timed_drawing[0]


def patch(rgb: U8, at: NDArray[np.floating], r: int = 3) -> F64:
    """Mean colour around a point."""
    cx, cy = round(float(at[0])), round(float(at[1]))
    return np.asarray(rgb[cy - r : cy + r + 1, cx - r : cx + r + 1].reshape(-1, 3).mean(axis=0))


def test_canvas_and_landmarks_have_the_promised_shapes(drawing: PresenterDrawing) -> None:
    assert drawing.rgb.shape == (1280, 720, 3)
    assert drawing.rgb.dtype == np.uint8
    assert drawing.landmarks.shape == (468, 3)
    assert drawing.landmarks.dtype == np.float32
    assert np.isfinite(drawing.landmarks).all()


def test_drawing_takes_seconds_not_minutes(timed_drawing: tuple[PresenterDrawing, float]) -> None:
    assert timed_drawing[1] < CPU_SECONDS


def test_the_same_bytes_on_every_call(drawing: PresenterDrawing) -> None:
    again = draw_presenter()
    assert np.array_equal(again.rgb, drawing.rgb)
    assert np.array_equal(again.landmarks, drawing.landmarks)


def test_head_is_framed_with_space_above_and_the_crop_inside_the_width(drawing: PresenterDrawing) -> None:
    points = drawing.landmarks
    height = points[152, 1] - points[10, 1]
    assert 330 <= height <= 380
    assert abs(points[1, 0] - 360) < 6
    assert points[:, 1].min() > 1.5 * 0.3 * height
    crop = make_avatar(drawing.rgb, points)
    assert crop.rect.w == crop.rect.h
    assert crop.rect.x >= 0
    assert crop.rect.x + crop.rect.w <= 720


def test_template_is_symmetric_about_the_face_axis() -> None:
    points = landmarks_on(1080)
    axis = points[1, 0]
    for right, left in ((33, 263), (133, 362), (61, 291), (159, 386), (145, 374), (234, 454), (55, 285), (105, 334)):
        assert points[right, 0] + points[left, 0] == pytest.approx(2 * axis, abs=0.1)
        assert points[right, 1:] == pytest.approx(points[left, 1:], abs=0.1)
    assert points[33, 0] < points[133, 0] < points[362, 0] < points[263, 0], (
        "the subject's right eye is on the viewer's left"
    )


def test_lips_are_closed_and_eyes_open_by_construction() -> None:
    points = landmarks_on(720)
    mouth = float(np.linalg.norm(points[61, :2] - points[291, :2]))
    for upper, lower in ((13, 14), (82, 87), (312, 317), (81, 178), (311, 402)):
        assert np.linalg.norm(points[upper, :2] - points[lower, :2]) < 0.005 * mouth
    for upper, lower, outer, inner in ((159, 145, 33, 133), (386, 374, 263, 362)):
        width = np.linalg.norm(points[outer, :2] - points[inner, :2])
        assert 0.25 * width < points[lower, 1] - points[upper, 1] < 0.5 * width


def test_depth_has_the_nose_in_front_and_the_sides_behind() -> None:
    depth = landmarks_on(720)[:, 2]
    assert depth[1] == depth[[1, 10, 152, 33, 263, 61, 291, 234, 454]].min()
    assert min(depth[234], depth[454]) > depth[[33, 263, 61, 291]].max()


def test_features_lie_under_their_landmarks(drawing: PresenterDrawing) -> None:
    rgb, points = drawing.rgb, drawing.landmarks
    for outer, inner in ((33, 133), (263, 362)):
        middle = (points[outer] + points[inner]) / 2
        cheek = patch(rgb, middle[:2] + (0.0, 0.14 * 340))
        pupil = rgb[round(middle[1]) - 8 : round(middle[1]) + 8, round(middle[0]) - 12 : round(middle[0]) + 12]
        assert pupil.mean(axis=2).min() < 60, "a dark pupil between the eye corners"
        assert cheek.mean() > 120, "lit skin below the eye"
    line = patch(rgb, points[13, :2], r=0).mean()
    upper, lower = (patch(rgb, (points[i, :2] + points[13, :2]) / 2, r=2) for i in (0, 17))
    chin = patch(rgb, points[152, :2] - (0.0, 0.1 * 340))
    assert line < 0.75 * min(upper.mean(), lower.mean()), "the parting line is the darkest"
    for lip in (upper, lower):
        assert lip[0] / lip[1] > 1.12 * chin[0] / chin[1], "lips are redder than the chin"


def test_other_sizes_show_the_same_picture(drawing: PresenterDrawing) -> None:
    small = draw_presenter(360, 640)
    halved = drawing.rgb.reshape(640, 2, 360, 2, 3).astype(np.float32).mean(axis=(1, 3))
    assert small.rgb.shape == (640, 360, 3)
    assert np.abs(small.rgb - halved).mean() < 1.0
    assert (small.landmarks[:, :2] + 0.5) * 2 - 0.5 == pytest.approx(drawing.landmarks[:, :2], abs=1e-2)


@pytest.mark.parametrize(
    "size", [(0, 0), (720, 1281), (721, 1280), (1920, 1080), (1082, 1924), (180, 320), (720, 720), (-720, -1280)]
)
def test_other_canvases_are_refused(size: tuple[int, int]) -> None:
    with pytest.raises(InvalidInputError) as caught:
        draw_presenter(*size)
    assert caught.value.field == "canvas"


def test_store_keeps_the_presenter_and_draws_it_once(
    drawing: PresenterDrawing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = 0

    def draw() -> object:
        nonlocal drawn
        drawn += 1
        return make_avatar(drawing.rgb, drawing.landmarks, avatar.DEFAULT_NAME)

    monkeypatch.setattr(avatar, "_draw", draw)
    first = default_avatar(AvatarStore(tmp_path))
    second = default_avatar(AvatarStore(tmp_path))
    assert (drawn, second.avatar_id) == (1, first.avatar_id)
    assert first.name == avatar.DEFAULT_NAME
    AvatarStore(tmp_path).delete(first.avatar_id)
    assert default_avatar(AvatarStore(tmp_path)).avatar_id == first.avatar_id
    assert drawn == 2, "a deleted presenter is drawn again"
    (tmp_path / avatar.POINTER_FILE).write_text("not json")
    default_avatar(AvatarStore(tmp_path))
    assert drawn == 3, "a broken pointer only costs a drawing"
    monkeypatch.setattr(avatar, "drawing_version", lambda: "another")
    default_avatar(AvatarStore(tmp_path))
    assert drawn == 4, "a changed drawing is drawn again"
    next((tmp_path / first.avatar_id).glob("*.safetensors")).write_bytes(b"damaged")
    assert default_avatar(AvatarStore(tmp_path)).avatar_id == first.avatar_id
    assert drawn == 5, "a damaged bundle is replaced"


@pytest.fixture(scope="module")
def found(drawing: PresenterDrawing) -> F32:
    """What the public face mesh sees in the pixels."""
    mesh = face_mesh()
    faces = mesh.detect(drawing.rgb)
    assert len(faces) == 1
    assert faces[0].score > 0.85
    result = mesh.landmarks(drawing.rgb, faces[0])
    assert result is not None
    assert result.mesh_score > 0.99
    return result.points


def test_measured_landmarks_agree_with_ours(drawing: PresenterDrawing, found: F32) -> None:
    width = np.linalg.norm(drawing.landmarks[454, :2] - drawing.landmarks[234, :2])
    error = np.linalg.norm(found[:, :2] - drawing.landmarks[:, :2], axis=1) / width
    assert error.mean() <= 0.03
    assert np.percentile(error, 95) <= 0.05


def test_mouth_is_measured_closed(found: F32) -> None:
    mouth = np.linalg.norm(found[61, :2] - found[291, :2])
    assert np.linalg.norm(found[13, :2] - found[14, :2]) <= 0.03 * mouth


def test_eyes_are_measured_open(found: F32) -> None:
    for upper, lower, outer, inner in ((159, 145, 33, 133), (386, 374, 263, 362)):
        width = np.linalg.norm(found[outer, :2] - found[inner, :2])
        assert found[lower, 1] - found[upper, 1] > 0.2 * width
