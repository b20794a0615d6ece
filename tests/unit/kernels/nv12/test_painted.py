"""Painted faces into NV12: the same bytes as resize (OpenCV), blend and conversion one by one, and by every way."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import pytest
import torch

from kernels.arrays import U8
from kernels.errors import InvalidInputError, ShapeError
from kernels.nv12.colour import colour_matrix
from kernels.nv12.from_rgb import rgb_to_nv12
from kernels.nv12.painted import painted_nv12, painted_nv12_torch, painted_rgb, split_nv12
from kernels.nv12.painting import Painting
from tests.support.triton import DEVICES, tiling_for

Box = tuple[int, int, int, int]


def painting(seed: int, face: int, size: tuple[int, int], box: Box, share: float, device: str = "cpu") -> Painting:
    draw = np.random.default_rng(seed)
    patch = torch.from_numpy(draw.integers(0, 256, (*size, 3), np.uint8))
    mask = torch.from_numpy(draw.integers(0, 256, size, np.uint8))
    return Painting(face, patch.to(device), mask.to(device), box, share)


def faces_of(count: int, side: int = 256) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(9).integers(0, 256, (count, side, side, 3), np.uint8))


def one_after_the_other(face: U8, one: Painting) -> U8:
    """The patch as three passes on the host make it, RGB."""
    left, top, right, bottom = one.box
    fitted = cv2.resize(face, (right - left, bottom - top), interpolation=cv2.INTER_LINEAR)
    made, mask = one.patch.numpy().copy(), one.mask.numpy()
    for y in range(max(top, 0), min(bottom, made.shape[0])):
        columns = slice(max(left, 0), min(right, made.shape[1]))
        below = made[y, columns].astype(np.float32)
        share = mask[y, columns, None].astype(np.float32) * np.float32(one.share / 255.0)
        over = fitted[y - top, columns.start - left : columns.stop - left].astype(np.float32)
        made[y, columns] = np.rint(below + share * (over - below)).astype(np.uint8)
    return made


CASES: Sequence[tuple[tuple[int, int], Box, float]] = (
    ((40, 62), (3, -20, 57, 41), 1.0),
    ((30, 34), (-2, 1, 40, 29), 0.3),
    ((20, 20), (4, 4, 12, 12), 1.0),
)


@pytest.mark.parametrize(("size", "box", "share"), CASES)
def test_the_reference_is_three_passes_to_the_bit(size: tuple[int, int], box: Box, share: float) -> None:
    faces = faces_of(2)
    one = painting(1, 1, size, box, share)
    want = one_after_the_other(faces[1].numpy(), one)
    np.testing.assert_array_equal(painted_rgb(faces[1], one).numpy(), want)
    for colour in ("bt709", "bt601"):
        [luma], [chroma] = split_nv12(painted_nv12(faces, [one], colour).numpy()[None], *size)
        y_plane, uv_plane = rgb_to_nv12(want, colour=colour)
        for made, plane in ((luma, y_plane), (chroma, uv_plane)):
            off = np.abs(made.astype(int) - plane)
            assert off.max() <= 1 and (off > 0).mean() < 2e-3, "OpenCV's sums may round a tie otherwise"


@pytest.mark.parametrize("before", [256, 24])
def test_the_resize_is_opencv_s_at_any_size(before: int) -> None:
    face = faces_of(1, before)
    draw = np.random.default_rng(2)
    sizes = [(before, before), (before // 2, before // 2), (2, 301), *draw.integers(2, 400, (12, 2)).tolist()]
    for width, height in sizes:
        even = (height + height % 2, width + width % 2)
        empty, whole = torch.zeros(*even, 3, dtype=torch.uint8), torch.full(even, 255, dtype=torch.uint8)
        made = painted_rgb(face[0], Painting(0, empty, whole, (0, 0, width, height), 1.0)).numpy()[:height, :width]
        want = cv2.resize(face[0].numpy(), (width, height), interpolation=cv2.INTER_LINEAR)
        np.testing.assert_array_equal(made, want, f"{width}x{height}")


@pytest.mark.parametrize("device", DEVICES)
def test_one_launch_gives_the_reference_s_bytes(device: str) -> None:
    from kernels.nv12.painted_triton import paint

    faces = faces_of(3)
    given = [painting(i, (2, 0, 1)[i], size, box, share) for i, (size, box, share) in enumerate(CASES)]
    on = [Painting(one.face, one.patch.to(device), one.mask.to(device), one.box, one.share) for one in given]
    for colour in ("bt709", "bt601"):
        made = paint(faces.to(device), on, colour_matrix(colour), tiling=tiling_for(device))
        want = painted_nv12_torch(faces, given, colour)
        assert torch.equal(made.cpu(), want), f"{int((made.cpu() != want).sum())} bytes differ"


@pytest.mark.gpu
def test_many_large_patches_on_a_gpu() -> None:
    faces = torch.randint(0, 256, (32, 256, 256, 3), dtype=torch.uint8)
    given = [painting(i, i, (202, 304), (-1 + i % 3, -130, 303, 201), 1.0 - i / 64, "cuda") for i in range(32)]
    made = painted_nv12(faces.cuda(), given)
    host = [Painting(one.face, one.patch.cpu(), one.mask.cpu(), one.box, one.share) for one in given]
    assert torch.equal(made.cpu(), painted_nv12_torch(faces, host))


def test_what_does_not_fit_is_refused() -> None:
    faces, fine = faces_of(1), painting(0, 0, (4, 4), (0, 0, 4, 4), 1.0)
    assert painted_nv12(faces, []).shape == (0,)
    with pytest.raises(ShapeError, match="faces"):
        painted_nv12(faces.float(), [fine])
    with pytest.raises(ShapeError, match="paintings"):
        painted_nv12(faces, [painting(0, 0, (5, 4), (0, 0, 4, 4), 1.0)])
    with pytest.raises(InvalidInputError, match="face"):
        painted_nv12(faces, [painting(0, 1, (4, 4), (0, 0, 4, 4), 1.0)])
    with pytest.raises(InvalidInputError, match="box"):
        painted_nv12(faces, [painting(0, 0, (4, 4), (3, 0, 3, 4), 1.0)])
    with pytest.raises(InvalidInputError, match="colour"):
        painted_nv12(faces, [fine], "rec2020")
