"""Measures of how a picture looks, on made-up curves and pictures with planted faults."""

import cv2
import numpy as np
import pytest

from benchmarks.quality.picture_measures import (
    aperture_steps,
    breath_px,
    detail,
    follow,
    following,
    textured_points,
    tooth_luma,
)
from kernels.arrays import F64, U8
from kernels.errors import InvalidInputError
from tests.support.mesh import landmarks, paint

OPEN = 20.0


def test_steps_are_shares_of_the_range() -> None:
    smooth = np.sin(np.linspace(0, 12, 200)).astype(np.float32)
    assert np.percentile(aperture_steps(smooth), 99) < 0.05
    snapping = smooth.copy()
    snapping[100] = -1.0  # planted
    assert (
        aperture_steps(snapping).max() > 0.5
        or aperture_steps(snapping).max() > np.percentile(aperture_steps(smooth), 99) * 3
    )


def test_a_snap_from_shut_to_open_is_a_whole_step() -> None:
    curve = np.concatenate([np.zeros(50), np.full(50, 0.3)]).astype(np.float32)
    steps = aperture_steps(curve)
    assert steps.max() == pytest.approx(1.0) and (steps > 0.5).sum() == 1


def test_frames_without_a_face_are_no_steps_and_a_still_mouth_is_refused() -> None:
    curve = np.array([0.0, 0.1, np.nan, 0.3, 0.2], np.float32)
    assert aperture_steps(curve).size == 2
    with pytest.raises(InvalidInputError, match="aperture"):
        aperture_steps(np.zeros(9, np.float32))


def test_teeth_are_found_and_their_grey_is_seen() -> None:
    points, picture = landmarks(OPEN), paint(landmarks(OPEN))
    own = tooth_luma(picture, points)
    assert own is not None and own > 215
    grey = picture.copy()
    white = picture.min(axis=-1) > 180
    grey[white] = (grey[white] * 0.6).astype(np.uint8)  # planted
    seen = tooth_luma(grey, points)
    assert seen is not None and own - seen > 60


def test_lips_and_darkness_are_no_teeth() -> None:
    points, dark = landmarks(OPEN), paint(landmarks(OPEN))
    dark[dark.min(axis=-1) > 180] = (40, 12, 12)
    assert tooth_luma(dark, points) is None
    assert tooth_luma(paint(landmarks()), landmarks()) is None


def wander(n: int = 200) -> F64:
    t = np.linspace(0, 20, n)
    return np.stack([6 * np.sin(1.9 * t), 4 * np.cos(3.1 * t)], axis=-1)


def test_a_head_that_moves_as_one_has_slope_one_and_a_frozen_one_zero() -> None:
    nose = wander()
    assert following(nose, nose + 100) == pytest.approx((1.0, 1.0))
    assert following(nose, 0.6 * nose) == pytest.approx((0.6, 0.6))
    assert following(nose, np.zeros_like(nose)) == pytest.approx((0.0, 0.0))


def test_a_nose_that_rests_says_nothing() -> None:
    assert np.isnan(following(0.1 * wander(), wander())).all()


def test_breath_is_seen_behind_the_heads_motion() -> None:
    head, t = wander(300), np.linspace(0, 12, 300)
    lift = 1.2 * np.sin(2 * np.pi * 0.25 * t)
    assert breath_px(lift + 0.4 * head[:, 1], head, 1280) == pytest.approx(2.4, abs=0.25)
    assert breath_px(0.4 * head[:, 1], head, 1280) < 0.05
    assert breath_px(lift, head, 640) == pytest.approx(4.8, abs=0.5)


def textured() -> U8:
    noise = np.random.default_rng(1).normal(0, 1, (200, 240)).astype(np.float32)
    return np.clip(120 + 300 * cv2.GaussianBlur(noise, (0, 0), 2.0), 0, 255).astype(np.uint8)[..., None].repeat(3, -1)


def test_points_are_followed_to_a_tenth_of_a_pixel() -> None:
    first = textured()
    shifts: list[tuple[float, float]] = [(0.0, 0.0), (1.5, -0.5), (4.0, 2.0), (9.0, 3.5)]
    frames = [cv2.warpAffine(first, np.array([[1.0, 0, x], [0, 1.0, y]]), (240, 200)) for x, y in shifts]
    mask = np.zeros((200, 240), np.uint8)
    mask[60:140, 60:160] = 255
    points = textured_points(first, mask, 20)
    middle = follow([np.asarray(f, np.uint8) for f in frames], points).middle()
    np.testing.assert_allclose(middle - middle[0], shifts, atol=0.1)
    assert textured_points(np.full((200, 240, 3), 90, np.uint8), mask, 20).shape == (0, 2)


def test_blur_costs_detail() -> None:
    sharp = textured()
    box = (40, 40, 200, 160)
    soft = np.asarray(cv2.GaussianBlur(sharp, (0, 0), 1.5), np.uint8)
    assert detail(soft, box) < 0.6 * detail(sharp, box)
