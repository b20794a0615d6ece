import numpy as np
import pytest
import torch

from kernels.errors import InvalidInputError, ShapeError
from kernels.nv12.composite import composite_nv12, composite_nv12_torch
from kernels.nv12.composite_plan import plan_composite
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.types import FaceRect
from tests.unit.kernels.nv12.test_from_rgb import float64_nv12

RECT = FaceRect(x=100, y=60, w=120, h=150)


def soft_mask():
    ramp = np.clip(np.minimum(np.arange(512), np.arange(512)[::-1]) / 90.0, 0.0, 1.0)
    return np.outer(ramp, ramp).astype(np.float32)


def affine(scale=0.25, degrees=7.0, x=105.3, y=70.8):
    c, s = scale * np.cos(np.radians(degrees)), scale * np.sin(np.radians(degrees))
    return np.array([[c, -s, x], [s, c, y]], np.float32)


def noise(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def float64_composite(crop, crop_to_canvas, mask, background, rect, colour, chroma):
    """The formula of the docstring, written as slowly and plainly as possible."""
    full = np.vstack([crop_to_canvas.astype(np.float64), [0, 0, 1]])
    inverse = np.linalg.inv(full)
    y, x = np.mgrid[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w].astype(np.float64)
    u = inverse[0, 0] * x + inverse[0, 1] * y + inverse[0, 2]
    v = inverse[1, 0] * x + inverse[1, 1] * y + inverse[1, 2]

    def sample(image, outside_is_zero):
        total = np.zeros((*u.shape, image.shape[-1]))
        base_u, base_v = np.floor(u).astype(int), np.floor(v).astype(int)
        for dy in (0, 1):
            for dx in (0, 1):
                weight = np.abs(1 - dx - (u - base_u)) * np.abs(1 - dy - (v - base_v))
                uu, vv = base_u + dx, base_v + dy
                values = image[np.clip(vv, 0, 511), np.clip(uu, 0, 511)].astype(np.float64)
                if outside_is_zero:
                    values = values * ((uu >= 0) & (uu < 512) & (vv >= 0) & (vv < 512))[..., None]
                total += weight[..., None] * values
        return total

    m = sample(mask[..., None], True)
    back = background.astype(np.float64)
    rgb = np.floor(back + m * (sample(crop, False) - back) + 0.5)
    return float64_nv12(rgb[None], colour, chroma)


@pytest.mark.parametrize("colour,chroma", [("bt709", "mean"), ("bt601", "top_left")])
@pytest.mark.parametrize(
    "matrix", [affine(), affine(0.4, -20.0, 60.0, 40.5), affine(1.0, 0.0, 100.0, 60.0), affine(1.7, 3.0)]
)
def test_both_paths_are_within_one_level_of_float64(matrix, colour, chroma):
    crops, background, mask = noise((2, 512, 512, 3)), noise((RECT.h, RECT.w, 3), 1), soft_mask()
    plan = plan_composite(matrix, mask, background, RECT, colour=colour, chroma=chroma)
    cpu = composite_nv12(crops, plan)
    reference = [plane.numpy() for plane in composite_nv12_torch(torch.from_numpy(crops), plan)]
    for i in range(2):
        expected = float64_composite(crops[i], matrix, mask, background, RECT, colour, chroma)
        for got, other, want in zip(cpu, reference, expected, strict=True):
            assert np.abs(other[i].astype(float) - want[0]).max() <= 1
            assert np.abs(got[i].astype(float) - want[0]).max() <= 1
            assert np.abs(got[i].astype(int) - other[i].astype(int)).max() <= 1


def test_where_the_mask_is_zero_the_rectangle_is_the_converted_background():
    canvas = noise((300, 400, 3), 2)
    background = canvas[RECT.y : RECT.y + RECT.h, RECT.x : RECT.x + RECT.w]
    plan = plan_composite(affine(), soft_mask(), background, RECT)
    y, uv = composite_nv12(noise((1, 512, 512, 3)), plan)
    canvas_y, canvas_uv = rgb_to_nv12(canvas)
    untouched = plan.mask == 0
    assert 0.1 < untouched.mean() < 0.9
    inside = canvas_y[RECT.y : RECT.y + RECT.h, RECT.x : RECT.x + RECT.w]
    np.testing.assert_array_equal(y[0][untouched], inside[untouched])
    blocks = untouched.reshape(RECT.h // 2, 2, RECT.w // 2, 2).all(axis=(1, 3)).repeat(2, axis=1)
    inside_uv = canvas_uv[RECT.y // 2 : (RECT.y + RECT.h) // 2, RECT.x : RECT.x + RECT.w]
    np.testing.assert_array_equal(uv[0][blocks], inside_uv[blocks])


def test_a_full_mask_and_the_identity_show_the_crop_itself():
    rect = FaceRect(0, 0, 512, 512)
    crop = noise((1, 512, 512, 3))
    plan = plan_composite(np.eye(2, 3), np.ones((512, 512), np.float32), noise((512, 512, 3), 9), rect)
    for got, want in zip(composite_nv12(crop, plan), rgb_to_nv12(crop), strict=True):
        np.testing.assert_array_equal(got, want)


def test_an_empty_batch_gives_empty_planes():
    plan = plan_composite(affine(), soft_mask(), noise((RECT.h, RECT.w, 3)), RECT)
    empty = np.zeros((0, 512, 512, 3), np.uint8)
    assert [p.shape for p in composite_nv12(empty, plan)] == [(0, 150, 120), (0, 75, 120)]
    assert [tuple(p.shape) for p in composite_nv12_torch(torch.from_numpy(empty), plan)] == [
        (0, 150, 120),
        (0, 75, 120),
    ]


def test_read_only_crops_are_accepted():
    crops = noise((1, 512, 512, 3))
    plan = plan_composite(affine(), soft_mask(), noise((RECT.h, RECT.w, 3)), RECT)
    expected = composite_nv12(crops, plan)
    crops.setflags(write=False)
    np.testing.assert_array_equal(composite_nv12(crops, plan)[0], expected[0])


@pytest.mark.parametrize(
    "change,error",
    [
        ({"crop_to_canvas": np.eye(3)}, ShapeError),
        ({"crop_to_canvas": np.zeros((2, 3))}, InvalidInputError),
        ({"crop_to_canvas": np.full((2, 3), np.nan)}, InvalidInputError),
        ({"mask": np.ones((256, 256), np.float32)}, ShapeError),
        ({"mask": np.ones((512, 512), np.float64)}, ShapeError),
        ({"mask": np.full((512, 512), 1.01, np.float32)}, InvalidInputError),
        ({"mask": np.full((512, 512), np.nan, np.float32)}, InvalidInputError),
        ({"background_rgb": noise((150, 122, 3))}, ShapeError),
        ({"background_rgb": np.zeros((150, 120, 3), np.float32)}, ShapeError),
        ({"rect": FaceRect(101, 60, 120, 150)}, InvalidInputError),
        ({"rect": FaceRect(-2, 60, 120, 150)}, InvalidInputError),
        ({"rect": FaceRect(100, 60, 120, 151)}, InvalidInputError),
        ({"colour": "srgb"}, InvalidInputError),
        ({"chroma": "left"}, InvalidInputError),
    ],
)
def test_bad_plans_are_refused(change, error):
    arguments = {
        "crop_to_canvas": affine(),
        "mask": soft_mask(),
        "background_rgb": noise((150, 120, 3)),
        "rect": RECT,
    }
    with pytest.raises(error):
        plan_composite(**{**arguments, **change})


@pytest.mark.parametrize(
    "shape,dtype", [((512, 512, 3), np.uint8), ((1, 256, 256, 3), np.uint8), ((1, 512, 512, 3), np.float32)]
)
def test_bad_crops_are_refused(shape, dtype):
    crops = np.zeros(shape, dtype)
    plan = plan_composite(affine(), soft_mask(), noise((RECT.h, RECT.w, 3)), RECT)
    with pytest.raises(ShapeError):
        composite_nv12(crops, plan)
    with pytest.raises(ShapeError):
        composite_nv12_torch(torch.from_numpy(crops), plan)
