"""An RGB rectangle spliced into an NV12 canvas: every path against float64, odd offsets and sizes included."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from kernels.errors import InvalidInputError, ShapeError
from kernels.nv12.colour import colour_matrix
from kernels.nv12.splice import canvas_planes, nv12_splice, nv12_splice_torch
from tests.support.triton import DEVICES, assert_close, tiling_for

H, W = 48, 74


def canvas_of(n: int, seed: int = 5) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (n, H * 3 // 2, W), dtype=np.uint8))


def face_of(n: int, h: int, w: int, dtype: torch.dtype, white: float, seed: int = 1) -> torch.Tensor:
    """(n, 3, h, w), the last picture of extremes only."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 256, (n, 3, h, w)).astype(np.float64)
    values[-1] = rng.choice([0.0, 255.0], values[-1].shape)
    if dtype == torch.uint8:
        return torch.from_numpy(values).to(dtype)
    return torch.from_numpy((values + rng.uniform(-0.5, 0.5, values.shape)) / 255.0 * white).to(dtype)


def float64_splice(face: torch.Tensor, canvas: torch.Tensor, x: int, y: int, white: float, colour: str, chroma: str):
    """The formula, pixel by pixel and block by block."""
    matrix = colour_matrix(colour)
    rgb = face.double().numpy() * (1.0 if face.dtype == torch.uint8 else 255.0 / white)
    rgb = np.clip(rgb, 0.0, 255.0)
    n, _, h, w = rgb.shape
    out = canvas.double().numpy().copy()
    height = out.shape[1] // 3 * 2
    yuv = np.einsum("dc,nchw->ndhw", matrix.rgb_to_yuv, rgb)
    out[:, y : y + h, x : x + w] = np.floor(yuv[:, 0] + matrix.offset[0] + 0.5)
    for row in range(y // 2, (y + h + 1) // 2):
        for column in range(x // 2, (x + w + 1) // 2):
            places = [(2 * row + dy - y, 2 * column + dx - x) for dy in (0, 1) for dx in (0, 1)]
            inside = [(r, c) for r, c in places if 0 <= r < h and 0 <= c < w]
            for plane in (1, 2):
                old = canvas[:, height + row, 2 * column + plane - 1].double().numpy()
                if chroma == "mean":
                    fresh = sum(yuv[:, plane, r, c] for r, c in inside) / 4.0
                    value = 128.0 + fresh + (4 - len(inside)) / 4.0 * (old - 128.0)
                elif places[0] in inside:
                    value = 128.0 + yuv[:, plane, places[0][0], places[0][1]]
                else:
                    continue
                out[:, height + row, 2 * column + plane - 1] = np.clip(np.floor(value + 0.5), 0, 255)
    return torch.from_numpy(out)


PLACES = [
    # x, y, w, h
    (12, 8, 32, 20),
    (0, 0, W, H),
    (2, 6, 46, 34),
    (7, 8, 32, 20),
    (8, 5, 32, 20),
    (7, 5, 33, 21),
    (6, 4, 31, 19),
    (W - 1, H - 1, 1, 1),
    (3, 2, 1, 9),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("chroma", ["mean", "top_left"])
@pytest.mark.parametrize("place", PLACES, ids=str)
@pytest.mark.parametrize(
    "dtype,white,layout,colour",
    [
        (torch.float32, 1.0, "nchw", "bt709"),
        (torch.float16, 255.0, "nhwc", "bt601"),
        (torch.uint8, 255.0, "nhwc", "bt709"),
        (torch.uint8, 255.0, "nchw", "bt601"),
    ],
    ids=["float32", "float16", "uint8_packed", "uint8_planar"],
)
def test_triton_and_reference_are_within_one_level_of_float64(device, chroma, place, dtype, white, layout, colour):
    from kernels.nv12.splice_triton import splice

    x, y, w, h = place
    face, canvas = face_of(3, h, w, dtype, white), canvas_of(3)
    expected = float64_splice(face, canvas, x, y, white, colour, chroma)
    laid_out = face.permute(0, 2, 3, 1).contiguous() if layout == "nhwc" else face
    reference = canvas.clone()
    nv12_splice_torch(laid_out, reference, x, y, layout=layout, white=white, colour=colour, chroma=chroma)
    assert_close(reference, expected, 1, "reference")
    planar = laid_out.permute(0, 3, 1, 2) if layout == "nhwc" else laid_out
    got = canvas.to(device)
    scale = 1.0 if dtype == torch.uint8 else 255.0 / white
    splice(planar.to(device), got, x, y, scale, colour_matrix(colour), chroma, tiling=tiling_for(device))
    assert_close(got, expected, 1, "triton")
    assert (got.cpu() != reference).float().mean() < 0.002


@pytest.mark.parametrize("device", DEVICES)
def test_both_triton_bodies_agree_where_words_fit(device):
    from kernels.nv12.splice_triton import splice, words_fit

    canvas = torch.zeros((2, 96, 80), dtype=torch.uint8, device=device)
    packed = face_of(2, 20, 32, torch.uint8, 255.0).permute(0, 2, 3, 1).contiguous().to(device)
    planar = packed.permute(0, 3, 1, 2)
    assert words_fit(planar, canvas, 12, 8) and not words_fit(planar, canvas, 10, 8)
    one, other = canvas.clone(), canvas.clone()
    splice(planar, one, 12, 8, 1.0, colour_matrix("bt709"), "mean", words=True)
    splice(planar, other, 12, 8, 1.0, colour_matrix("bt709"), "mean", words=False)
    assert_close(one, other, 0)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_wrapper_writes_in_place_and_nothing_else(device):
    canvas = canvas_of(2).to(device)
    before = canvas.clone()
    face = face_of(2, 10, 20, torch.float32, 1.0).to(device)
    assert nv12_splice(face, canvas, 5, 7) is canvas
    luma, chroma = canvas_planes(canvas)
    old_luma, old_chroma = canvas_planes(before)
    luma_mask = torch.zeros((H, W), dtype=torch.bool, device=device)
    luma_mask[7:17, 5:25] = True
    chroma_mask = torch.zeros((H // 2, W), dtype=torch.bool, device=device)
    chroma_mask[3:9, 4:26] = True
    assert torch.equal(luma[:, ~luma_mask], old_luma[:, ~luma_mask])
    assert torch.equal(chroma[:, ~chroma_mask], old_chroma[:, ~chroma_mask])
    assert not torch.equal(luma[:, luma_mask], old_luma[:, luma_mask])


def test_half_a_block_of_the_old_colour_stays():
    canvas = torch.full((1, 6, 4), 128, dtype=torch.uint8)
    canvas[:, 4:] = 200
    nv12_splice(torch.zeros((1, 3, 4, 3)), canvas, 1, 0)
    # black has no colour: column pair 0 keeps half of 200 - 128, column pair 1 none
    assert canvas[0, 4].tolist() == [164, 164, 128, 128]


@pytest.mark.parametrize("device", DEVICES)
def test_values_outside_the_range_are_clamped_and_nan_is_black(device):
    from kernels.nv12.splice_triton import splice

    face = torch.tensor([float("nan"), float("inf"), -float("inf"), -3.0, 7.0, 0.25, 1.0, 0.0]).reshape(1, 1, 2, 4)
    face = face.expand(1, 3, 2, 4).contiguous()
    reference, got = torch.zeros((1, 3, 4), dtype=torch.uint8), torch.zeros((1, 3, 4), dtype=torch.uint8)
    nv12_splice_torch(face, reference, 0, 0)
    assert reference[0, 0].tolist() == [16, 235, 16, 16]
    splice_out = got.to(device)
    splice(face.to(device), splice_out, 0, 0, 255.0, colour_matrix("bt709"), "mean")
    assert_close(splice_out, reference, 0)


def test_an_empty_batch_is_fine():
    canvas = torch.zeros((0, 6, 4), dtype=torch.uint8)
    assert nv12_splice(torch.zeros((0, 3, 2, 2)), canvas, 0, 0) is canvas


@pytest.mark.parametrize(
    "change,error",
    [
        ({"face": torch.zeros(2, 4, 4, 4)}, ShapeError),
        ({"face": torch.zeros(2, 3, 4, 4, dtype=torch.float64)}, ShapeError),
        ({"face": torch.zeros(1, 3, 4, 4)}, ShapeError),
        ({"face": torch.zeros(3, 4, 4)}, ShapeError),
        ({"canvas": torch.zeros(2, 70, 74, dtype=torch.uint8)}, ShapeError),
        ({"canvas": torch.zeros(2, 72, 73, dtype=torch.uint8)}, ShapeError),
        ({"canvas": torch.zeros(2, 72, 74)}, ShapeError),
        ({"canvas": torch.zeros(2, 72, 148, dtype=torch.uint8)[:, :, ::2]}, ShapeError),
        ({"x": -1}, InvalidInputError),
        ({"x": 71}, InvalidInputError),
        ({"y": 45}, InvalidInputError),
        ({"layout": "chw"}, InvalidInputError),
        ({"white": 128.0}, InvalidInputError),
        ({"colour": "srgb"}, InvalidInputError),
        ({"chroma": "left"}, InvalidInputError),
    ],
)
def test_bad_arguments_are_refused_and_leave_the_canvas_alone(change, error):
    arguments = {"face": torch.rand(2, 3, 4, 4), "canvas": canvas_of(2), "x": 0, "y": 0, **change}
    before = arguments["canvas"].clone()
    with pytest.raises(error):
        nv12_splice(arguments.pop("face"), arguments["canvas"], arguments.pop("x"), arguments.pop("y"),
                    **{k: v for k, v in arguments.items() if k != "canvas"})  # fmt: skip
    assert torch.equal(arguments["canvas"], before)
