"""Pauses, overlaps and clocks that only a container's timestamps tell of, and several files in one upload."""

import io
import itertools
import struct
import tracemalloc
from fractions import Fraction

import av
import numpy as np
import pytest

from pipeline.media.audio_errors import AudioInputError, AudioTooLongError, AudioUnreadableError
from pipeline.media.audio_in import AudioLimits, decode_audio
from pipeline.media.audio_parts import MAX_PARTS, parts_of
from pipeline.media.timeline import Placed, Timeline
from tests.support.media_samples import encoded, sine, wav


def timed(container, codec, rate_hz, shift, seconds=3.0, video_from_s=None):
    """A tone whose packets' times are moved by `shift(seconds)`."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=container) as output:
        if video_from_s is not None:
            video = output.add_stream("mpeg4", rate=25)
            video.width, video.height, video.pix_fmt = 64, 64, "yuv420p"
        stream = output.add_stream(codec, rate=rate_hz, layout="mono")
        form = stream.codec_context.format.name
        splitter = av.AudioResampler(form, "mono", rate_hz, stream.codec_context.frame_size or 1024)
        frame = av.AudioFrame.from_ndarray(sine(seconds, rate_hz)[None], format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = rate_hz, 0, Fraction(1, rate_hz)
        pieces = [*splitter.resample(frame), *splitter.resample(None), None]
        packets = list(itertools.chain.from_iterable(stream.encode(piece) for piece in pieces))
        if video_from_s is not None:
            for number in range(10):
                picture = av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8), format="rgb24")
                picture.pts, picture.time_base = number + round(video_from_s * 25), Fraction(1, 25)
                output.mux(video.encode(picture))
            output.mux(video.encode(None))
        for packet in packets:
            moved = round(shift(float(packet.pts * packet.time_base)) / packet.time_base)
            packet.pts, packet.dts = packet.pts + moved, packet.dts + moved
            output.mux(packet)
    return buffer.getvalue()


def quiet_runs(pcm, least_s=0.03):
    """(start, length) in seconds of stretches without sound."""
    loud = np.flatnonzero(np.abs(pcm) > 0.05)
    gaps = np.diff(loud)
    return [(loud[i] / 16_000, gaps[i] / 16_000) for i in np.flatnonzero(gaps > least_s * 16_000)]


HOLES = [
    ("webm", "libopus", 48_000),
    ("matroska", "aac", 44_100),
    ("mp4", "aac", 44_100),
    ("mp4", "libopus", 48_000),
    ("mpegts", "aac", 44_100),
    ("mpegts", "mp2", 48_000),
    ("flv", "aac", 44_100),
    ("nut", "aac", 44_100),
    ("ogg", "libopus", 48_000),
    ("ogg", "flac", 16_000),
]


@pytest.mark.parametrize("container,codec,rate_hz", HOLES)
@pytest.mark.parametrize("hole_s", [0.0, 0.3, 2.0])
def test_a_hole_in_the_timestamps_is_a_pause(container, codec, rate_hz, hole_s):
    data = timed(container, codec, rate_hz, lambda t: hole_s if t >= 1.5 else 0.0)
    decoded = decode_audio(data)
    assert abs(decoded.duration_s - 3.0 - hole_s) < 0.06
    assert abs(len(decoded.voice.samples) / decoded.voice.rate_hz - decoded.duration_s) < 0.001
    runs = quiet_runs(decoded.pcm)
    if hole_s:
        (start, length) = runs[0]
        assert len(runs) == 1 and abs(length - hole_s) < 0.06
        assert abs(start - 1.5) < (0.6 if container == "ogg" else 0.06), (
            "an Ogg page carries one time for half a second"
        )
        voice = quiet_runs(decoded.voice.samples[:, 0])
        assert len(voice) == 1 and abs(voice[0][1] * 16_000 / decoded.voice.rate_hz - hole_s) < 0.06
    else:
        assert not runs


def test_several_holes_and_short_ones_add_up():
    data = timed("webm", "libopus", 48_000, lambda t: 0.03 * int(t / 0.5))
    assert abs(decode_audio(data).duration_s - 3.15) < 0.05


@pytest.mark.parametrize("container,codec", [("webm", "libopus"), ("mp4", "aac"), ("mpegts", "aac"), ("flv", "aac")])
def test_a_hole_of_hours_is_refused_in_words_and_never_allocated(container, codec):
    data = timed(container, codec, 48_000, lambda t: 36_000.0 if t >= 1.5 else 0.0)
    tracemalloc.start()
    with pytest.raises(AudioTooLongError, match=r"hole of 3\d{4}\.\d s in its timestamps at 1\.5 s"):
        decode_audio(data)
    assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    tracemalloc.stop()


def test_a_pause_counts_into_the_limit():
    data = timed("webm", "libopus", 48_000, lambda t: 2.0 if t >= 1.5 else 0.0)
    assert abs(decode_audio(data, AudioLimits(max_seconds=5.1)).duration_s - 5.0) < 0.05
    with pytest.raises(AudioTooLongError, match="4 s"):
        decode_audio(data, AudioLimits(max_seconds=4.0))


def test_overlaps_are_cut():
    data = timed(
        "matroska", "libopus", 48_000, lambda t: -0.5 * t
    )  # every packet begins in the middle of the one before
    assert abs(decode_audio(data).duration_s - 1.5) < 0.1


@pytest.mark.parametrize("container,codec", [("mpegts", "aac"), ("webm", "libopus"), ("mp4", "aac"), ("flv", "aac")])
def test_where_a_clock_starts_says_nothing_of_sound_alone(container, codec):
    assert abs(decode_audio(timed(container, codec, 48_000, lambda _: 5.0)).duration_s - 3.0) < 0.06


@pytest.mark.parametrize("container,codec", [("matroska", "libopus"), ("mp4", "aac"), ("mpegts", "aac")])
def test_sound_that_begins_after_the_picture_is_heard_after_it(container, codec):
    late = decode_audio(timed(container, codec, 48_000, lambda _: 0.8, video_from_s=0.0))
    assert abs(late.duration_s - 3.8) < 0.08 and not late.pcm[: round(0.6 * 16_000)].any()
    early = decode_audio(timed(container, codec, 48_000, lambda _: 0.0, video_from_s=0.8))
    assert abs(early.duration_s - 3.0) < 0.08


def test_transport_streams_behind_each_other_are_heard_both():
    one = timed("mpegts", "aac", 48_000, lambda _: 0.0)
    assert abs(decode_audio(one + one).duration_s - 6.0) < 0.15


def test_the_rules_of_the_timeline():
    line = Timeline()
    assert line.place(100.0, 1.0) == Placed(0.0, 0.0)
    assert line.place(101.03, 1.0) == Placed(0.0, 0.0), "40 ms are nothing"
    assert line.place(None, 1.0) == Placed(0.0, 0.0)
    for nonsense in (float("nan"), float("inf"), float("-inf")):
        assert line.place(nonsense, 1.0) == Placed(0.0, 0.0)
    assert line.position_s == 6.0
    placed = line.place(107.0, 1.0)
    assert abs(placed.silence_s - 1.0) < 1e-9 and placed.cut_s == 0 and abs(line.position_s - 8.0) < 1e-9
    placed = line.place(107.5, 1.0)
    assert abs(placed.cut_s - 0.5) < 1e-9 and abs(line.position_s - 8.5) < 1e-9
    assert line.place(107.0, 1.0).cut_s == 1.0, "wholly heard before"
    assert line.place(100.0, 1.0) == Placed(0.0, 0.0), "the clock began anew"
    assert line.place(101.0, 1.0) == Placed(0.0, 0.0)
    assert line.place(-9e15, 1.0) == Placed(0.0, 0.0)
    standing = Timeline()
    for _ in range(100):
        assert standing.place(0.0, 0.02) == Placed(0.0, 0.0), "a clock that stands says nothing"


def riff(samples, rate_hz=16_000, size=None, data_size=None, magic=b"RIFF"):
    """A WAV file with the sizes that its writer claims."""
    out = bytearray(wav(samples, rate_hz))
    out[:4] = magic
    if size is not None:
        struct.pack_into("<I", out, 4, size)
    if data_size is not None:
        struct.pack_into("<I", out, out.index(b"data") + 4, data_size)
    return bytes(out)


def rf64(samples):
    plain = wav(samples)
    sizes = b"ds64" + struct.pack("<IQQQI", 28, len(plain) + 28, samples.nbytes, len(samples), 0)
    out = bytearray(b"RF64\xff\xff\xff\xffWAVE" + sizes + plain[12:])
    struct.pack_into("<I", out, out.index(b"data") + 4, 0xFFFFFFFF)
    return bytes(out)


def rifx(samples):
    body = samples.astype(">i2").tobytes()
    head = struct.pack(">HHIIHH", 1, 1, 16_000, 32_000, 2, 16)
    chunks = b"fmt " + struct.pack(">I", len(head)) + head + b"data" + struct.pack(">I", len(body)) + body
    return b"RIFX" + struct.pack(">I", 4 + len(chunks)) + b"WAVE" + chunks


INT = (sine(1.0) * 30_000).astype(np.int16)
STEREO = (sine(1.0, 44_100, channels=2) * 30_000).astype(np.int16)
UNKNOWN = 0xFFFFFFFF
JOINED = {
    "two of a kind": (riff(INT) + riff(INT), 2.0),
    "rate and channels change": (riff(INT) + riff(STEREO, 44_100), 2.0),
    "a hundred": (riff(INT[:1600]) * 100, 10.0),
    "sizes unknown": (riff(INT, size=UNKNOWN, data_size=UNKNOWN) * 3, 3.0),
    "sizes 0": (riff(INT, size=0, data_size=0) * 2, 2.0),
    "size of the last unknown": (riff(INT) + riff(INT, size=UNKNOWN, data_size=UNKNOWN), 2.0),
    "RIFF size wrong": (riff(INT, size=36) + riff(INT, size=7), 2.0),
    "RIFX": (rifx(INT) + rifx(INT), 2.0),
    "RF64": (rf64(INT) + rf64(INT), 2.0),
    "RF64 and RIFF": (rf64(INT) + riff(INT), 2.0),
    "odd bytes without padding": (riff(np.full(801, 200, np.uint8)) + riff(INT), 1.05),
    "tag": (riff(INT) + b"TAG" + bytes(125), 1.0),
    "padding": (riff(INT) + bytes(512), 1.0),
    "chunks behind": (riff(INT) + b"LIST" + struct.pack("<I", 4) + b"INFO", 1.0),
    "chunks between": (riff(INT) + b"LIST" + struct.pack("<I", 4) + b"INFO" + riff(INT), 2.0),
    "one sample": (riff(INT[:1]) + riff(INT), 1.0),
}


@pytest.mark.parametrize("name", JOINED)
def test_wav_files_in_one_are_all_heard(name):
    data, seconds = JOINED[name]
    decoded = decode_audio(data)
    assert abs(decoded.duration_s - seconds) < 0.003


@pytest.mark.parametrize(
    "rest", [INT[:500].tobytes(), b"\x01\x02\x03" * 9, b"data" + struct.pack("<I", 8) + b"12345678"]
)
@pytest.mark.parametrize("first", [riff(INT), encoded("aiff", "pcm_s16be", sine(0.5), 16_000)])
def test_sound_that_no_header_describes_is_refused(first, rest):
    with pytest.raises(
        AudioUnreadableError, match=f"{len(rest)} bytes behind the end of the sound, at byte {len(first)}"
    ):
        decode_audio(first + rest)


def test_a_header_that_was_never_brought_up_to_date_is_refused():
    with pytest.raises(AudioUnreadableError, match="behind the end of the sound"):
        decode_audio(riff(INT, size=36 + 8_000, data_size=8_000))


def test_too_many_files_in_one_are_refused():
    with pytest.raises(AudioUnreadableError, match=f"more than {MAX_PARTS} files"):
        decode_audio(riff(INT[:2]) * (MAX_PARTS + 1))
    with pytest.raises(AudioTooLongError):
        decode_audio(riff(INT) * 5, AudioLimits(max_seconds=4.5))


CHAINS = [
    ("ogg", "libopus", 48_000, 48_000),
    ("ogg", "flac", 48_000, 16_000),
    ("flac", "flac", 48_000, 16_000),
    ("adts", "aac", 44_100, 22_050),
    ("mp3", "libmp3lame", 44_100, 22_050),
    ("flv", "aac", 44_100, 22_050),
    ("webm", "libopus", 48_000, 48_000),
    ("mp4", "aac", 44_100, 48_000),
    ("mpegts", "aac", 44_100, 48_000),
    ("aiff", "pcm_s16be", 16_000, 44_100),
    ("caf", "pcm_s16be", 16_000, 44_100),
    ("au", "pcm_s16be", 16_000, 44_100),
    ("w64", "pcm_s16le", 16_000, 44_100),
    ("ac3", "ac3", 48_000, 44_100),
    ("tta", "tta", 16_000, 44_100),
    ("voc", "pcm_s16le", 16_000, 44_100),
    ("wv", "wavpack", 16_000, 44_100),
    ("nut", "aac", 44_100, 48_000),
    ("avi", "pcm_s16le", 16_000, 44_100),
    ("asf", "libmp3lame", 44_100, 22_050),
]


@pytest.mark.parametrize("container,codec,first_hz,second_hz", CHAINS)
def test_joined_files_whose_rate_and_layout_change_are_decoded(container, codec, first_hz, second_hz):
    first = encoded(container, codec, sine(1.0, first_hz), first_hz)
    second = encoded(container, codec, sine(1.0, second_hz, channels=2), second_hz, "stereo")
    decoded = decode_audio(first + second + first)
    assert abs(decoded.duration_s - 3.0) < 0.2
    assert decoded.voice.samples.shape[1] == 1 and decoded.voice.rate_hz == first_hz
    for second_number in range(3):
        middle = decoded.pcm[round((second_number + 0.3) * 16_000) : round((second_number + 0.7) * 16_000)]
        assert abs(np.sqrt(2 * (middle.astype(np.float64) ** 2).mean()) - 0.5) < 0.06


KINDS = {
    "wav": lambda: wav((sine(1.0, 48_000) * 20_000).astype(np.int16), 48_000),
    "mp3": lambda: encoded("mp3", "libmp3lame", sine(1.0, 48_000), 48_000),
    "ogg": lambda: encoded("ogg", "libopus", sine(1.0, 48_000), 48_000),
    "webm": lambda: encoded("webm", "libopus", sine(1.0, 48_000), 48_000),
    "mp4": lambda: encoded("mp4", "aac", sine(1.0, 48_000), 48_000),
    "flac": lambda: encoded("flac", "flac", sine(1.0, 48_000), 48_000),
    "aiff": lambda: encoded("aiff", "pcm_s16be", sine(1.0, 48_000), 48_000),
    "flv": lambda: encoded("flv", "aac", sine(1.0, 44_100), 44_100),
}


@pytest.mark.parametrize("second", [kind for kind in KINDS if kind != "flac"])
@pytest.mark.parametrize("first", KINDS)
def test_files_of_different_kinds_in_one_are_all_heard(first, second):
    data = [KINDS[kind]() for kind in (first, second, "wav")]
    assert abs(decode_audio(b"".join(data)).duration_s - 3.0) < 0.25


FRAMED = {
    container: encoded(container, codec, sine(1.0, 44_100), 44_100)
    for container, codec in [
        ("mp4", "aac"),
        ("matroska", "flac"),
        ("ogg", "flac"),
        ("flv", "aac"),
        ("au", "pcm_s16be"),
        ("caf", "pcm_s16be"),
        ("w64", "pcm_s16le"),
        ("tta", "tta"),
        ("voc", "pcm_s16le"),
        ("avi", "libmp3lame"),
        ("asf", "libmp3lame"),
    ]
}
"""Kinds whose own structure tells where they end."""
STREAMS = {
    container: encoded(container, codec, sine(1.0, 44_100), 44_100)
    for container, codec in [
        ("mp3", "libmp3lame"),
        ("flac", "flac"),
        ("adts", "aac"),
        ("wv", "wavpack"),
        ("nut", "aac"),
    ]
}
"""Kinds that tell it by the beginning of the next one only."""


@pytest.mark.parametrize("first", [*FRAMED, *STREAMS])
def test_whatever_kind_lies_behind_a_file_is_heard(first):
    files = FRAMED | STREAMS
    behind = [kind for kind in files if kind != first and (first in FRAMED or kind not in ("mp3", "adts"))]
    assert abs(decode_audio(files[first] + b"".join(files[kind] for kind in behind[::2])).duration_s - 1) > 4
    for second in behind[1::2]:
        assert abs(decode_audio(files[first] + files[second]).duration_s - 2.0) < 0.15, second


@pytest.mark.parametrize("first", FRAMED)
def test_what_no_format_matches_is_refused_behind_every_kind_that_has_an_end(first):
    data, rest = FRAMED[first], b"This is no sound. " * 20
    with pytest.raises(
        AudioUnreadableError, match=f"{len(rest)} bytes behind the end of the sound, at byte {len(data)}"
    ):
        decode_audio(data + rest)
    for nothing in (bytes(700), b"TAG" + bytes(125), b"\r\n"):
        assert abs(decode_audio(data + nothing).duration_s - 1.0) < 0.1


@pytest.mark.parametrize("first", ["ogg", "matroska"])
def test_damage_in_the_middle_ends_no_file(first):
    data = bytearray(
        encoded(first, "flac", sine(3.0, 44_100) + 0.1 * np.float32(np.random.default_rng(1).normal()), 44_100)
    )
    data[len(data) // 2 : len(data) // 2 + 300] = b"\x07" * 300
    assert [(part.start, part.end) for part in parts_of(io.BytesIO(data))] == [(0, len(data))]


def test_a_live_recording_of_unknown_length_ends_where_another_file_begins():
    data = FRAMED["matroska"]
    at = data.index(b"\x18\x53\x80\x67") + 4
    live = data[:at] + b"\x01" + b"\xff" * 7 + data[at + 8 :]
    assert abs(decode_audio(live + STREAMS["adts"] + live).duration_s - 3.0) < 0.15


def test_an_id3_cover_that_holds_a_file_is_no_sound():
    """Tags are stepped over, whatever their pictures look like."""
    tag = id3(b"\0image/jpeg\0\x03\0" + FRAMED["caf"] + KINDS["wav"]())
    assert abs(decode_audio(tag + STREAMS["mp3"]).duration_s - 1.0) < 0.1
    assert abs(decode_audio(STREAMS["flac"] + tag + STREAMS["adts"]).duration_s - 2.0) < 0.15


def id3(cover):
    frame = b"APIC" + len(cover).to_bytes(4, "big") + b"\0\0" + cover
    return b"ID3\x03\0\0" + bytes(len(frame) >> shift & 0x7F for shift in (21, 14, 7, 0)) + frame


@pytest.mark.parametrize("kind", ["mp3", "wav", "mp4", "flac", "adts"])
@pytest.mark.parametrize("tags", [1, 2, 3])
def test_tags_in_front_are_stepped_over(kind, tags):
    data = (STREAMS | FRAMED | {"wav": KINDS["wav"]()})[kind]
    assert abs(decode_audio(id3(bytes(20_000)) * tags + data).duration_s - 1.0) < 0.1


@pytest.mark.parametrize("first", ["wav", "mp3", "aiff", "mp4"])
@pytest.mark.parametrize("behind", [b"", bytes(700), b"TAG" + bytes(125)])
def test_a_tag_alone_is_no_file(first, behind):
    tag = b"ID3\x04\0\0\0\0\0\x15TIT2\0\0\0\x0b\0\0\x03Only words"
    assert abs(decode_audio(KINDS[first]() + tag + behind).duration_s - 1.0) < 0.1


def with_valid_bits(samples, bits, valid, channels=1):
    """WAVE_FORMAT_EXTENSIBLE: samples of -1..1 whose upper `valid` bits count."""
    levels = np.round(samples.astype(np.float64) * (2 ** (valid - 1) - 1)).astype(np.int64) << (bits - valid)
    body = levels.astype("<i8").reshape(-1, 1).view(np.uint8)[:, : bits // 8].tobytes()
    align = channels * bits // 8
    head = struct.pack("<HHIIHHHHI", 0xFFFE, channels, 16_000, 16_000 * align, align, bits, 22, valid, 0)
    head += b"\1\0\0\0\0\0\x10\0\x80\0\0\xaa\0\x38\x9b\x71"
    chunks = (
        b"JUNK\3\0\0\0abc\0fmt " + struct.pack("<I", len(head)) + head + b"data" + struct.pack("<I", len(body)) + body
    )
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


@pytest.mark.parametrize("bits,valid", [(32, 24), (32, 20), (32, 16), (32, 32), (24, 20), (24, 24), (16, 12)])
@pytest.mark.parametrize("channels", [1, 2])
def test_samples_of_which_only_the_upper_bits_are_valid(bits, valid, channels):
    data = with_valid_bits(sine(1.0, channels=channels), bits, valid, channels)
    for count in (1, 2):
        decoded = decode_audio(data * count)
        np.testing.assert_allclose(decoded.pcm, np.tile(sine(1.0), count), atol=1e-3)


def test_one_file_is_one_part():
    for container, codec, rate_hz, _ in CHAINS:
        data = encoded(container, codec, sine(1.0, rate_hz), rate_hz)
        assert [(part.start, part.end) for part in parts_of(io.BytesIO(data))] == [(0, len(data))], container
    assert len(parts_of(io.BytesIO(timed("ogg", "libopus", 48_000, lambda _: 0.0)))) == 1


def test_damaged_chains_never_escape_as_another_error():
    rng = np.random.default_rng(5)
    corpus = [encoded(c, k, sine(0.2, r), r) * 2 for c, k, r, _ in CHAINS] + [
        data for data, s in JOINED.values() if s < 5
    ]
    for _ in range(80):
        data = bytearray(corpus[rng.integers(len(corpus))])
        for _ in range(rng.integers(1, 12)):
            data[rng.integers(len(data))] = rng.integers(256)
        try:
            pcm = decode_audio(bytes(data), AudioLimits(max_seconds=20)).pcm
        except AudioInputError:
            continue
        assert np.isfinite(pcm).all() and np.abs(pcm).max() <= 1
