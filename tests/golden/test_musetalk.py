"""MuseTalk's arithmetic without networks against stored outputs of the reference: windows, positions, regions, masks, blending."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from pipeline.musetalk.audio_windows import NO_ROW, token_positions, window_rows
from pipeline.musetalk.blend import blend
from pipeline.musetalk.blend_mask import (
    SOFT_LIVE,
    SOFT_OFFLINE,
    Region,
    blend_mask,
    growth_kernel,
    talking_region,
)
from pipeline.musetalk.face_box import Box, crop_around
from tests.golden.support import golden_folder

GOLDEN = golden_folder("musetalk", Path(__file__).resolve().parents[1] / "data" / "musetalk")
LENGTHS = ("3.3", "31.7")
CASES = ("inside", "outside", "odd")


@cache
def formula() -> ModuleType:
    """The formula of the pictures, which RIFE's golden data have too."""
    path = Path(__file__).resolve().parents[1] / "data" / "rife" / "fill.py"
    spec = importlib.util.spec_from_file_location("rife_fill", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def golden(name: str) -> Mapping[str, np.ndarray]:
    with np.load(GOLDEN / f"{name}.npz") as archive:
        return {key: archive[key] for key in archive.files}


def stored_rows(fps: str, length: str) -> tuple[np.ndarray, int]:
    """The reference's windows, and how many rows of features it had."""
    return golden("audio_windows")[f"rows_fps{fps}_len{length}"], int(50 * float(length))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("fps", ["25", "30", "40"])
def test_windows_are_the_reference_s_where_its_rate_is_right(fps: str, length: str) -> None:
    want, rows = stored_rows(fps, length)
    np.testing.assert_array_equal(window_rows(len(want), rows, Fraction(fps)), want)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("fps", ["20", "24"])
def test_slow_rates_see_their_own_time_and_not_40_ms_before_it(fps: str, length: str) -> None:
    want, rows = stored_rows(fps, length)
    made = window_rows(len(want), rows, Fraction(fps))
    np.testing.assert_array_equal(made[:, :8], want[:, 2:], "the reference lies two rows early")
    own = np.arange(len(want)) * 50 // int(fps)
    assert (made[:, 4] == np.where(own < rows, own, NO_ROW)).all()


@pytest.mark.parametrize("length", LENGTHS)
def test_a_broken_rate_is_not_rounded_down(length: str) -> None:
    want, rows = stored_rows("29.97", length)
    exact = np.arange(len(want)) * 50 % 29 != 0  # where the quotient is whole, the reference's floats fall short of it
    taken = window_rows(len(want), rows, 29)
    np.testing.assert_array_equal(taken[exact], want[exact], "the reference takes 29 frames a second")
    rate = Fraction(30_000, 1001)
    frames = int(rate * Fraction(length))
    made = window_rows(frames, rows, rate)
    own = [int(i * 50 / rate) for i in range(frames)]
    assert frames > len(want) and (made[:, 4] == own).all()
    agree = [i for i in range(len(want)) if exact[i] and i * 50 // 29 == own[i]]
    np.testing.assert_array_equal(made[agree], want[agree])


def test_positions_are_the_reference_s() -> None:
    np.testing.assert_allclose(token_positions(), golden("pe")["pe50"], atol=1e-5)


@pytest.mark.parametrize("cheek", [80, 90])
@pytest.mark.parametrize("region", ["raw", "neck", "jaw"])
def test_regions_are_the_reference_s(region: Region, cheek: int) -> None:
    stored = golden("face_parsing_post")
    want = np.unpackbits(stored[f"mask_{region}_cw{cheek}"]).reshape(512, 512) * np.uint8(255)
    np.testing.assert_array_equal(talking_region(stored["labels_packed"], region, cheek), want)


def test_the_growth_kernel_is_the_reference_s() -> None:
    np.testing.assert_array_equal(growth_kernel(), golden("face_parsing_post")["kernel"])


@pytest.mark.parametrize("case", CASES)
def test_crop_and_mask_are_the_reference_s(case: str) -> None:
    stored = golden("blend")
    box = Box(*map(int, stored[f"{case}_box"]))
    crop = crop_around(box)
    assert crop == tuple(stored[f"{case}_crop_box"])
    region = talking_region(golden("face_parsing_post")["labels_packed"])
    np.testing.assert_array_equal(blend_mask(region, box, crop), stored[f"{case}_mask"])


@pytest.mark.parametrize(("soft", "name"), [(SOFT_LIVE, "blend"), (SOFT_OFFLINE, "offline")])
@pytest.mark.parametrize("case", CASES)
def test_pictures_are_the_reference_s_to_the_bit(case: str, soft: float, name: str) -> None:
    stored = golden("blend")
    box, (height, width) = Box(*map(int, stored[f"{case}_box"])), map(int, stored[f"{case}_hw"])
    crop = crop_around(box)
    picture = formula().frame(height, width, 0, f"blend:{case}")
    face = formula().frame(box.height, box.width, 3, f"face:{case}")
    mask = blend_mask(talking_region(golden("face_parsing_post")["labels_packed"]), box, crop, soft)
    made = blend(picture, face, box, mask, crop)[::2, ::2, ::-1]
    np.testing.assert_array_equal(made, stored[f"{case}_{name}_bgr_sub"])
    if case == "outside":
        assert min(crop.left, crop.top) < 0 or crop.right > width or crop.bottom > height
