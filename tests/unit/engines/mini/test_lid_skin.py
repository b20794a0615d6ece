"""Lids have the skin's grain and colour, meet in time, and close behind glasses."""

import functools

import cv2
import numpy as np
import pytest
import torch

from engines.mini.eye_patch import EyePatch, build_eye
from engines.mini.eyelids import render_eye
from engines.mini.face_frame import build_frame
from engines.mini.mouth_layers import finer_texture
from kernels.arrays import F64, U8
from tests.support.mesh import landmarks, source

FRAME, GLINT = (20, 18, 22), (250, 250, 252)


@functools.cache
def grainy() -> U8:
    """The painted face with grain of the skin."""
    noise = np.random.default_rng(2).normal(0, 9, (512, 512, 1))
    return np.clip(source()[0] + noise, 0, 255).astype(np.uint8)


@functools.cache
def with_glasses() -> tuple[U8, np.ndarray]:
    """The same behind a dark frame above the right eye and a reflection on its glass, and where both are in the fine texture."""
    points = landmarks()
    (left, _), (right, _) = points[33, :2], points[133, :2]
    top = float(points[159, 1])
    picture, mask = grainy().copy(), np.zeros((512, 512), np.uint8)
    for place, colour, thick in (
        (((left - 9, top - 12), (right + 9, top - 12)), FRAME, 5),
        (((left - 2, top - 6), (left + 5, top - 6)), GLINT, 3),
    ):
        ends = [tuple(int(v) for v in end) for end in place]
        cv2.line(picture, *ends, colour, thick)
        cv2.line(mask, *ends, 255, thick)
    return picture, cv2.resize(cv2.erode(mask, np.ones((3, 3), np.uint8)), (1024, 1024)) > 250


def eye_of(picture: U8) -> EyePatch:
    return build_eye(build_frame(landmarks()), finer_texture(picture), right=True)


def drawn(eye: EyePatch, blink: float) -> F64:
    lids = torch.tensor([[0.9 * blink, -0.1 * blink]])
    return render_eye(eye, lids, torch.zeros(1, 2))[0].numpy().astype(np.float64)


def opening_of(eye: EyePatch) -> tuple[slice, slice]:
    """The middle of where the eye was open, patch texels."""
    width = len(eye.upper)
    top = float(eye.upper[width // 2])
    return np.s_[int(top + 3) : int(top + 0.6 * float(eye.strip[2])), width // 3 : 2 * width // 3]


def grain(picture: F64) -> float:
    luma = picture.mean(-1)
    return float((luma - cv2.GaussianBlur(luma, (0, 0), 2.5)).std())


def test_a_shut_lid_has_the_grain_of_the_skin() -> None:
    eye = eye_of(grainy())
    lid, skin = drawn(eye, 1.0)[opening_of(eye)], drawn(eye, 0.0)[-12:]
    assert 0.5 * grain(skin) < grain(lid) < 1.5 * grain(skin)
    assert np.abs(lid.mean((0, 1)) - skin.mean((0, 1))).max() < 22, "and its colour"


def test_smooth_skin_gets_no_grain() -> None:
    eye = eye_of(source()[0])
    assert grain(drawn(eye, 1.0)[opening_of(eye)]) < 1.5


def test_glasses_stay_in_front_of_a_shut_lid() -> None:
    picture, mask = with_glasses()
    eye = eye_of(picture)
    x, y, width, height = eye.box.tolist()
    kept = mask[y : y + height, x : x + width]
    assert kept.sum() > 300
    before, shut = drawn(eye, 0.0), drawn(eye, 1.0)
    assert np.abs(shut - before)[kept].mean() < 4.0
    assert np.abs(shut - before)[opening_of(eye)].mean() > 30.0, "behind them the lid is shut"


def test_without_glasses_nothing_is_in_front() -> None:
    assert eye_of(source()[0]).front.numel() == 0


@pytest.mark.parametrize(("blink", "open_share"), [(0.0, 1.0), (0.4, 0.6), (0.8, 0.0), (1.0, 0.0)])
def test_lids_meet_before_a_slit_shows(blink: float, open_share: float) -> None:
    eye = eye_of(source()[0])
    white = [(drawn(eye, k).min(-1) > 200).sum() for k in (0.0, blink)]
    assert abs(white[1] / white[0] - open_share) < 0.25
    dark = [(drawn(eye, k)[opening_of(eye)].max(-1) < 90).sum() for k in (0.0, blink)]
    assert open_share > 0.0 or dark[1] < 0.15 * dark[0], "no iris"
