"""Ditto avatars: what registration measures, what the bundle holds, and that it comes back memory-mapped."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest

from engines.ditto.config import Character
from engines.ditto.landmarks import Landmark106, Landmark203
from engines.weights.file import WeightsFileError
from kernels.arrays import F32
from kernels.errors import InvalidInputError, ShapeError
from pipeline.avatars.bundle import check_avatar, load_bundle, write_bundle
from pipeline.avatars.clip_frames import template_frames
from pipeline.avatars.portrait_errors import PortraitError
from pipeline.avatars.store import AvatarStore
from pipeline.ditto.avatar_tensors import unpack
from pipeline.ditto.crop_geometry import MESH_BOX, crop_matrices, face_square, transform_points
from pipeline.ditto.face_landmarks import FaceLandmarker
from pipeline.ditto.registration import make_avatar, register_picture, register_template_video
from pipeline.mini.behaviour import MINI_BEHAVIOUR
from pipeline.session.behaviour import behaviour_of
from pipeline.session.moving_canvas import crop_rect
from pipeline.types import FaceRect
from tests.golden.support import motion_info
from tests.support.ditto_avatar import drawn_face, source_models, still_avatar, video_avatar
from tests.support.faces import face_mesh, presenter
from tests.support.put_back import put_back


def test_a_picture_s_bundle_holds_what_the_renderer_needs(tmp_path: Path) -> None:
    avatar = still_avatar()
    store = AvatarStore(tmp_path)
    stored = store.put(avatar)
    tensors = unpack(stored)
    assert stored.family == "ditto" and tensors.is_image and tensors.version == "0123456789abcdef"
    assert tensors.volumes.shape == (1, 32, 16, 64, 64) and tensors.volumes.dtype == np.float16
    assert not tensors.volumes.flags.writeable and not tensors.volumes.flags.owndata
    np.testing.assert_array_equal(stored.canvas_rgb, presenter().rgb)
    source = tensors.source_motion()[0]
    for name, value in motion_info("avatar").items():
        gate = 1.0 if name == "t" else 1e-6
        np.testing.assert_allclose(source[name], value, atol=gate, err_msg=name)
    np.testing.assert_allclose(tensors.speaker.shape, motion_info("avatar")["kp"][0])
    assert 0.2 < float(tensors.speaker.eye_open.mean()) < 2.0
    assert np.abs(tensors.speaker.eye_ball).max() < 0.2


def test_the_crop_shows_the_face_upright_and_goes_back_to_where_it_was() -> None:
    avatar = still_avatar()
    points = presenter().landmarks[:, :2]
    maps = crop_matrices(face_square(points, scale=2.3, shift_down=-0.125), 512)
    in_crop = transform_points(points[list(MESH_BOX)], maps.to_crop)
    width, height = np.ptp(in_crop, axis=0)
    assert max(width, height) == pytest.approx(512 / 2.3, rel=0.01)
    assert in_crop[:, 1].mean() > 256
    back = transform_points(in_crop, np.vstack([avatar.crop_to_canvas, [0, 0, 1]]).astype(np.float32))
    np.testing.assert_allclose(back, points[list(MESH_BOX)], atol=0.05)


def test_everything_that_put_back_changes_lies_in_the_rectangle() -> None:
    avatar, rect = still_avatar(), still_avatar().rect
    white = np.full((512, 512, 3), 255.0, np.float32)
    made = put_back(avatar.canvas_rgb, white, np.vstack([avatar.crop_to_canvas, [0, 0, 1]]).astype(np.float32))
    changed = (made != avatar.canvas_rgb).any(axis=2)
    changed[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w] = False
    assert not changed.any()
    assert all(value % 2 == 0 for value in (rect.x, rect.y, rect.w, rect.h))


def test_a_template_video_keeps_every_frame_and_smooths_its_motion(tmp_path: Path) -> None:
    avatar = video_avatar(4)
    write_bundle(avatar, tmp_path / avatar.avatar_id)
    loaded = load_bundle(tmp_path / avatar.avatar_id, deep=True)
    tensors = unpack(loaded)
    assert not tensors.is_image and tensors.frames is not None and tensors.frames.shape == (4, 640, 360, 3)
    np.testing.assert_array_equal(tensors.frames[2], drawn_face((4, 2))[0])
    assert loaded.rect == FaceRect(0, 0, 360, 640)
    steps = np.diff(tensors.crop_to_frame[:, :, 2], axis=0)
    np.testing.assert_allclose(steps, np.tile([[2.0, 1.0]], (3, 1)), atol=1e-3)
    raw = unpack(video_avatar(4, smo_k_s=1)).motion
    assert np.ptp(raw, axis=0).max() > np.ptp(tensors.motion, axis=0).max() or np.allclose(raw, raw[0])
    assert tensors.speaker.eye_open.shape == (4, 2)
    assert unpack(video_avatar(4, eye_f0_mode=True)).speaker.eye_open.shape == (1, 2)


def test_the_identity_is_the_content() -> None:
    assert still_avatar().avatar_id == still_avatar().avatar_id
    assert still_avatar().avatar_id != still_avatar(crop_scale=2.0).avatar_id


def test_only_what_the_configuration_drives_moves() -> None:
    image, video = unpack(still_avatar()).speaker, unpack(video_avatar(2)).speaker
    assert image.drive[0] == 0 and (image.drive[1:] == 1).all()
    assert (video.drive[:202] == 0).all() and (video.drive[202:] == 1).all()
    weighted = unpack(still_avatar(use_d_keys={"exp": 1.5, "pitch": 0.5})).speaker
    assert weighted.drive[202] == 1.5 and weighted.drive[1] == 0.5 and weighted.drive[199] == 0


def test_a_reference_character_takes_the_avatar_s_place() -> None:
    motion = motion_info("character")
    character = Character(motion=motion, shape=motion["kp"], eye_open=np.ones((1, 2)), eye_ball=np.zeros((1, 6)))
    speaker = unpack(still_avatar(ch_info=character)).speaker
    ratio = float(motion["scale"][0, 0] / motion_info("avatar")["scale"][0, 0])
    assert speaker.source[0] == pytest.approx(float(motion["scale"][0, 0]) - 1)
    assert speaker.drive[202] == pytest.approx(ratio) and speaker.drive[199] == 1
    np.testing.assert_array_equal(speaker.eye_open, np.ones((1, 2), np.float32))


def test_an_absolute_configuration_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="relative_d"):
        still_avatar(relative_d=False)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("volumes", np.zeros((1, 32, 16, 64, 64), np.float32)),
        ("motion", np.zeros((1, 265), np.float32)),
        ("crop_to_frame", np.zeros((2, 2, 3), np.float32)),
        ("speaker.drive", np.zeros((2, 265), np.float32)),
        ("blink_gaps", np.zeros(0, np.int32)),
    ],
)
def test_a_wrong_array_is_named(name: str, array: np.ndarray) -> None:
    avatar = still_avatar()
    with pytest.raises(ShapeError, match=name):
        check_avatar(replace(avatar, tensors={**avatar.tensors, name: array}))
    missing = {key: value for key, value in avatar.tensors.items() if key != name}
    with pytest.raises(ShapeError, match=name):
        check_avatar(replace(avatar, tensors=missing))


def test_a_crop_off_the_canvas_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="outside"):
        crop_rect(np.array([[1, 0, 5000], [0, 1, 0]], np.float32), 360, 640)
    with pytest.raises(InvalidInputError, match="canvases"):
        make_avatar([], [], source_models())


def test_idle_is_nearly_zero_continuous_and_any_stretch_is_the_same() -> None:
    blink = np.full((15, 63), 0.02)
    blink[0] = 0.0
    behaviour = behaviour_of(still_avatar(delta_eye_arr=blink))
    whole = behaviour.idle(5, -10, 400)
    for first, count in ((-10, 3), (100, 65), (389, 1)):
        np.testing.assert_array_equal(behaviour.idle(5, first, count), whole[first + 10 : first + 10 + count])
    pose = whole[:, 1:199]
    assert 0 < np.abs(np.diff(pose, axis=0)).max() < 0.2
    assert (whole[:, [0, 199, 200, 201]] == 0).all()
    assert set(np.unique(whole[:, 202 + 3 * 11])) == {np.float32(0.0), np.float32(0.02)}
    assert (whole[:, 202 + 3 * 6 : 202 + 3 * 6 + 3] == 0).all()
    still = behaviour_of(video_avatar(2)).idle(5, 0, 100)
    assert (still == 0).all()
    assert behaviour.idle(5, 0, 0).shape == (0, 265)


def test_one_degree_of_idle_is_one_degree() -> None:
    from pipeline.ditto.behaviour import logit_slope
    from pipeline.ditto.motion_fields import to_degrees

    logits = motion_info("avatar")["yaw"]
    before, after = to_degrees(logits), to_degrees(logits + logit_slope(logits[0])[None])
    assert float(after[0] - before[0]) == pytest.approx(1.0, abs=0.1)


def test_other_families_idle_as_before() -> None:
    assert behaviour_of(replace(still_avatar(), family="mini")) is MINI_BEHAVIOUR


def test_a_picture_is_registered_with_our_own_landmarks() -> None:
    landmarker = FaceLandmarker(face_mesh())
    avatar = register_picture(presenter().rgb, landmarker, source_models(), "drawn")
    known = still_avatar()
    shift = np.abs(avatar.crop_to_canvas[:, 2] - known.crop_to_canvas[:, 2]).max()
    assert shift < 12 and abs(avatar.crop_to_canvas[0, 0] / known.crop_to_canvas[0, 0] - 1) < 0.06


def encode(frames: list[np.ndarray], rate: int) -> bytes:
    stream = io.BytesIO()
    with av.open(stream, "w", format="mp4") as container:
        video = container.add_stream("libx264", rate=rate, options={"crf": "12"})
        video.height, video.width = frames[0].shape[:2]
        video.pix_fmt = "yuv420p"
        for rgb in frames:
            container.mux(video.encode(av.VideoFrame.from_ndarray(rgb, format="rgb24")))
        container.mux(video.encode(None))
    return stream.getvalue()


@pytest.mark.parametrize(("rate", "count", "expected"), [(25, 5, 5), (50, 10, 5), (10, 4, 9), (30, 6, 5)])
def test_frames_come_at_25_per_second(rate: int, count: int, expected: int) -> None:
    frames = [np.full((64, 48, 3), 20 * i, np.uint8) for i in range(count)]
    got = list(template_frames(encode(frames, rate)))
    assert abs(len(got) - expected) <= 1 and got[0].shape == (64, 48, 3)
    shades = [float(frame.mean()) for frame in got]
    assert shades == sorted(shades)
    assert len(list(template_frames(encode(frames, rate), max_frames=2))) == 2


def test_what_is_no_video_is_refused() -> None:
    with pytest.raises(PortraitError):
        list(template_frames(b"\x89PNG\r\n\x1a\n" + bytes(100)))
    with pytest.raises(PortraitError):
        list(template_frames(encode([np.zeros((64, 48, 3), np.uint8)] * 5, 25)[:300]))


def test_a_face_is_followed_through_a_video_and_missed_when_it_goes() -> None:
    landmarker = FaceLandmarker(face_mesh())
    frames = [drawn_face((2 * i, 0))[0] for i in range(3)]
    avatar = register_template_video(encode(frames, 25), landmarker, source_models(), "moving")
    moved = np.diff(unpack(avatar).crop_to_frame[:, 0, 2])
    assert (moved > 0.5).all() and (moved < 3.5).all()
    with pytest.raises(PortraitError, match="lost"):
        landmarker.following(np.full_like(frames[0], 128), landmarker.first(frames[0]))


def write_points(path: Path, count: int, side: int, where: F32) -> None:
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    nodes = [
        helper.make_node("ReduceMean", ["data"], ["mean"], keepdims=0),
        helper.make_node("Mul", ["mean", "zero"], ["nothing"]),
        helper.make_node("Add", ["points", "nothing"], ["out"]),
        helper.make_node("Add", ["small", "nothing"], ["other"]),
    ]
    values = {"points": where.reshape(1, -1), "zero": np.zeros((), np.float32), "small": np.zeros((1, 4), np.float32)}
    graph = helper.make_graph(
        nodes,
        "points",
        [helper.make_tensor_value_info("data", TensorProto.FLOAT, [1, 3, side, side])],
        [
            helper.make_tensor_value_info("other", TensorProto.FLOAT, [1, 4]),
            helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 2 * count]),
        ],
        [numpy_helper.from_array(value.astype(np.float32), key) for key, value in values.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))


def test_landmark_models_are_used_where_they_are_supplied(tmp_path: Path) -> None:
    write_points(tmp_path / "203.onnx", 203, 224, np.full((203, 2), 0.25, np.float32))
    write_points(tmp_path / "106.onnx", 106, 192, np.full((106, 2), 0.5, np.float32))
    crop203 = Landmark203(tmp_path / "203.onnx").find(np.zeros((224, 224, 3), np.uint8))
    crop106 = Landmark106(tmp_path / "106.onnx").find(np.zeros((192, 192, 3), np.uint8))
    np.testing.assert_allclose(crop203, np.full((203, 2), 56.0))
    np.testing.assert_allclose(crop106, np.full((106, 2), 144.0))
    with pytest.raises(ShapeError, match="224"):
        Landmark203(tmp_path / "203.onnx").find(np.zeros((192, 192, 3), np.uint8))
    with pytest.raises(WeightsFileError, match="203 points"):
        write_points(tmp_path / "odd.onnx", 5, 224, np.zeros((5, 2), np.float32))
        Landmark203(tmp_path / "odd.onnx").find(np.zeros((224, 224, 3), np.uint8))


def test_203_points_lie_where_their_crop_says(tmp_path: Path) -> None:
    where = np.random.default_rng(0).uniform(0.3, 0.7, (203, 2)).astype(np.float32)
    write_points(tmp_path / "203.onnx", 203, 224, where)
    landmarker = FaceLandmarker(face_mesh(), Landmark203(tmp_path / "203.onnx"))
    found = landmarker.first(presenter().rgb)
    square = face_square(found.mesh[:, :2], scale=1.5, shift_down=-0.1)
    expected = transform_points(where * 224, crop_matrices(square, 224).to_image)
    np.testing.assert_allclose(found.crop_points, expected, atol=1e-2)
