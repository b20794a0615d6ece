"""What a clip's pixels mean: their shape, their turn, their fields and their colours."""

import io
import struct
from fractions import Fraction

import av
import numpy as np
import pytest
from av.video.reformatter import ColorRange, Colorspace

from pipeline.avatars.colour import converted, needs_conversion, to_srgb
from pipeline.avatars.portrait_errors import PortraitError
from pipeline.avatars.portrait_header import STUDIO_GREY
from pipeline.avatars.video_frames import MAX_FRAME_PIXELS, opened_video, shown_frames
from pipeline.avatars.video_still import _sampled_frames

SKIN = (202, 163, 154)


def scene(width=128, height=96):
    """Red top left, green top right, blue bottom left, grey bottom right."""
    pixels = np.full((height, width, 3), 90, np.uint8)
    pixels[: height // 2, : width // 2] = (200, 40, 40)
    pixels[: height // 2, width // 2 :] = (40, 180, 60)
    pixels[height // 2 :, : width // 2] = (40, 50, 200)
    return pixels


def clip(
    pixels,
    container="mp4",
    codec="libx264",
    pix_fmt="yuv444p",
    aspect=None,
    matrix=Colorspace.ITU709,
    matrix_tag=1,
    full=False,
    primaries=1,
    transfer=1,
    times=range(3),
    interlaced=False,
):
    """A short clip of one picture, R'G'B' encoded as asked and tagged so."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        stream = output.add_stream(
            codec, rate=25, options={"crf": "4"} | ({"x264-params": "tff=1"} if interlaced else {})
        )
        context = stream.codec_context
        context.height, context.width = pixels.shape[:2]
        context.pix_fmt = pix_fmt
        if aspect is not None:
            context.sample_aspect_ratio = aspect
        context.colorspace, context.color_primaries, context.color_trc = matrix_tag, primaries, transfer
        context.color_range = 2 if full else 1
        for time in times:
            frame = av.VideoFrame.from_ndarray(
                pixels, format="rgb24" if pixels.dtype == np.uint8 else "rgb48le"
            ).reformat(
                format=pix_fmt,
                src_color_range=ColorRange.JPEG,
                dst_colorspace=matrix,
                dst_color_range=ColorRange.JPEG if full else ColorRange.MPEG,
            )
            frame.colorspace, frame.color_range = matrix_tag, 2 if full else 1
            frame.color_primaries, frame.color_trc = primaries, transfer
            frame.pts, frame.time_base = time, Fraction(1, 25)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    return buffer.getvalue()


def shown(data):
    with opened_video(io.BytesIO(data), "a video") as container:
        return [(time_s, frame.rgb()) for time_s, frame in shown_frames(container)]


def assert_scene(rgb, expected, tolerance=12):
    """The four quarters' middles have the colours of the expected picture."""
    height, width = rgb.shape[:2]
    for y in (0.25, 0.75):
        for x in (0.25, 0.75):
            got = rgb[int(y * height), int(x * width)].astype(int)
            want = expected[int(y * len(expected)), int(x * expected.shape[1])]
            assert np.abs(got - want).max() <= tolerance, (x, y, got, want)


@pytest.mark.parametrize("container", ["mp4", "mov", "matroska"])
@pytest.mark.parametrize(
    "aspect,size", [(None, (128, 96)), (2, (256, 96)), (Fraction(1, 2), (128, 192)), (Fraction(16, 15), (137, 96))]
)
def test_pixels_become_square(container, aspect, size):
    rgb = shown(clip(scene(), container, aspect=aspect and Fraction(aspect)))[0][1]
    assert rgb.shape == (size[1], size[0], 3) and rgb.flags.c_contiguous
    assert_scene(rgb, scene())


@pytest.mark.parametrize("aspect", [Fraction(8, 1), Fraction(1, 5)])
def test_a_pixel_that_is_far_from_square_is_refused(aspect):
    with pytest.raises(PortraitError, match="far from square") as caught:
        shown(clip(scene(), aspect=aspect))
    assert caught.value.code == "portrait_unsupported"


def test_stretching_never_makes_a_picture_larger_than_allowed(monkeypatch):
    monkeypatch.setattr("pipeline.avatars.video_frames.MAX_FRAME_PIXELS", 128 * 96)
    assert shown(clip(scene(), aspect=Fraction(2)))[0][1].shape == (48, 128, 3)
    assert MAX_FRAME_PIXELS > 128 * 96


MATRICES = {
    "as stored": ((1, 0, 0, 1), lambda p: p),
    "quarter turn clockwise": ((0, 1, -1, 0), lambda p: np.rot90(p, -1)),
    "quarter turn": ((0, -1, 1, 0), lambda p: np.rot90(p, 1)),
    "half turn": ((-1, 0, 0, -1), lambda p: np.rot90(p, 2)),
    "mirrored": ((-1, 0, 0, 1), lambda p: p[:, ::-1]),
    "upside down": ((1, 0, 0, -1), lambda p: p[::-1]),
    "transposed": ((0, 1, 1, 0), lambda p: p.transpose(1, 0, 2)),
    "transversed": ((0, -1, -1, 0), lambda p: np.rot90(p, 2).transpose(1, 0, 2)),
}


def with_matrix(data, abcd):
    """The mp4 with the matrix of its track header overwritten, as phones write it."""
    out = bytearray(data)
    at = out.index(b"tkhd") + 4 + 40
    a, b, c, d = (value << 16 for value in abcd)
    struct.pack_into(">9i", out, at, a, b, 0, c, d, 0, 0, 0, 1 << 30)
    return bytes(out)


@pytest.mark.parametrize("name", MATRICES)
def test_turned_and_mirrored_clips_are_upright(name):
    abcd, turn = MATRICES[name]
    rgb = shown(with_matrix(clip(scene()), abcd))[0][1]
    expected = turn(scene())
    assert rgb.shape == expected.shape
    assert_scene(rgb, expected)


def test_a_turned_clip_with_oblong_pixels():
    rgb = shown(with_matrix(clip(scene(), aspect=Fraction(2)), (0, 1, -1, 0)))[0][1]
    assert rgb.shape[:2] == (256, 96)


def test_interlaced_frames_show_one_moment():
    """Two moments in one frame, line by line: only the first is shown."""
    pixels = np.zeros((96, 128, 3), np.uint8)
    pixels[::2] = 200
    rgb = shown(clip(pixels, interlaced=True))[0][1]
    assert rgb.shape == (96, 128, 3) and rgb.min() > 180


def flat(colour, width=64, height=64, dtype=np.uint8):
    return np.full((height, width, 3), colour, dtype)


COLOURS = [
    SKIN,
    (128, 128, 128),
    (230, 230, 230),
    (40, 40, 40),
    (180, 60, 50),
    (60, 120, 70),
    (30, 50, 140),
    (255, 255, 255),
]


@pytest.mark.parametrize("colour", COLOURS)
@pytest.mark.parametrize("matrix,tag", [(Colorspace.ITU709, 1), (Colorspace.ITU601, 6), (Colorspace.ITU601, 5)])
@pytest.mark.parametrize("full", [False, True])
def test_matrix_and_range_are_the_streams(colour, matrix, tag, full):
    rgb = shown(clip(flat(colour), matrix=matrix, matrix_tag=tag, full=full))[0][1]
    assert np.abs(rgb[32, 32].astype(int) - colour).max() <= 4


@pytest.mark.parametrize("height,matrix", [(576, Colorspace.ITU601), (720, Colorspace.ITU709)])
def test_what_names_no_matrix_is_taken_by_its_size(height, matrix):
    data = clip(flat((180, 60, 50), 64, height), matrix=matrix, matrix_tag=2, primaries=2, transfer=2)
    assert np.abs(shown(data)[0][1][32, 32].astype(int) - (180, 60, 50)).max() <= 4


# A reference of its own, from the standards' formulas: sRGB seen on a display -> the signal that a camera would have written.

XY = {
    1: ((0.64, 0.33), (0.30, 0.60), (0.15, 0.06)),
    9: ((0.708, 0.292), (0.17, 0.797), (0.131, 0.046)),
    12: ((0.68, 0.32), (0.265, 0.69), (0.15, 0.06)),
}


def rgb_to_xyz(primaries):
    xyz = np.array([[x, y, 1 - x - y] for x, y in XY[primaries]]).T
    white = np.array([0.3127, 0.3290, 1 - 0.3127 - 0.3290]) / 0.3290
    return xyz @ np.diag(np.linalg.inv(xyz) @ white)


def signal_of(srgb, primaries, transfer):
    """What ITU-R BT.2100/BT.2408, SMPTE ST 2084 or BT.1886 write for an sRGB colour of 0..255 under white of 203 nits."""
    v = np.asarray(srgb, np.float64) / 255
    change = np.linalg.inv(rgb_to_xyz(primaries)) @ rgb_to_xyz(1)
    if transfer not in (16, 18):
        return (change @ v**2.4).clip(0, 1) ** (1 / 2.4)
    light = change @ np.array([x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in v])
    if transfer == 16:
        y = (light * 203 / 10_000) ** 0.1593017578125
        return ((0.8359375 + 18.8515625 * y) / (1 + 18.6875 * y)) ** 78.84375
    gamma = 1.2 + 0.42 * np.log10(500 / 1000)
    seen = light * (0.26496256**gamma)
    scene_light = seen * (rgb_to_xyz(primaries)[1] @ seen) ** (1 / gamma - 1)
    return np.array(
        [np.sqrt(3 * e) if e <= 1 / 12 else 0.17883277 * np.log(12 * e - 0.28466892) + 0.55991073 for e in scene_light]
    )


KINDS = {
    "HLG": (9, 18),
    "PQ": (9, 16),
    "BT.2020": (9, 14),
    "BT.2020 12 bit": (9, 15),
    "Display P3": (12, 1),
    "P3 PQ": (12, 16),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("colour", COLOURS[:-1])
@pytest.mark.parametrize("codec,pix_fmt", [("libx264", "yuv444p"), ("libx265", "yuv420p10le")])
def test_colours_of_phones_come_out_as_they_were_seen(kind, colour, codec, pix_fmt):
    primaries, transfer = KINDS[kind]
    signal = flat(np.rint(signal_of(colour, primaries, transfer) * 65_535), dtype=np.uint16)
    matrix, tag = (Colorspace.BT2020, 9) if primaries == 9 else (Colorspace.ITU709, 1)
    data = clip(
        signal, codec=codec, pix_fmt=pix_fmt, matrix=matrix, matrix_tag=tag, primaries=primaries, transfer=transfer
    )
    assert np.abs(shown(data)[0][1][32, 32].astype(int) - colour).max() <= 6


def test_the_skin_of_a_telephone_clip():
    """What was seen as 158,142,135 before."""
    assert np.abs(to_srgb(flat((158, 142, 135)), 9, 18)[0, 0].astype(int) - SKIN).max() <= 3


@pytest.mark.parametrize("primaries,transfer", [(9, 16), (9, 18), (12, 16)])
def test_bright_light_rolls_off_and_white_stays_white(primaries, transfer):
    signal = np.linspace(0, 1, 256)[:, None].repeat(3, axis=1)
    out = converted(signal, primaries, transfer)
    assert (np.diff(out, axis=0) >= -1e-9).all() and out.max() <= 1.0 and out[0].max() < 0.01
    white = converted(signal_of((255, 255, 255), primaries, transfer)[None], primaries, transfer)[0]
    assert (white * 255 > 249).all()


def test_the_formula_gives_back_what_was_seen():
    rng = np.random.default_rng(0)
    for primaries, transfer in KINDS.values():
        seen = rng.integers(20, 230, (1, 400, 3))
        signal = np.stack([signal_of(colour, primaries, transfer) for colour in seen[0]])[None]
        inside = ((signal >= 0) & (signal <= 1)).all(axis=-1) & (seen.max(axis=-1) < 220)
        wide = to_srgb(np.rint(signal.clip(0, 1) * 65_535).astype(np.uint16), primaries, transfer)
        assert np.abs(wide.astype(int) - seen)[inside].max() <= 1


def test_a_large_picture_is_converted_in_bands():
    tall = np.tile(scene(64, 96), (20, 1, 1))
    assert np.array_equal(to_srgb(tall, 9, 18)[:96], to_srgb(scene(64, 96), 9, 18))


@pytest.mark.parametrize("primaries,transfer", [(1, 1), (2, 2), (1, 13), (1, 6), (2, 1), (99, 99)])
def test_ordinary_colours_are_left_alone(primaries, transfer):
    assert not needs_conversion(primaries, transfer)
    pixels = scene()
    assert np.array_equal(to_srgb(pixels, primaries, transfer), pixels)
    assert np.array_equal(to_srgb(pixels.astype(np.uint16) * 257, primaries, transfer), pixels)


@pytest.mark.parametrize(
    "container,codec,pix_fmt",
    [("mov", "png", "rgba"), ("mov", "prores_ks", "yuva444p10le"), ("matroska", "ffv1", "yuva420p")],
)
def test_what_is_transparent_is_the_grey_of_stills(container, codec, pix_fmt):
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        stream = output.add_stream(codec, rate=25, width=128, height=96, pix_fmt=pix_fmt)
        pixels = np.concatenate([scene(), np.full((96, 128, 1), 255, np.uint8)], axis=2)
        pixels[:, :64, 3] = 0
        for number in range(2):
            frame = av.VideoFrame.from_ndarray(pixels, format="rgba").reformat(format=pix_fmt)
            frame.pts, frame.time_base = number, Fraction(1, 25)
            output.mux(stream.encode(frame))
        output.mux(stream.encode(None))
    rgb = shown(buffer.getvalue())[0][1].astype(int)
    assert np.abs(rgb[24, 32] - STUDIO_GREY).max() <= 2 and np.abs(rgb[24, 96] - (40, 180, 60)).max() <= 12


@pytest.mark.parametrize("container", ["mp4", "matroska", "webm"])
def test_a_second_video_in_one_file_is_refused_in_words(container):
    codec = "libvpx-vp9" if container == "webm" else "libx264"
    one = clip(scene(), container, codec)
    with pytest.raises(PortraitError, match=f"several videos in one file, the second at byte {len(one)}"):
        shown(one + clip(scene(), "mp4"))
    assert len(shown(one + bytes(500))) == len(shown(one + b"trailer of a camera")) == 3


def test_a_clip_whose_clock_begins_at_an_hour_is_as_long_as_it_is():
    for container in ("mp4", "matroska"):
        times = [time_s for time_s, _ in _sampled_frames(clip(scene(), container, times=range(90_000, 90_010)))]
        assert len(times) == 2 and times[0] == 0.0 and 0.19 < times[1] < 0.25


def test_times_never_fall_and_wild_clocks_go_on():
    times = [time_s for time_s, _ in shown(clip(scene(), times=[0, 1, 2, 50, 51]))]
    np.testing.assert_allclose(times, [0.0, 0.04, 0.08, 2.0, 2.04], atol=1e-6)
    late = [time_s for time_s, _ in shown(clip(scene(), times=[1000, 1001]))]
    np.testing.assert_allclose(late, [0.0, 0.04], atol=1e-6)
