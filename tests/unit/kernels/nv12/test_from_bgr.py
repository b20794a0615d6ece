"""Whole BGR frames, limited and full range."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernels.errors import InvalidInputError, ShapeError
from kernels.nv12.colour import CHROMA_NAMES, COLOUR_NAMES, colour_matrix
from kernels.nv12.from_bgr import bgr_to_nv12, bgr_to_nv12_torch
from kernels.nv12.from_rgb import rgb_to_nv12
from tests.support.triton import DEVICES, assert_close


def frames_of(n: int, h: int, w: int) -> torch.Tensor:
    rng = np.random.default_rng(2)
    frames = rng.integers(0, 256, (n, h, w, 3), dtype=np.uint8)
    frames[-1] = rng.choice(np.array([0, 255], np.uint8), frames[-1].shape)
    return torch.from_numpy(frames)


def float64_nv12(frames: torch.Tensor, matrix, chroma: str) -> torch.Tensor:
    rgb = frames.double().numpy()[..., ::-1]
    n, h, w, _ = rgb.shape
    luma = np.floor(rgb @ matrix.rgb_to_yuv[0] + matrix.offset[0] + 0.5)
    blocks = rgb[:, ::2, ::2] if chroma == "top_left" else rgb.reshape(n, h // 2, 2, w // 2, 2, 3).mean((2, 4))
    uv = np.floor(blocks @ matrix.rgb_to_yuv[1:].T + 128.5).reshape(n, h // 2, w)
    return torch.from_numpy(np.clip(np.concatenate([luma, uv], axis=1), 0, 255))


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("full_range", [False, True])
@pytest.mark.parametrize("chroma", CHROMA_NAMES)
@pytest.mark.parametrize("colour", COLOUR_NAMES)
@pytest.mark.parametrize("size", [(2, 2), (34, 70), (130, 64)])
def test_wrapper_and_reference_are_within_one_level_of_float64(device, full_range, chroma, colour, size):
    frames = frames_of(2, *size)
    want = float64_nv12(frames, colour_matrix(colour, full_range=full_range), chroma)
    options = {"full_range": full_range, "colour": colour, "chroma": chroma}
    assert_close(bgr_to_nv12(frames.to(device), **options), want, 1, "wrapper")
    assert_close(bgr_to_nv12_torch(frames, **options), want, 1, "reference")


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("size", [(6, 10), (8, 64)])
def test_triton_matches_the_reference(device, size):
    from kernels.nv12.splice_triton import splice

    frames = frames_of(2, *size)
    matrix = colour_matrix("bt709", full_range=True).swap_red_and_blue()
    out = torch.zeros((2, size[0] * 3 // 2, size[1]), dtype=torch.uint8, device=device)
    splice(frames.to(device).permute(0, 3, 1, 2), out, 0, 0, 1.0, matrix, "mean")
    assert_close(out, bgr_to_nv12_torch(frames, full_range=True), 1)


def test_bgr_is_rgb_with_the_channels_exchanged():
    frames = frames_of(1, 6, 8)
    y, uv = rgb_to_nv12(np.ascontiguousarray(frames.numpy()[..., ::-1]))
    got = bgr_to_nv12(frames).numpy()
    np.testing.assert_array_equal(got[:, :6], y)
    np.testing.assert_array_equal(got[:, 6:], uv)


def test_full_range_reaches_black_and_white():
    frames = torch.zeros((1, 2, 4, 3), dtype=torch.uint8)
    frames[:, :, 2:] = 255
    assert bgr_to_nv12(frames, full_range=True)[0, 0].tolist() == [0, 0, 255, 255]
    assert bgr_to_nv12(frames)[0, 0].tolist() == [16, 16, 235, 235]


def test_empty_batches_and_bad_arguments():
    assert bgr_to_nv12(torch.zeros((0, 4, 6, 3), dtype=torch.uint8)).shape == (0, 6, 6)
    for bad in (torch.zeros((4, 6, 3), dtype=torch.uint8), torch.zeros((1, 3, 6, 3), dtype=torch.uint8)):
        with pytest.raises(ShapeError):
            bgr_to_nv12(bad)
    with pytest.raises(ShapeError):
        bgr_to_nv12(torch.zeros((1, 4, 6, 3)))
    with pytest.raises(InvalidInputError):
        bgr_to_nv12(torch.zeros((1, 4, 6, 3), dtype=torch.uint8), colour="bt2020")
