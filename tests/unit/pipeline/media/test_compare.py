import functools
import io
import json

import av
import numpy as np
import pytest

from kernels.errors import InvalidInputError
from pipeline.media.compare.mouth_box import MouthBox, find_mouth_box
from pipeline.media.compare.spikes import busiest_difference, find_new_spikes, find_spikes
from pipeline.media.compare.videos import compare_videos
from pipeline.types import Nv12Canvas
from tests.support.media_samples import silent_video, sine, talking_canvases, video_of, wav

FRAMES, WIDTH, HEIGHT = 48, 192, 320


@functools.cache
def talk():
    return tuple(talking_canvases(FRAMES, WIDTH, HEIGHT, speed=0.35))


@functools.cache
def video(crf=17):
    return video_of(talk(), crf=crf)


def pictures(data):
    with av.open(io.BytesIO(data)) as file:
        return [frame.to_ndarray(format="yuv420p").astype(np.float64) for frame in file.decode(video=0)]


def test_a_video_is_identical_to_itself():
    report = compare_videos(video(), video())
    assert report.identical and report.psnr_db is None and report.mean_abs_diff_max == 0
    assert report.frames_compared == report.first.frames == report.second.frames == FRAMES
    assert (report.first.width, report.first.height, report.first.fps) == (WIDTH, HEIGHT, 25)
    assert report.first.colour == "bt709" and not report.first.full_range
    assert report.summary == f"identical: {FRAMES} frames"
    assert report.dark_pixels_first == report.dark_pixels_second


def test_psnr_and_differences_are_those_of_the_decoded_pictures():
    report = compare_videos(video(), video(28))
    a, b = np.stack(pictures(video())), np.stack(pictures(video(28)))
    per_frame = ((a - b) ** 2).mean(axis=(1, 2))
    assert report.psnr_db == pytest.approx(10 * np.log10(255**2 / per_frame.mean()), abs=1e-6)
    assert report.psnr_worst_frame == np.argmax(per_frame)
    assert report.psnr_worst_db == pytest.approx(10 * np.log10(255**2 / per_frame.max()), abs=1e-6)
    luma = np.abs(a[:, :HEIGHT] - b[:, :HEIGHT]).mean(axis=(1, 2))
    np.testing.assert_allclose(report.mean_abs_diff, luma, atol=1e-9)
    assert report.mean_abs_diff_max_frame == np.argmax(luma)
    assert not report.identical and "PSNR" in report.summary


def test_a_jump_in_the_second_video_only_is_reported_where_it_is():
    broken = list(talk())
    broken[31] = broken[9]
    report = compare_videos(video(), video_of(broken))
    assert report.spikes_only_first == []
    assert {spike.frame for spike in report.spikes_only_second} == {31, 32}
    assert "31" in report.summary
    assert report.psnr_worst_frame == 31
    backwards = compare_videos(video_of(broken), video())
    assert {spike.frame for spike in backwards.spikes_only_first} == {31, 32} and not backwards.spikes_only_second


def test_the_mouth_is_found_and_its_dark_pixels_are_counted():
    opened = compare_videos(video(), video())
    box = opened.mouth_box
    assert box.x <= WIDTH / 2 <= box.x + box.w and box.y <= HEIGHT / 2 <= box.y + box.h
    assert box.w < 80 and box.h < 50
    assert max(opened.dark_pixels_first) > 3 * min(opened.dark_pixels_first) + 20, "the mouth opens and closes"
    shut = []
    for canvas in talk():
        y = canvas.y_plane.copy()
        y[box.y : box.y + box.h, box.x : box.x + box.w] = 120
        shut.append(Nv12Canvas(y, canvas.uv_plane))
    report = compare_videos(video(), video_of(shut))
    assert report.dark_pixels_mean_first > 20 and report.dark_pixels_mean_second == 0
    assert report.dark_pixels_max_diff == max(report.dark_pixels_first)


def test_box_and_level_can_be_given():
    report = compare_videos(video(), video(), mouth_box=MouthBox(0, 0, 10, 10), dark_level=255)
    assert report.mouth_box == MouthBox(0, 0, 10, 10) and set(report.dark_pixels_first) == {100}
    with pytest.raises(InvalidInputError, match="mouth_box"):
        compare_videos(video(), video(), mouth_box=MouthBox(190, 0, 10, 10))


def test_different_lengths_compare_what_both_have():
    report = compare_videos(video(), video_of(talk()[:40]))
    assert not report.identical and report.frames_compared == 40
    assert (report.first.frames, report.second.frames) == (FRAMES, 40)
    assert len(report.mean_abs_diff) == 40 and len(report.motion_first) == FRAMES and len(report.motion_second) == 40
    assert f"{FRAMES} frames against 40" in report.summary


def test_other_frame_rates_are_in_the_summary():
    report = compare_videos(video(), video_of(talk(), fps=50))
    assert "25 frames/s against 50" in report.summary
    assert "frames/s" not in compare_videos(video(), video_of(talk()[:40])).summary


def test_a_change_of_colour_tags_is_in_the_summary():
    report = compare_videos(video(), video_of(talk(), colour="bt601"))
    assert report.second.colour == "bt601" and "bt709 against bt601" in report.summary


def test_a_still_video_has_no_mouth():
    report = compare_videos(silent_video(10), silent_video(10))
    assert report.mouth_box is None and report.dark_pixels_first == [0] * 10 and report.spikes_first == []


def test_the_report_is_plain_json(tmp_path):
    first, second = tmp_path / "a.mp4", tmp_path / "b.mp4"
    first.write_bytes(video())
    second.write_bytes(video(28))
    data = json.loads(json.dumps(compare_videos(first, second).to_json(), allow_nan=False))
    assert data["frames_compared"] == FRAMES and data["first"]["width"] == WIDTH
    assert set(data["mouth_box"]) == {"x", "y", "w", "h"}
    assert json.dumps(compare_videos(silent_video(), silent_video()).to_json(), allow_nan=False)


@pytest.mark.parametrize(
    "content,reason",
    [
        (b"these are words", "unreadable"),
        (wav(sine(0.1)), "without pictures"),
        (b"", "unreadable"),
        (video()[:2_000], "first|second"),
    ],
)
def test_what_is_no_video_is_refused_by_name(content, reason):
    with pytest.raises(InvalidInputError, match=reason) as caught:
        compare_videos(video(), content)
    assert caught.value.field == "second"
    with pytest.raises(InvalidInputError) as caught:
        compare_videos(content, video())
    assert caught.value.field == "first"


def test_other_sizes_and_missing_files_are_refused(tmp_path):
    with pytest.raises(InvalidInputError, match="192x320"):
        compare_videos(video(), silent_video())
    with pytest.raises(InvalidInputError, match="No such file"):
        compare_videos(tmp_path / "none.mp4", video())


def test_spikes_stand_out_of_their_neighbourhood_not_of_the_whole():
    rng = np.random.default_rng(0)
    series = np.concatenate([rng.uniform(0.4, 0.6, 100), rng.uniform(6, 8, 100)])
    series[50] = 6.0
    series[150] = 30.0
    assert [spike.frame for spike in find_spikes(series.tolist(), 8.0)] == [50, 150]
    assert find_spikes([0.0] * 50, 8.0) == [] and find_spikes([], 8.0) == [] and find_spikes([1.0, 9.0], 8.0) == []


def test_jumps_that_both_make_within_a_frame_cancel():
    first = [0, *[1.0] * 30, 50.0, *[1.0] * 30]
    second = [0, *[1.0] * 31, 50.0, *[1.0] * 29]
    assert [spike.frame for spike in find_spikes(first, 8.0)] == [31]
    assert find_new_spikes(first, second, 8.0) == [] and find_new_spikes(second, first, 8.0) == []
    new = find_new_spikes(first, [0, *[1.0] * 40], 8.0)
    assert [(spike.frame, spike.difference) for spike in new] == [(31, 50.0)]
    assert find_new_spikes([], first, 8.0) == []


def test_a_wrong_frame_in_lively_motion_is_seen_only_against_the_reference():
    lively = np.abs(np.sin(np.arange(100) * 0.7)) * 10
    broken = lively.copy()
    broken[50] += 6
    assert find_spikes(broken.tolist(), 8.0) == []
    assert [spike.frame for spike in find_new_spikes(broken.tolist(), lively.tolist(), 8.0)] == [50]


def test_the_busiest_blocks_count():
    before = np.zeros((100, 100), np.float32)
    after = before.copy()
    after[:10, :10] = 40.0
    assert busiest_difference(after, before) == 40.0
    assert busiest_difference(np.ones((1, 2), np.float32), np.zeros((1, 2), np.float32)) == 1.0


def test_too_few_pictures_have_no_mouth():
    assert find_mouth_box([]) is None
    assert find_mouth_box(iter([talk()[0].y_plane] * 2)) is None
