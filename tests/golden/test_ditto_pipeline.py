"""Conditions, feature windows, crops and put-back of the Ditto family against stored outputs of the reference."""

from __future__ import annotations

from collections.abc import Mapping

import cv2
import numpy as np
import pytest

from benchmarks.ditto.formula import FILL, SALT
from kernels.arrays import F32
from kernels.errors import InvalidInputError, ShapeError
from pipeline.ditto.blend_mask import blend_mask
from pipeline.ditto.condition import Condition, emotion_sequence
from pipeline.ditto.crop_geometry import crop_matrices, face_square, transform_points
from pipeline.ditto.eye_state import eye_ball, eye_open
from pipeline.ditto.feature_windows import keep_frames
from pipeline.ditto.motion_fields import mirror_index, to_vector
from tests.golden.support import golden, motion_info
from tests.support.put_back import put_back
from tests.support.reference_features import offline_features, online_windows


@pytest.fixture
def cond() -> Mapping[str, np.ndarray]:
    return golden("condition_wav2feat")


@pytest.fixture
def crop() -> Mapping[str, np.ndarray]:
    return golden("crop")


def condition(name: str, n_source: int, emotion: object) -> Condition:
    def per_frame(field: str, width: int, draw: object) -> F32:
        return np.concatenate([draw(f"{name}/{field}/{i}", (1, width)) for i in range(n_source)])

    opened = per_frame("eye_open", 2, lambda key, shape: FILL.uniform(key, shape, SALT, 0.2, 1.0))
    ball = per_frame("eye_ball", 6, lambda key, shape: FILL.normal(key, shape, SALT, 0.1))
    return Condition(emotion_sequence(emotion), opened, ball, FILL.normal(f"{name}/sc", (63,), SALT, 0.3))


@pytest.mark.parametrize(
    ("name", "source", "n_source", "emotion", "first", "rows"),
    [
        ("image", "cond/image", 1, 4, -70, 80),
        ("image_part", "cond/image_part", 1, [3, 4], 0, 37),
        ("video", "cond/video", 6, [[4], [3], [0, 6]], -10, 80),
        ("video_arr", "cond/video_arr", 6, "array", 595, 80),
    ],
)
def test_condition_rows(
    name: str, source: str, n_source: int, emotion: object, first: int, rows: int, cond: Mapping[str, np.ndarray]
) -> None:
    if emotion == "array":
        emotion = FILL.uniform("cond/video_arr/emo", (600, 8), SALT)
    made = condition(source, n_source, emotion).rows(np.zeros((rows, 1024), np.float32), first)
    assert made.shape == (rows, 1103) and made.dtype == np.float32
    np.testing.assert_allclose(made[:, -79:], cond[f"cond_{name}__tail79"], atol=1e-6)


def test_a_reference_character_takes_the_avatar_s_place(cond: Mapping[str, np.ndarray]) -> None:
    rows = condition("cond/ch", 1, 4).rows(np.zeros((80, 1024), np.float32), 0)
    np.testing.assert_allclose(rows[:, -79:], cond["cond_ch_info__tail79"], atol=1e-6)
    character = motion_info("cond/ch/x_s/0")
    vector = np.concatenate([to_vector(character), character["kp"][0]])
    np.testing.assert_allclose(vector, cond["cond_ch_info__x_s_info_0"], atol=1e-6)


@pytest.mark.parametrize(("name", "emotion"), [("4", 4), ("0", 0), ("7", 7), ("3_4", [3, 4])])
def test_emotions(name: str, emotion: object, cond: Mapping[str, np.ndarray]) -> None:
    np.testing.assert_allclose(emotion_sequence(emotion)[0], cond[f"emo_{name}"], atol=1e-6)


@pytest.mark.parametrize("emotion", [8, -1, [], [[4], [9]]])
def test_unknown_emotions_are_refused(emotion: object) -> None:
    with pytest.raises(InvalidInputError, match="emo"):
        emotion_sequence(emotion)


def test_mirror_index(cond: Mapping[str, np.ndarray]) -> None:
    for count in (5, 1):
        stored = cond[f"mirror_{count}"]
        made = [[mirror_index(i + offset, count) for i in range(len(stored))] for offset in (0, -3, -2, -1)]
        assert stored.tolist() in made


@pytest.mark.parametrize("samples", [16000, 12345, 641, 44800])
def test_feature_windows(samples: int, cond: Mapping[str, np.ndarray]) -> None:
    pcm = FILL.normal(f"wav/{samples}", (samples,), SALT, 0.1)
    index = 320 * np.arange(20)[:, None] + (7 * np.arange(1024)[None]) % 400

    def encode(chunk: F32) -> F32:
        assert chunk.shape == (6480,)
        return chunk[index]

    offline = offline_features(pcm, encode)
    online = np.concatenate([keep_frames(encode(window)) for window in online_windows(pcm)])
    for kind, made in (("wav2feat", offline), ("wav2feat_online", online)):
        assert made.shape == tuple(cond[f"{kind}_{samples}__shape"])
        np.testing.assert_allclose(made[:, ::16], cond[f"{kind}_{samples}__s16"], atol=1e-6)


def assert_stats(picture: np.ndarray, stored: np.ndarray) -> None:
    """Mean and deviation of 8-bit pictures whose pixels may differ by a level or two."""
    np.testing.assert_allclose([picture.mean(dtype=np.float64), picture.std(dtype=np.float64)], stored[:2], atol=0.1)


@pytest.mark.parametrize(
    ("name", "side", "scale", "shift", "turn"),
    [
        ("lmk106_224", 224, 1.5, -0.1, True),
        ("lmk203_224", 224, 1.5, -0.1, True),
        ("lmk203_512", 512, 2.3, -0.125, True),
        ("lmk203_512_vx", 512, 2.3, -0.125, True),
        ("lmk203_512_norot", 512, 2.3, -0.125, False),
    ],
)
def test_crop_geometry(
    name: str, side: int, scale: float, shift: float, turn: bool, crop: Mapping[str, np.ndarray]
) -> None:
    points = crop[f"{name}__pts"]
    square = face_square(points, scale=scale, shift_down=shift)
    matrices = crop_matrices(square, side, turn=turn)
    np.testing.assert_allclose(square.centre, crop[f"{name}__center"], atol=1e-3)
    np.testing.assert_allclose(square.size, crop[f"{name}__size"][0], atol=1e-3)
    assert square.angle == pytest.approx(float(crop[f"{name}__angle"]), abs=1e-5)
    np.testing.assert_allclose(matrices.to_crop, crop[f"{name}__M_o2c"], atol=5e-4)
    np.testing.assert_allclose(matrices.to_image, crop[f"{name}__M_c2o"], atol=5e-4)
    np.testing.assert_allclose(transform_points(points, matrices.to_crop), crop[f"{name}__pt_crop"], atol=2e-3)
    picture = FILL.int_image("crop/image", 480, 640, 3, SALT)
    cut = cv2.warpAffine(picture, matrices.to_crop[:2], (side, side), flags=cv2.INTER_LINEAR)
    error = np.abs(cut.reshape(-1)[::17].astype(int) - crop[f"{name}__img_sample_s17"])
    assert error.max() <= 2
    assert_stats(cut, crop[f"{name}__img_stats"])
    if side == 512:
        small = cv2.resize(cut, (256, 256), interpolation=cv2.INTER_AREA)
        error = np.abs(small.reshape(-1)[::13].astype(int) - crop[f"{name}__img256_sample_s13"])
        assert error.max() <= 2
        assert_stats(small, crop[f"{name}__img256_stats"])


def test_points_go_to_the_crop_and_back(crop: Mapping[str, np.ndarray]) -> None:
    points = crop["lmk203_512__pts"]
    matrices = crop_matrices(face_square(points, scale=2.3, shift_down=-0.125), 512, turn=True)
    back = transform_points(transform_points(points, matrices.to_crop), matrices.to_image)
    np.testing.assert_allclose(back, points, atol=1e-2)


def test_crop_refuses_other_landmarks() -> None:
    with pytest.raises(ShapeError, match="106"):
        face_square(np.zeros((68, 2)), scale=1.5, shift_down=0.0)


def test_eye_state(crop: Mapping[str, np.ndarray]) -> None:
    mesh = FILL.uniform("crop/lmk478", (2, 478, 3), SALT, 0.2, 0.8)
    np.testing.assert_allclose(eye_open(mesh), crop["eye_open"], atol=1e-4)
    np.testing.assert_allclose(eye_ball(mesh), crop["eye_ball"], atol=1e-5)


def test_put_back() -> None:
    stored = golden("putback")
    mask = blend_mask()
    np.testing.assert_allclose(mask[256], stored["mask_row256"], atol=1e-6)
    np.testing.assert_allclose(mask[:, 10], stored["mask_col10"], atol=1e-6)
    np.testing.assert_allclose(np.diagonal(mask), stored["mask_diag"], atol=1e-6)
    assert mask.shape == tuple(stored["mask_shape"])[:2]
    np.testing.assert_allclose(mask.reshape(-1)[::101], stored["mask_sample_s101"].reshape(-1), atol=1e-6)
    frame = FILL.int_image("putback/frame", 480, 640, 3, SALT)
    rendered = FILL.uniform("putback/render", (64, 64, 3), SALT, 0.0, 255.0).repeat(8, axis=0).repeat(8, axis=1)
    made = put_back(frame, rendered, stored["M_c2o"].astype(np.float32))
    assert np.abs(made.reshape(-1)[::11].astype(int) - stored["numpy_sample_s11"]).max() <= 1
    assert_stats(made, stored["numpy_stats"])
