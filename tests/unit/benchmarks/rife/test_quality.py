"""The measures of interpolated pictures, and how the benchmark applies them."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.core.frame_similarity import IDENTICAL_DB, luma_of, psnr_db, ssim
from benchmarks.core.run_info import describe_run
from benchmarks.rife.quality import blend, busiest, inside, measure, mouth_box_of, records_of, repeat, sheet
from kernels.errors import ShapeError
from pipeline.media.compare.mouth_box import MouthBox
from pipeline.mini.registration import make_avatar
from pipeline.presenter.draw import draw_presenter

BOX = MouthBox(4, 4, 24, 20)


def ramps(n: int) -> np.ndarray:
    """A bright bar that moves 2 pixels per frame through the box, faster in the middle frames."""
    frames = np.full((n, 40, 48, 3), 40, np.uint8)
    for i in range(n):
        x = 4 + (i if i < n // 2 else 2 * i - n // 2)
        frames[i, 8:20, x : x + 6] = 200
    return frames


def test_equal_pictures_are_equal_and_noise_costs_what_it_should() -> None:
    picture = luma_of(np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8))
    assert psnr_db(picture, picture) == IDENTICAL_DB and ssim(picture, picture) == pytest.approx(1.0)
    assert psnr_db(picture, picture + 2.55) == pytest.approx(40.0, abs=1e-3)
    assert ssim(picture, picture[::-1].copy()) < 0.2
    with pytest.raises(ShapeError):
        psnr_db(picture, picture[1:])


def test_the_truth_scores_best_and_repeating_a_moving_thing_worst() -> None:
    frames = ramps(13)
    truth = iter(frames[1::2])
    exact, made = measure(frames, BOX, lambda a, b: next(truth))
    repeated, _ = measure(frames, BOX, repeat)
    assert set(exact.psnr) == {IDENTICAL_DB} and len(exact.psnr) == len(made) == 6
    assert len(exact.mouth_psnr) == 2, "a quarter of the pairs"
    assert max(repeated.psnr) < 40 and max(repeated.mouth_ssim) < 1
    assert busiest([luma_of(f) for f in frames[0::2]], BOX)[0] >= 2, "the fast half"


def test_rows_compare_with_blending() -> None:
    frames = ramps(9)
    scored = {name: measure(frames, BOX, method)[0] for name, method in (("repeat", repeat), ("blend", blend))}
    rows = {row.case: row for row in records_of(describe_run("x"), "presenter", "at50", scored)}
    assert len(rows) == 8 and rows["presenter_at50_blend_face_psnr"].baseline is None
    row = rows["presenter_at50_repeat_mouth_psnr"]
    assert row.baseline == "blend" and row.ratio == pytest.approx(row.value / (row.baseline_value or 1), rel=1e-3)


def test_the_box_holds_the_lips() -> None:
    drawing = draw_presenter()
    avatar = make_avatar(drawing.rgb, drawing.landmarks, "p")
    box = mouth_box_of(avatar)
    lips = np.asarray(avatar.tensors["landmarks"])[[61, 291, 0, 17], :2]
    assert (lips >= [box.x, box.y]).all() and (lips <= [box.x + box.w, box.y + box.h]).all()
    assert 60 < box.w < 300 and inside(np.zeros((512, 512), np.float32), box).shape == (box.h, box.w)


def test_the_sheet_has_a_row_per_pair_and_a_column_per_method() -> None:
    frames = ramps(9)
    made = {"blend": measure(frames, BOX, blend)[1]}
    assert sheet(frames, BOX, made).shape == (4 * 220, 4 * 240, 3)
