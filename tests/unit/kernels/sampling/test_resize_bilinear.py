"""Batched bilinear resize against float64."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernels.errors import InvalidInputError, ShapeError
from kernels.sampling.resize_bilinear import resize_bilinear_batch, resize_bilinear_torch
from tests.support.triton import DEVICES, assert_close


def pictures_of(n: int, h: int, w: int, c: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(6).integers(0, 256, (n, h, w, c), dtype=np.uint8))


def float64_resize(pictures: torch.Tensor, height: int, width: int) -> torch.Tensor:
    source = pictures.double().numpy()

    def corners(size_in: int, size_out: int):
        position = np.clip((np.arange(size_out) + 0.5) * size_in / size_out - 0.5, 0, size_in - 1)
        low = np.floor(position).astype(int)
        return low, np.minimum(low + 1, size_in - 1), position - low

    top, bottom, fy = corners(source.shape[1], height)
    left, right, fx = corners(source.shape[2], width)
    fy, fx = fy[None, :, None, None], fx[None, None, :, None]
    upper = source[:, top][:, :, left] * (1 - fx) + source[:, top][:, :, right] * fx
    lower = source[:, bottom][:, :, left] * (1 - fx) + source[:, bottom][:, :, right] * fx
    return torch.from_numpy(np.floor(upper * (1 - fy) + lower * fy + 0.5))


SIZES = [((7, 9), (20, 31)), ((40, 33), (17, 8)), ((1, 1), (3, 5)), ((16, 16), (16, 16)), ((2, 64), (5, 1))]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("before,after", SIZES, ids=str)
def test_triton_and_reference_are_within_one_level_of_float64(device, channels, before, after):
    from kernels.sampling.resize_bilinear_triton import resize

    pictures = pictures_of(2, *before, channels)
    want = float64_resize(pictures, *after)
    assert_close(resize(pictures.to(device), *after), want, 1, "triton")
    assert_close(resize_bilinear_torch(pictures, *after), want, 1, "reference")


def test_the_same_size_changes_nothing_and_views_are_fine():
    pictures = pictures_of(2, 10, 12, 3)
    assert torch.equal(resize_bilinear_batch(pictures, 10, 12), pictures)
    view = pictures[:, ::2, 1:, :]
    assert torch.equal(resize_bilinear_batch(view, 5, 11), view)


@pytest.mark.gpu
def test_the_wrapper_stays_on_the_gpu():
    view = pictures_of(3, 50, 70, 3).cuda()[:, 1:, ::2]
    got = resize_bilinear_batch(view, 33, 34)
    assert got.is_cuda
    assert_close(got, float64_resize(view.cpu(), 33, 34), 1)


def test_empty_batches_and_bad_arguments():
    assert resize_bilinear_batch(pictures_of(0, 4, 4, 3), 2, 3).shape == (0, 2, 3, 3)
    with pytest.raises(ShapeError):
        resize_bilinear_batch(pictures_of(1, 4, 4, 5), 2, 2)
    with pytest.raises(ShapeError):
        resize_bilinear_batch(pictures_of(1, 4, 4, 3).float(), 2, 2)
    with pytest.raises(InvalidInputError):
        resize_bilinear_batch(pictures_of(1, 4, 4, 3), 0, 2)
