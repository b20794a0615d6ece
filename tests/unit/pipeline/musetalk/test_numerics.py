"""MuseTalk without networks: boxes of clips, ping-pong, silence that is bypassed."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.errors import InvalidInputError, ShapeError
from pipeline.musetalk.audio_windows import ROW_DIM, window_rows, windows_of
from pipeline.musetalk.blend import blend, mix
from pipeline.musetalk.blend_mask import talking_region
from pipeline.musetalk.bypass import FADE_FRAMES, HOLD_FRAMES, Bypass, frame_levels
from pipeline.musetalk.clip_place import clip_place
from pipeline.musetalk.face_box import MARGIN, Box, crop_around, points_68, raw_box, steady_boxes
from pipeline.musetalk.moving_part import moving_part
from pipeline.types import FaceRect
from tests.support.faces import presenter


def test_a_clip_turns_without_showing_an_end_twice() -> None:
    assert [clip_place(i, 3) for i in range(-2, 7)] == [2, 1, 0, 1, 2, 1, 0, 1, 2]
    assert [clip_place(i, 2) for i in range(4)] == [0, 1, 0, 1] and clip_place(7, 1) == 0
    shown = [clip_place(i, 7) for i in range(100)]
    assert all(abs(a - b) == 1 for a, b in zip(shown, shown[1:], strict=False))


@settings(max_examples=30, deadline=None)
@given(st.fractions(Fraction(1), Fraction(120)), st.integers(0, 60), st.integers(0, 200))
def test_every_window_has_four_rows_before_its_frame_and_none_outside(fps: Fraction, frames: int, rows: int) -> None:
    index = window_rows(frames, rows, fps)
    assert index.shape == (frames, 10) and index.min(initial=0) >= -1 and index.max(initial=0) < max(rows, 1)
    for i, row in enumerate(index):
        first = i * 50 // fps - 4
        assert [at for at in row if at >= 0] == [at for at in range(first, first + 10) if 0 <= at < rows]


def test_windows_hold_their_rows_and_zeros_elsewhere() -> None:
    rows = np.arange(1, 7, dtype=np.float32)[:, None] * np.ones(ROW_DIM, np.float32)
    made = windows_of(rows, window_rows(3, 6)).reshape(3, 10, ROW_DIM)[:, :, 0]
    np.testing.assert_array_equal(made[0], [0, 0, 0, 0, 1, 2, 3, 4, 5, 6])
    np.testing.assert_array_equal(made[2], [1, 2, 3, 4, 5, 6, 0, 0, 0, 0])
    with pytest.raises(ShapeError, match="rows"):
        windows_of(rows[:, 1:], window_rows(3, 6))
    with pytest.raises(InvalidInputError, match="fps"):
        window_rows(3, 6, 0)


def test_the_box_of_a_real_face_is_halved_at_its_nose() -> None:
    drawing = presenter()
    points = points_68(drawing.landmarks)
    left, top, right, bottom = raw_box(points)
    chin = points[:, 1].max()
    assert left == points[:, 0].min() and right == points[:, 0].max()
    assert (top + chin) / 2 == pytest.approx(points[29, 1], abs=1e-3)
    assert bottom - chin == pytest.approx(MARGIN * (chin - top), rel=1e-3)
    assert points[27, 1] < points[28, 1] < points[29, 1] < points[30, 1] < points[33, 1] < points[51, 1] < points[57, 1]
    steps = np.diff(points[27:31, 1])
    assert steps.max() < 2 * steps.min(), "the points of the bridge are spread evenly"
    with pytest.raises(ShapeError, match="points"):
        raw_box(points[:67])
    with pytest.raises(ShapeError, match="mesh"):
        points_68(drawing.landmarks[:100])


def test_a_face_at_the_upper_edge_has_a_box_on_the_canvas() -> None:
    points = points_68(presenter().landmarks)
    points = points - [0, points[:, 1].min()]
    assert raw_box(points.astype(np.float32))[1] == 0.0


def test_boxes_of_a_clip_do_not_jitter_and_keep_their_frames() -> None:
    rng = np.random.default_rng(0)
    centre = np.stack([200 + 20 * np.sin(np.arange(60) / 12), 300 + 0 * np.arange(60)], axis=1)
    measured = np.concatenate([centre - (50, 60), centre + (50, 60)], axis=1) + rng.normal(0, 1.5, (60, 4))
    found = np.ones(60, bool)
    found[20:24] = False
    measured[20:24] = np.nan
    boxes = steady_boxes(measured, found)
    assert len(boxes) == 60 and {(box.width, box.height) for box in boxes} == {(boxes[0].width, boxes[0].height)}
    middle = np.array([(box.left + box.right) / 2 for box in boxes])
    raw = (measured[found, 0] + measured[found, 2]) / 2
    assert np.abs(middle - centre[:, 0]).max() < 4, "frames without a face lie between their neighbours"
    assert np.abs(np.diff(middle, 2)).mean() < 0.5 * np.abs(np.diff(raw, 2)).mean()
    assert steady_boxes(measured[:1], found[:1])[0].width == round(measured[0, 2] - measured[0, 0])


def test_a_crop_is_even_and_around_its_box() -> None:
    crop = crop_around(Box(101, 50, 202, 171))
    assert crop.width == crop.height == 2 * int(121 // 2 * 1.5) and crop.left == 151 - crop.width // 2
    assert Box(-5, 3, 20, 90).within(10, 50) == Box(0, 3, 10, 50)


def test_labels_and_regions_are_checked() -> None:
    with pytest.raises(ShapeError, match="labels"):
        talking_region(np.zeros((256, 256), np.uint8))
    with pytest.raises(InvalidInputError, match="region"):
        talking_region(np.zeros((512, 512), np.uint8), "chin")  # type: ignore[arg-type]  # refused


def test_alpha_fades_what_the_mask_shows() -> None:
    rng = np.random.default_rng(1)
    below, face = (rng.integers(0, 256, (20, 30, 3), np.uint8) for _ in range(2))
    mask = rng.integers(0, 256, (20, 30), np.uint8)
    np.testing.assert_array_equal(mix(below, face, mask, 0.0), below)
    exact = below + (mask[..., None] / 255.0) * 0.4 * (face.astype(float) - below)
    assert np.abs(mix(below, face, mask, 0.4) - exact).max() <= 0.501
    with pytest.raises(ShapeError, match="face"):
        mix(below, face[1:], mask)


def test_a_face_half_outside_changes_only_what_lies_inside() -> None:
    picture = np.full((60, 50, 3), 100, np.uint8)
    box = Box(-10, 30, 20, 70)
    crop = crop_around(box)
    out = blend(
        picture, np.full((256, 256, 3), 200, np.uint8), box, np.full((crop.width, crop.width), 255, np.uint8), crop
    )
    assert (out[30:, :20] == 200).all() and (out[:30] == 100).all() and (out[:, 20:] == 100).all()


def levels_of(loud: slice, frames: int = 40) -> np.ndarray:
    """Levels of silence with a tone in some frames."""
    pcm = np.zeros((frames + 4) * 640, np.float32)
    start, stop = (loud.start + 2) * 640, (loud.stop + 2) * 640
    pcm[start:stop] = 0.1 * np.sin(np.arange(stop - start) * 0.3)
    return frame_levels(pcm)


def test_loudness_is_that_of_200_ms_around_a_frame() -> None:
    levels = levels_of(slice(10, 30))
    heard = np.flatnonzero(levels > 1e-4)
    assert heard.min() == 8 and heard.max() == 31, "80 ms before the onset, and 80 ms after the end"
    assert levels[20] == pytest.approx(0.1 / 2**0.5, rel=1e-2)
    with pytest.raises(ShapeError, match="pcm"):
        frame_levels(np.zeros(4 * 640, np.float32))


def test_speech_fades_in_before_its_onset_and_out_after_its_end() -> None:
    weights, after = Bypass().step(levels_of(slice(10, 30)))
    assert (weights[:8] == 0).all() and weights[10] == 3 / FADE_FRAMES and (weights[11:32] == 1).all()
    end = 32 + HOLD_FRAMES
    np.testing.assert_allclose(weights[end : end + 4], [0.75, 0.5, 0.25, 0.0])
    assert (weights[end + 4 :] == 0).all() and not after.speaking


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0, 0.0625, width=32), min_size=1, max_size=40), st.integers(1, 39))
def test_how_frames_come_changes_nothing(levels: list[float], cut: int) -> None:
    given_levels = np.array(levels, np.float32)
    whole, end = Bypass().step(given_levels)
    first, between = Bypass().step(given_levels[:cut])
    second, last = between.step(given_levels[cut:])
    np.testing.assert_array_equal(np.concatenate([first, second]), whole)
    assert last == end and np.abs(np.diff(whole, prepend=0)).max() <= 1 / FADE_FRAMES + 1e-6


def test_what_stands_still_around_a_clip_is_not_kept_again() -> None:
    rng = np.random.default_rng(0)
    still = rng.integers(0, 250, (160, 240, 3), np.uint8)
    clip = [still + rng.integers(0, 4, still.shape, np.uint8) for _ in range(3)]
    always = FaceRect(100, 60, 20, 30)
    assert moving_part(clip, [always]) == always, "a sensor's noise is no motion"
    clip[1][80:120, 150:171] = 255 - clip[1][80:120, 150:171]
    rect = moving_part(clip, [always])
    assert rect.x == 100 and rect.y == 60 and rect.x + rect.w in range(171, 188) and rect.y + rect.h in range(120, 138)
    assert not any(number % 2 for number in (rect.x, rect.y, rect.w, rect.h))
    clip[2][:, :] = 0
    assert moving_part(clip, [always]) == FaceRect(0, 0, 240, 160)
