import numpy as np
import pytest
import torch

from kernels.errors import InvalidInputError, ShapeError
from kernels.nv12.colour import BT601, BT709, CHROMA_NAMES, COLOUR_NAMES, check_chroma, colour_matrix
from kernels.nv12.from_rgb import rgb_to_nv12, rgb_to_nv12_torch


def float64_nv12(rgb, colour, chroma):
    matrix = colour_matrix(colour)
    pixels = rgb.astype(np.float64)
    n, h, w, _ = rgb.shape
    luma = np.floor(pixels @ matrix.rgb_to_yuv[0] + matrix.offset[0] + 0.5)
    blocks = pixels[:, 0::2, 0::2] if chroma == "top_left" else pixels.reshape(n, h // 2, 2, w // 2, 2, 3).mean((2, 4))
    chroma_plane = np.floor(blocks @ matrix.rgb_to_yuv[1:].T + matrix.offset[1:] + 0.5)
    return luma, chroma_plane.reshape(n, h // 2, w)


def test_bt601_has_the_published_coefficients():
    published = [
        [0.256788, 0.504129, 0.097906],
        [-0.148223, -0.290993, 0.439216],
        [0.439216, -0.367788, -0.071427],
    ]
    np.testing.assert_allclose(BT601.rgb_to_yuv, published, atol=6e-7)


def test_bt709_has_the_standards_luma_weights():
    np.testing.assert_allclose(BT709.rgb_to_yuv[0] * 255 / 219, [0.2126, 0.7152, 0.0722], atol=1e-12)


@pytest.mark.parametrize("colour", COLOUR_NAMES)
def test_greys_have_no_chroma_and_primaries_reach_the_limits(colour):
    greys = np.repeat(np.arange(256, dtype=np.uint8)[:, None, None], 3, axis=2).reshape(16, 16, 3)
    y, uv = rgb_to_nv12(greys, colour=colour, chroma="top_left")
    assert y.min() == 16 and y.max() == 235 and (uv == 128).all()
    for channel, index, expected in ((2, 0, 240), (0, 1, 240)):
        picture = np.zeros((2, 2, 3), np.uint8)
        picture[..., channel] = 255
        assert rgb_to_nv12(picture, colour=colour)[1][0, index] == expected
        assert rgb_to_nv12(255 - picture, colour=colour)[1][0, index] == 256 - expected


@pytest.mark.parametrize("chroma", CHROMA_NAMES)
@pytest.mark.parametrize("colour", COLOUR_NAMES)
@pytest.mark.parametrize("size", [(2, 2), (2, 46), (34, 6), (130, 258)])
def test_both_paths_are_within_one_level_of_float64(size, colour, chroma):
    rng = np.random.default_rng(3)
    rgb = rng.integers(0, 256, (2, *size, 3), dtype=np.uint8)
    rgb[1] = rng.choice(np.array([0, 255], np.uint8), rgb[1].shape)
    expected = float64_nv12(rgb, colour, chroma)
    cpu = rgb_to_nv12(rgb, colour=colour, chroma=chroma)
    reference = [plane.numpy() for plane in rgb_to_nv12_torch(torch.from_numpy(rgb), colour=colour, chroma=chroma)]
    for planes in (cpu, reference):
        for got, want in zip(planes, expected, strict=True):
            assert got.dtype == np.uint8 and got.shape == want.shape
            difference = np.abs(got.astype(np.float64) - want)
            assert difference.max() <= 1 and (difference > 0).mean() < 0.002


def test_a_rectangle_converts_to_the_same_bytes_as_inside_the_whole():
    rgb = np.random.default_rng(4).integers(0, 256, (64, 80, 3), dtype=np.uint8)
    y, uv = rgb_to_nv12(rgb)
    part_y, part_uv = rgb_to_nv12(rgb[10:42, 6:60])
    np.testing.assert_array_equal(part_y, y[10:42, 6:60])
    np.testing.assert_array_equal(part_uv, uv[5:21, 6:60])


@pytest.mark.parametrize("shape", [(3, 4, 3), (4, 5, 3), (0, 2, 3), (4, 4, 4), (4, 4), (1, 1, 4, 4, 3)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ShapeError):
        rgb_to_nv12(np.zeros(shape, np.uint8))


def test_compat_is_the_published_chroma():
    rgb = np.random.default_rng(6).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    for got, want in zip(rgb_to_nv12(rgb, chroma="compat"), rgb_to_nv12(rgb, chroma="top_left"), strict=True):
        np.testing.assert_array_equal(got, want)
    assert check_chroma("compat") == "top_left"


def test_other_types_and_names_are_refused():
    good = np.zeros((4, 4, 3), np.uint8)
    with pytest.raises(ShapeError):
        rgb_to_nv12(good.astype(np.float32))
    with pytest.raises(InvalidInputError, match="bt709 or bt601"):
        rgb_to_nv12(good, colour="bt2020")
    with pytest.raises(InvalidInputError, match="mean or top_left"):
        rgb_to_nv12(good, chroma="nearest")
    with pytest.raises(ShapeError):
        rgb_to_nv12_torch(torch.zeros((4, 4, 3), dtype=torch.uint8))
