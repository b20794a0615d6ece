from fractions import Fraction

import av
import numpy as np
import pytest

from kernels.errors import InvalidInputError, ShapeError
from pipeline.config import EncoderSettings
from pipeline.media.encoder import EncoderError, VideoFormat, as_frame, standalone_context
from pipeline.media.encoder_nvenc import nvenc_options, probe_nvenc
from pipeline.media.encoder_select import EncoderSelector
from pipeline.media.encoder_x264 import open_x264
from pipeline.media.h264_level import h264_level
from pipeline.types import Nv12Canvas
from tests.support.media_samples import moving_canvas, talking_canvases

SETTINGS = EncoderSettings()


class RecordingLog:
    def __init__(self):
        self.events = []

    def info(self, event, **fields):
        self.events.append(("info", event, fields))

    def warning(self, event, **fields):
        self.events.append(("warning", event, fields))


def x264(video_format, purpose, settings=SETTINGS):
    return open_x264(standalone_context("libx264"), video_format, purpose, settings)


def decode(packets):
    decoder = av.CodecContext.create("h264", "r")
    frames = []
    for packet in packets:
        frames += decoder.decode(packet)
    return frames + decoder.decode(None), decoder


def psnr_db(canvases, frames):
    error, count = 0.0, 0
    for canvas, frame in zip(canvases, frames, strict=True):
        got = frame.reformat(format="nv12").to_ndarray().astype(np.float64)
        want = np.concatenate([canvas.y_plane, canvas.uv_plane]).astype(np.float64)
        error += ((got - want) ** 2).sum()
        count += want.size
    return 10 * np.log10(255**2 * count / error)


@pytest.mark.parametrize("purpose", ["file", "stream"])
def test_files_keep_the_quality_bar_on_a_talking_picture(purpose):
    canvases = talking_canvases(30, 288, 512)
    encoder = x264(VideoFormat(288, 512, 25), purpose)
    packets = [p for canvas in canvases for p in encoder.encode(canvas)] + encoder.flush()
    frames, _ = decode(packets)
    assert psnr_db(canvases, frames) >= 46.0


@pytest.mark.parametrize("purpose,fps", [("file", 25), ("stream", 50), ("live", 25), ("live", 50)])
def test_every_picture_comes_out_in_order_without_b_frames_in_closed_gops(purpose, fps):
    encoder = x264(VideoFormat(96, 64, fps), purpose)
    packets = [p for i in range(2 * fps + 3) for p in encoder.encode(moving_canvas(i))] + encoder.flush()
    assert [p.pts for p in packets] == [p.dts for p in packets] == list(range(2 * fps + 3))
    keys = [i for i, p in enumerate(packets) if p.is_keyframe]
    assert keys == ([0, 2 * fps] if purpose == "live" else [0, fps, 2 * fps])
    after_second_key, _ = decode(packets[keys[1] :])
    assert len(after_second_key) == len(packets) - keys[1]


@pytest.mark.parametrize("purpose", ["file", "stream", "live"])
def test_an_idr_comes_where_it_is_forced(purpose):
    encoder = x264(VideoFormat(96, 64, 25), purpose)
    packets = [p for i in range(12) for p in encoder.encode(moving_canvas(i), force_idr=i == 5)] + encoder.flush()
    assert [i for i, p in enumerate(packets) if p.is_keyframe] == [0, 5]
    frames, _ = decode(packets[5:])
    assert len(frames) == 7


@pytest.mark.parametrize("purpose", ["stream", "live"])
def test_low_latency_purposes_hold_nothing_back(purpose):
    encoder = x264(VideoFormat(96, 64, 25), purpose)
    assert [len(encoder.encode(moving_canvas(i))) for i in range(5)] == [1] * 5
    assert encoder.flush() == []


def test_live_packets_carry_their_headers_and_a_baseline_profile():
    encoder = x264(VideoFormat(96, 64, 25), "live")
    packets = [p for i in range(55) for p in encoder.encode(moving_canvas(i))]
    for packet in packets:
        starts = bytes(packet).startswith((b"\0\0\0\1\x67", b"\0\0\0\1\x09\xf0\0\0\0\1\x67"))
        assert starts == packet.is_keyframe
    assert "Baseline" in decode(packets)[1].profile


def test_live_rate_is_kept():
    rng = np.random.default_rng(0)
    encoder = x264(VideoFormat(320, 240, 25), "live", EncoderSettings(live_kbps=300))
    sizes = []
    for _ in range(75):
        canvas = Nv12Canvas(rng.integers(60, 120, (240, 320), np.uint8), np.full((120, 320), 128, np.uint8))
        sizes += [p.size for p in encoder.encode(canvas)]
    assert sum(sizes[25:]) * 8 / 2.0 < 1.3 * 300_000


@pytest.mark.parametrize("colour,code", [("bt709", 1), ("bt601", 6)])
@pytest.mark.parametrize("purpose", ["file", "live"])
def test_the_stream_says_which_colours_it_has(colour, code, purpose):
    encoder = x264(VideoFormat(96, 64, 25, colour), purpose)
    packets = [p for i in range(3) for p in encoder.encode(moving_canvas(i))] + encoder.flush()
    frame = decode(packets)[0][0]
    assert (frame.colorspace, frame.color_primaries, frame.color_trc, frame.color_range) == (code, code, code, 1)


@pytest.mark.parametrize(
    "width,height,fps,level",
    [
        (512, 512, 25, "3.0"),
        (720, 1280, 25, "3.1"),
        (720, 1280, 50, "3.2"),
        (1080, 1920, 25, "4.0"),
        (1080, 1920, 50, "4.2"),
    ],
)
def test_the_level_is_that_of_the_standards_table_and_reaches_the_stream(width, height, fps, level):
    video_format = VideoFormat(width, height, fps)
    assert h264_level(video_format) == level
    encoder = x264(video_format, "stream")
    packets = encoder.encode(moving_canvas(0, width, height)) + encoder.flush()
    decoder = decode(packets)[1]
    assert decoder.level == int(level.replace(".", ""))


def test_levels_know_bit_rates_and_limits():
    assert h264_level(VideoFormat(512, 512, 25), kbps=12_000) == "3.1"
    assert h264_level(VideoFormat(64, 64, 1)) == "1.0"
    with pytest.raises(InvalidInputError, match=r"level 5\.2"):
        h264_level(VideoFormat(4096, 4096, 120))


@pytest.mark.parametrize(
    "width,height,fps", [(95, 64, 25), (96, 63, 25), (14, 64, 25), (96, 5000, 25), (96, 64, 0), (96, 64, 240)]
)
def test_impossible_formats_are_refused(width, height, fps):
    with pytest.raises(InvalidInputError):
        VideoFormat(width, height, fps)


def test_other_sizes_types_and_colours_are_refused():
    encoder = x264(VideoFormat(96, 64, 25), "live")
    with pytest.raises(ShapeError, match="y_plane"):
        encoder.encode(moving_canvas(0, 64, 64))
    with pytest.raises(ShapeError, match="uv_plane"):
        encoder.encode(Nv12Canvas(np.zeros((64, 96), np.uint8), np.zeros((32, 96), np.float32)))
    with pytest.raises(InvalidInputError, match="colour"):
        VideoFormat(96, 64, 25, "bt2020")


def test_time_may_jump_forward_but_never_back():
    encoder = x264(VideoFormat(96, 64, Fraction(30_000, 1_001)), "live")
    packets = (
        encoder.encode(moving_canvas(0)) + encoder.encode(moving_canvas(1), pts=5) + encoder.encode(moving_canvas(2))
    )
    assert [p.pts for p in packets] == [0, 5, 6]
    with pytest.raises(InvalidInputError, match="pts"):
        encoder.encode(moving_canvas(3), pts=6)


def test_a_closed_encoder_says_so():
    encoder = x264(VideoFormat(96, 64, 25), "live")
    encoder.close()
    encoder.close()
    assert encoder.flush() == []
    with pytest.raises(EncoderError, match="closed"):
        encoder.encode(moving_canvas(0))


def test_frames_alias_writable_canvases_and_copy_the_rest():
    canvas = moving_canvas(0)
    frame = as_frame(canvas)
    canvas.y_plane[0, 0] = 77
    assert frame.to_ndarray()[0, 0] == 77
    canvas.y_plane.setflags(write=False)
    np.testing.assert_array_equal(as_frame(canvas).to_ndarray()[:64], canvas.y_plane)
    big = np.random.default_rng(0).integers(0, 256, (96, 200), dtype=np.uint8)
    padded = Nv12Canvas(big[:64, 4:100], big[64:, 4:100])
    np.testing.assert_array_equal(as_frame(padded).to_ndarray(), big[:, 4:100])
    flipped = Nv12Canvas(big[:64, 4:100][:, ::-1], big[64:, 4:100])
    np.testing.assert_array_equal(as_frame(flipped).to_ndarray()[:64], flipped.y_plane)


def test_a_canvas_may_be_overwritten_as_soon_as_encode_returns():
    kept, reused = x264(VideoFormat(96, 64, 25), "file"), x264(VideoFormat(96, 64, 25), "file")
    shared = moving_canvas(0)
    a, b = [], []
    for i in range(30):
        canvas = moving_canvas(i)
        np.copyto(shared.y_plane, canvas.y_plane)
        a += kept.encode(canvas)
        b += reused.encode(shared)
        shared.y_plane.fill(0)
    assert [bytes(p) for p in a + kept.flush()] == [bytes(p) for p in b + reused.flush()]


def test_without_nvenc_x264_runs_and_the_log_says_why_once():
    log, probes = RecordingLog(), []
    selector = EncoderSelector(lambda: probes.append(1) or "Cannot load libcuda.so.1", log)
    for _ in range(3):
        assert selector.open(VideoFormat(96, 64, 25), "live", SETTINGS).codec_name == "libx264"
    assert len(probes) == 1
    assert log.events == [
        ("info", "video_encoder_selected", {"encoder": "libx264", "reason": "Cannot load libcuda.so.1"})
    ]


def test_with_nvenc_it_is_tried_first_and_x264_takes_over_when_it_will_not_open():
    log, asked = RecordingLog(), []

    def context(name):
        asked.append(name)
        if name == "h264_nvenc":
            raise EncoderError("no session left")
        return standalone_context(name)

    selector = EncoderSelector(lambda: None, log)
    assert selector.codec_name(SETTINGS) == "h264_nvenc"
    assert selector.open(VideoFormat(96, 64, 25), "file", SETTINGS, context).codec_name == "libx264"
    assert asked == ["h264_nvenc", "libx264"]
    assert [(kind, event) for kind, event, _ in log.events] == [
        ("info", "video_encoder_selected"),
        ("warning", "video_encoder_fallback"),
    ]
    assert log.events[1][2]["reason"] == "no session left"


def test_settings_can_insist_on_either_encoder():
    def must_not_run():
        raise AssertionError("probed although x264 is asked for")

    log = RecordingLog()
    assert EncoderSelector(must_not_run, log).codec_name(EncoderSettings(prefer="x264")) == "libx264"
    with pytest.raises(EncoderError, match="no GPU"):
        EncoderSelector(lambda: "no GPU", log).open(VideoFormat(96, 64, 25), "live", EncoderSettings(prefer="nvenc"))


def test_the_real_probe_gives_a_reason_or_works():
    problem = probe_nvenc()
    assert problem is None or "h264_nvenc" in problem
    assert av.logging.get_level() is None


def test_nvenc_options_avoid_reordering():
    for purpose in ("file", "stream", "live"):
        options = nvenc_options(VideoFormat(1080, 1920, 25), purpose, SETTINGS)
        assert options["bf"] == "0" and options["delay"] == "0" and options["forced-idr"] == "1"
        assert options["preset"] == "p1" and options["tune"] == "ull" and options["level"] == "4.0"
    known = {option.name for option in standalone_context("h264_nvenc").supported_options.private}
    generic = {"b", "maxrate", "bufsize", "bf"}
    assert set(nvenc_options(VideoFormat(96, 64, 25), "live", SETTINGS)) - known <= generic | {"profile", "level"}


def test_settings_refuse_unknown_keys_and_wild_values():
    with pytest.raises(ValueError, match="file_crf"):
        EncoderSettings(file_crf=99)
    with pytest.raises(ValueError, match="bitrate"):
        EncoderSettings(bitrate=1)
