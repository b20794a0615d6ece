"""Whose outline moves, and the rectangle that it moves in."""

import functools
from dataclasses import replace

import numpy as np
import pytest
import torch

from engines.face.selfie import SelfieSegmenter
from engines.mini.mesh_renderer import MeshRenderer
from engines.mini.outline import BAND_PX
from kernels.arrays import U8
from kernels.errors import ShapeError
from pipeline.avatars.bundle import check_avatar, content_id
from pipeline.avatars.face_crop import crop_square, soft_mask, square_of
from pipeline.mini.avatar_tensors import PERSON
from pipeline.mini.moving_head import draw_moving, outline_of, prepare_moving
from pipeline.mini.person import moving_rect, person_matte
from pipeline.mini.registration import MOVING_BORDER, make_avatar, register_portrait
from pipeline.mini.renderer import Renderer
from pipeline.presenter.draw import draw_outline
from pipeline.stages import RenderRequest
from pipeline.types import MotionChunk
from tests.support.faces import face_mesh, face_weights, paste_presenter, presenter, studio
from tests.support.mesh import motion


@functools.cache
def outline() -> U8:
    return draw_outline(360, 640)


def test_the_drawn_outline_is_exact() -> None:
    matte, points = outline(), presenter().landmarks
    assert matte.shape == (640, 360) and matte.dtype == np.uint8
    x, y = points[4, :2].astype(int)
    assert matte[y, x] == 255, "the nose"
    chin, face = points[152], float(np.linalg.norm(points[152] - points[10]))
    assert matte[int(chin[1] + 0.9 * face), int(chin[0])] == 255, "the chest"
    assert matte[int(points[10, 1] - 0.15 * face), int(points[10, 0])] > 250, "the hair"
    assert matte[:20].max() == 0 and matte[200, 5] == 0, "the studio"
    assert matte[-8:].max() < 40, "the desk in front"
    assert ((matte > 20) & (matte < 235)).mean() < 0.06, "soft at its edges only"


def test_the_network_sees_what_was_drawn() -> None:
    found = person_matte(presenter().rgb, presenter().landmarks, SelfieSegmenter(face_weights()))
    assert found is not None
    mine, drawn = found >= 128, outline() >= 128
    rows = slice(0, 420)
    assert (mine[rows] & drawn[rows]).sum() / (mine[rows] | drawn[rows]).sum() > 0.85


def test_where_nobody_is_seen_there_is_no_outline() -> None:
    blank = studio(640, 480)
    assert person_matte(blank, presenter().landmarks * np.float32(0.7), SelfieSegmenter(face_weights())) is None


def test_the_rectangle_holds_hat_and_chest_and_the_band_around_them() -> None:
    square = crop_square(presenter().landmarks)
    rect = moving_rect(outline(), presenter().landmarks, square)
    face = square.rect(360, 640)
    assert rect.x <= face.x and rect.y <= face.y and rect.x + rect.w >= face.x + face.w
    assert rect.y + rect.h > face.y + face.h + 40, "the chest below the crop"
    top = int(np.flatnonzero((outline() >= 128).any(axis=1))[0])
    assert rect.y <= max(top - BAND_PX, 0) + 2
    assert not (rect.x % 2 or rect.y % 2 or rect.w % 2 or rect.h % 2)
    assert rect.x + rect.w <= 360 and rect.y + rect.h <= 640


def test_an_avatar_with_an_outline_is_checked_and_has_an_identity_of_its_own() -> None:
    avatar = make_avatar(presenter().rgb, presenter().landmarks, "moving", outline())
    still = make_avatar(presenter().rgb, presenter().landmarks, "still")
    check_avatar(avatar)
    assert avatar.avatar_id == content_id(avatar) != still.avatar_id
    assert avatar.tensors[PERSON].shape == (avatar.rect.h, avatar.rect.w)
    assert np.array_equal(avatar.mask, soft_mask(MOVING_BORDER)) and avatar.mask[MOVING_BORDER - 1].max() == 0
    assert outline_of(avatar) is not None and outline_of(still) is None
    wrong = dict(avatar.tensors) | {PERSON: np.zeros((4, 4), np.uint8)}
    with pytest.raises(ShapeError, match="person"):
        check_avatar(replace(avatar, tensors=wrong))
    with pytest.raises(ShapeError, match="person"):
        make_avatar(presenter().rgb, presenter().landmarks, "", outline()[:100])


@pytest.mark.parametrize("side", [200, 432, 900])
def test_the_square_comes_back_from_its_matrix(side: int) -> None:
    square = replace(crop_square(presenter().landmarks), side=side)
    assert square_of(square.to_canvas()) == square


def test_registration_finds_the_outline() -> None:
    rgb = paste_presenter(studio(700, 800), 160, 120, 1.0)
    avatar = register_portrait(rgb, face_mesh(), selfie=SelfieSegmenter(face_weights()))
    assert PERSON in avatar.tensors
    assert PERSON not in register_portrait(rgb, face_mesh()).tensors


def render(renderer: Renderer, frames: int, angle: float) -> tuple[U8, U8]:
    vectors = motion(frames, angles=(0.0, angle, angle)).numpy()
    batch = renderer.render(RenderRequest("id", MotionChunk(vectors, 0), None, 25, "bt709"))
    return batch.y_planes, batch.uv_planes


def test_the_renderer_moves_the_hair_and_keeps_the_studio() -> None:
    avatar = make_avatar(presenter().rgb, presenter().landmarks, "moving", outline())
    renderer = Renderer(lambda _: avatar)
    rest, turned = (render(renderer, 2, angle)[0][0].astype(int) for angle in (0.0, 4.0))
    top = int(presenter().landmarks[10, 1]) - avatar.rect.y
    middle = int(presenter().landmarks[10, 0]) - avatar.rect.x
    hair = np.s_[top - 30 : top - 6, middle - 40 : middle + 40]
    assert np.abs(turned - rest)[hair].mean() > 1.0
    behind = np.asarray(avatar.tensors[PERSON]) == 0
    import cv2

    far = cv2.erode(behind.astype(np.uint8), np.ones((61, 61), np.uint8), borderValue=1) > 0
    assert far.any() and np.abs(turned - rest)[far].max() <= 1


def test_crops_for_the_interpolator_keep_their_border_still() -> None:
    avatar = make_avatar(presenter().rgb, presenter().landmarks, "moving", outline())
    vectors = motion(1, angles=(3.0, 4.0, 4.0)).numpy()
    request = RenderRequest("id", MotionChunk(vectors, 0), None, 25, "bt709")
    crop = Renderer(lambda _: avatar).crops(request).crops[0]
    assert np.array_equal(crop[:2], np.asarray(avatar.tensors["crop_rgb"])[:2])


def test_faces_drawn_as_crops_are_composed_into_the_moving_picture_too() -> None:
    avatar = make_avatar(presenter().rgb, presenter().landmarks, "moving", outline())
    found = outline_of(avatar)
    renderer, vectors = MeshRenderer(), motion(2, angles=(3.0, 4.0, 4.0), jaw_open=0.5)
    crop, landmarks = (np.asarray(avatar.tensors[name]) for name in ("crop_rgb", "landmarks"))
    face = renderer.prepare(crop.astype(np.uint8), landmarks.astype(np.float32), found)
    drawn = [
        draw_moving(prepare_moving(avatar, found, "bt709", torch.device(kind)), renderer, face, vectors)
        for kind in ("cpu", "cuda")
    ]
    off = np.abs(drawn[0].y_planes.astype(int) - drawn[1].y_planes)
    assert off.mean() < 1.0, "the same motion, but for what a crop loses of the canvas's detail"
    assert (off > 0).any()
