import io
from fractions import Fraction
from pathlib import Path
from xml.etree import ElementTree

import av
import numpy as np
import pytest

from kernels.errors import InvalidInputError, ShapeError
from pipeline.config import EncoderSettings
from pipeline.media.audio_in import AudioTrack, decode_audio
from pipeline.media.encoder import EncoderError, VideoFormat, standalone_context
from pipeline.media.encoder_select import EncoderSelector
from pipeline.media.fragmented_mp4 import FragmentedMp4Writer
from pipeline.media.mp4 import MemoryMp4Writer, PathMp4Writer
from pipeline.media.mp4_pieces import PiecewiseMp4Writer
from pipeline.media.muxing import MuxingError
from pipeline.media.provenance import COMMENT, SOURCE_TYPE
from tests.support.media_samples import moving_canvas, sine, wav

SETTINGS = EncoderSettings(prefer="x264")
WRITERS = [MemoryMp4Writer, FragmentedMp4Writer]


def tone(n, rate_hz=16_000, channels=1):
    return AudioTrack(np.repeat(sine(n / rate_hz, rate_hz)[:n, None], channels, axis=1), rate_hz)


def frames_for(track, fps):
    return int(-(-len(track.samples) * Fraction(fps) // track.rate_hz))


def made(writer, frames):
    return b"".join([*(writer.write(moving_canvas(i)) for i in range(frames)), writer.finish()])


def boxes(data):
    names, position = [], 0
    while position < len(data):
        size = int.from_bytes(data[position : position + 4], "big")
        names.append(data[position + 4 : position + 8].decode())
        position += size
    return names


def decoded_sound(data):
    frames = list(av.open(io.BytesIO(data)).decode(audio=0))
    return np.concatenate([frame.to_ndarray() for frame in frames], axis=1), frames[0]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("fps", [25, 50, Fraction(60_000, 1_001)])
@pytest.mark.parametrize(
    "n,rate_hz", [(1, 16_000), (639, 16_000), (640, 16_000), (641, 16_000), (70_001, 44_100), (8_000, 8_000)]
)
def test_picture_and_sound_have_exactly_their_lengths(writer, fps, n, rate_hz):
    track = tone(n, rate_hz)
    count = frames_for(track, fps)
    data = made(writer(VideoFormat(96, 64, fps), track, SETTINGS), count)
    with av.open(io.BytesIO(data)) as file:
        video, sound = file.streams.video[0], file.streams.audio[0]
        assert video.average_rate == fps and video.start_time == 0 and sound.start_time == 0
        assert video.duration * video.time_base == count / Fraction(fps)
        times = [frame.pts * frame.time_base for frame in file.decode(video=0)]
        assert times == [i / Fraction(fps) for i in range(count)]
        sound_s = sound.duration * sound.time_base
        whole_s = Fraction(file.duration, 1_000_000)
    if writer is MemoryMp4Writer:
        assert sound_s == Fraction(n, rate_hz)
        assert abs(whole_s - max(count / Fraction(fps), sound_s)) <= Fraction(1, 1_000)
    else:
        assert 0 <= sound_s - Fraction(n, rate_hz) <= Fraction(1024 + 1, 44_100), "priming counts in fragments"
    samples, first = decoded_sound(data)
    assert 0 <= samples.shape[1] / first.sample_rate - n / rate_hz < 1024 / rate_hz


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("rate_hz", [16_000, 48_000])
def test_a_click_is_where_it_was_and_the_picture_starts_at_zero(writer, rate_hz):
    samples = np.zeros((2 * rate_hz, 1), np.float32)
    samples[rate_hz * 3 // 4] = 0.9
    data = made(writer(VideoFormat(96, 64, 25), AudioTrack(samples, rate_hz), SETTINGS), 50)
    sound, first = decoded_sound(data)
    peak_s = first.time + np.argmax(np.abs(sound[0])) / first.sample_rate
    assert abs(peak_s - 0.75) <= 2 / rate_hz


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("channels", [1, 2])
def test_the_voice_is_carried_at_its_level(writer, channels):
    track = tone(48_000, 48_000, channels)
    sound, _ = decoded_sound(made(writer(VideoFormat(96, 64, 25), track, SETTINGS), 25))
    assert sound.shape[0] == channels
    rms = np.sqrt((sound[:, 5_000:40_000].astype(np.float64) ** 2).mean())
    assert abs(rms * np.sqrt(2) - 0.5) < 0.01


def test_the_memory_file_has_its_index_first_and_decodes_to_the_pictures():
    data = made(MemoryMp4Writer(VideoFormat(96, 64, 25), tone(16_000), SETTINGS), 25)
    names = boxes(data)
    assert names[0] == "ftyp" and names.index("moov") < names.index("mdat")
    with av.open(io.BytesIO(data)) as file:
        for i, frame in enumerate(file.decode(video=0)):
            difference = frame.to_ndarray()[:64].astype(int) - moving_canvas(i).y_plane
            assert np.abs(difference).mean() < 2


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("colour,code", [("bt709", 1), ("bt601", 6)])
def test_colours_are_tagged_in_the_container_and_the_stream(writer, colour, code):
    data = made(writer(VideoFormat(96, 64, 25, colour), None, SETTINGS), 3)
    assert b"colrnclx" + code.to_bytes(2, "big") * 3 in data
    with av.open(io.BytesIO(data)) as file:
        assert not file.streams.audio
        frame = next(file.decode(video=0))
    assert (frame.colorspace, frame.color_primaries, frame.color_trc, frame.color_range) == (code, code, code, 1)


def test_fragments_arrive_while_the_file_is_made_and_the_first_bytes_decode():
    writer = FragmentedMp4Writer(VideoFormat(96, 64, 25), tone(32_000), SETTINGS)
    parts = [writer.write(moving_canvas(i)) for i in range(50)]
    first = next(i for i, part in enumerate(parts) if part)
    assert first <= 6
    with av.open(io.BytesIO(parts[first])) as file:
        pictures = sum(1 for _ in file.decode(video=0))
    assert pictures >= first - 1 >= 1
    assert sum(1 for part in parts if part) >= 8, "a fragment every 200 ms"
    rest = writer.finish()
    assert boxes(b"".join([*parts, rest]))[:4] == ["ftyp", "moov", "moof", "mdat"]


def test_every_prefix_of_whole_fragments_decodes_with_both_streams():
    writer = FragmentedMp4Writer(VideoFormat(96, 64, 25), tone(32_000), EncoderSettings(prefer="x264", fragment_ms=40))
    received, seen = b"", 0
    for i in range(50):
        part = writer.write(moving_canvas(i))
        received += part
        if part and i % 10 == 0:
            with av.open(io.BytesIO(received)) as file:
                now = sum(1 for _ in file.decode(video=0))
            assert now > seen and now <= i + 1
            seen = now
            assert decoded_sound(received)[0].shape[1] > 0


def test_closed_gops_of_one_second_can_be_entered_anywhere():
    data = made(MemoryMp4Writer(VideoFormat(96, 64, 50), None, SETTINGS), 120)
    with av.open(io.BytesIO(data)) as file:
        packets = [p for p in file.demux(video=0) if p.size]
    assert [i for i, p in enumerate(packets) if p.is_keyframe] == [0, 50, 100]


def test_nothing_touches_the_disk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for writer in WRITERS:
        made(writer(VideoFormat(96, 64, 25), tone(640), SETTINGS), 1)
    assert list(tmp_path.iterdir()) == []


def test_a_path_appears_complete_at_the_end_only(tmp_path):
    path = tmp_path / "presenter talk.mp4"
    writer = PathMp4Writer(path, VideoFormat(96, 64, 25), tone(16_000), SETTINGS)
    for i in range(25):
        assert writer.write(moving_canvas(i)) == b""
    assert not path.exists()
    assert writer.finish() == b""
    assert list(tmp_path.iterdir()) == [path]
    assert boxes(path.read_bytes())[:2] == ["ftyp", "moov"]
    assert decode_audio(path).duration_s == pytest.approx(1.0, abs=0.07)


def test_an_abandoned_path_leaves_nothing_and_keeps_what_was_there(tmp_path):
    path = tmp_path / "a.mp4"
    path.write_bytes(b"precious")
    with PathMp4Writer(path, VideoFormat(96, 64, 25), None, SETTINGS) as writer:
        writer.write(moving_canvas(0))
    assert list(tmp_path.iterdir()) == [path] and path.read_bytes() == b"precious"
    with pytest.raises(InvalidInputError, match="level"):
        PathMp4Writer(path, VideoFormat(4096, 4096, 120), None, SETTINGS)
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(MuxingError, match="cannot write"):
        PathMp4Writer(tmp_path / "no" / "a.mp4", VideoFormat(96, 64, 25), None, SETTINGS)


@pytest.mark.parametrize("writer", WRITERS)
def test_misuse_is_named(writer):
    with pytest.raises(MuxingError, match="at least one picture"):
        writer(VideoFormat(96, 64, 25), tone(640), SETTINGS).finish()
    finished = writer(VideoFormat(96, 64, 25), None, SETTINGS)
    made(finished, 1)
    finished.close()
    for call in (finished.finish, lambda: finished.write(moving_canvas(0))):
        with pytest.raises(MuxingError, match="finished"):
            call()
    open_writer = writer(VideoFormat(96, 64, 25), None, SETTINGS)
    with pytest.raises(ShapeError):
        open_writer.write(moving_canvas(0, 64, 64))
    open_writer.close()
    open_writer.close()


@pytest.mark.parametrize(
    "track,error",
    [
        (AudioTrack(np.zeros((0, 1), np.float32), 16_000), InvalidInputError),
        (AudioTrack(np.zeros((9, 1), np.float32), 37_800), InvalidInputError),
        (AudioTrack(np.zeros((9, 3), np.float32), 16_000), ShapeError),
        (AudioTrack(np.zeros(9, np.float32), 16_000), ShapeError),
        (AudioTrack(np.zeros((9, 1), np.float64), 16_000), ShapeError),
    ],
)
def test_impossible_voices_are_refused(track, error):
    with pytest.raises(error, match="voice"):
        MemoryMp4Writer(VideoFormat(96, 64, 25), track, SETTINGS)


@pytest.mark.parametrize("writer", WRITERS)
def test_a_voice_with_nan_and_overload_makes_a_clean_file(writer):
    samples = sine(1.0)[:, None].copy()
    samples[1_000:2_000] = np.nan
    samples[3_000] = np.inf
    samples[4_000:4_100] = 50.0
    sound, _ = decoded_sound(made(writer(VideoFormat(96, 64, 25), AudioTrack(samples, 16_000), SETTINGS), 25))
    assert np.isfinite(sound).all() and np.abs(sound).max() < 2


@pytest.mark.parametrize("writer", WRITERS)
def test_more_pictures_than_voice_and_more_voice_than_pictures(writer):
    long_picture = made(writer(VideoFormat(96, 64, 25), tone(16_000), SETTINGS), 60)
    long_voice = made(writer(VideoFormat(96, 64, 25), tone(48_000), SETTINGS), 10)
    for data, frames, seconds in ((long_picture, 60, 1.0), (long_voice, 10, 3.0)):
        with av.open(io.BytesIO(data)) as file:
            assert sum(1 for _ in file.decode(video=0)) == frames
        sound, first = decoded_sound(data)
        assert sound.shape[1] / first.sample_rate == pytest.approx(seconds, abs=0.07)


@pytest.mark.parametrize("writer", WRITERS)
def test_when_nvenc_does_not_open_the_file_is_made_by_x264(writer, monkeypatch):
    def refuses(*arguments):
        raise EncoderError("no session left")

    monkeypatch.setattr("pipeline.media.encoder_select.open_nvenc", refuses)
    selector = EncoderSelector(lambda: None)
    data = made(writer(VideoFormat(96, 64, 25), tone(16_000), EncoderSettings(), selector), 25)
    with av.open(io.BytesIO(data)) as file:
        assert len(file.streams.video) == 1 and sum(1 for _ in file.decode(video=0)) == 25


def test_a_standalone_context_of_an_unknown_codec_is_an_encoder_error():
    with pytest.raises(EncoderError, match="not part"):
        standalone_context("h264_of_the_future")


def test_the_decoded_file_gives_back_the_speech():
    speech = sine(1.0, 16_000, 300.0, 0.4)
    original = decode_audio(wav(speech))
    data = made(MemoryMp4Writer(VideoFormat(96, 64, 25), original.voice, SETTINGS), 25)
    again = decode_audio(data).pcm[: len(speech)]
    assert np.abs(again[500:-500] - speech[500:-500]).max() < 0.05


@pytest.mark.parametrize("frames", [1, 25, 400])
def test_a_known_length_keeps_the_index_in_front_without_moving_the_file(frames: int, tmp_path: Path) -> None:
    voice = tone(frames * 640)
    data = made(MemoryMp4Writer(VideoFormat(96, 64, 25), voice, SETTINGS, frames=frames), frames)
    assert 0 < data.index(b"moov") < data.index(b"mdat")
    with av.open(io.BytesIO(data)) as container:
        assert sum(1 for _ in container.decode(video=0)) == frames
    path = tmp_path / "same.mp4"
    made(PathMp4Writer(path, VideoFormat(96, 64, 25), voice, SETTINGS, frames=frames), frames)
    assert path.read_bytes() == data, "in memory and on disk the file is the same"
    moved = made(MemoryMp4Writer(VideoFormat(96, 64, 25), voice, SETTINGS), frames)
    with av.open(io.BytesIO(moved)) as one, av.open(io.BytesIO(data)) as two:
        assert [bytes(p) for p in one.demux()] == [bytes(p) for p in two.demux()]


@pytest.mark.parametrize("frames", [1, 25, 400])
@pytest.mark.parametrize("with_voice", [False, True])
def test_a_file_that_leaves_in_pieces_is_the_same_file(frames: int, with_voice: bool) -> None:
    voice = tone(frames * 640) if with_voice else None
    look = VideoFormat(96, 64, 25)
    whole = made(MemoryMp4Writer(look, voice, SETTINGS, frames=frames), frames)
    writer = PiecewiseMp4Writer(look, voice, SETTINGS, frames)
    parts = [writer.write(moving_canvas(i)) for i in range(frames)]
    body = b"".join(parts) + writer.finish()
    assert writer.front + body == whole
    assert len(writer.front) == min(writer.front_bytes, len(whole))
    if frames == 400:
        assert sum(map(len, parts)) > 0.5 * len(body), "most of it left before the end"


@pytest.mark.parametrize("kind", [*WRITERS, PiecewiseMp4Writer, PathMp4Writer])
@pytest.mark.parametrize("frames", [1, 60])
def test_every_file_says_that_it_is_computed(kind, frames: int, tmp_path: Path) -> None:
    voice, look = tone(frames * 640), VideoFormat(96, 64, 25)
    if kind is PathMp4Writer:
        made(PathMp4Writer(tmp_path / "a.mp4", look, voice, SETTINGS, frames=frames), frames)
        data = (tmp_path / "a.mp4").read_bytes()
    elif kind is PiecewiseMp4Writer:
        writer = PiecewiseMp4Writer(look, voice, SETTINGS, frames)
        body = made(writer, frames)
        data = writer.front + body
    else:
        data = made(kind(look, voice, SETTINGS), frames)
    with av.open(io.BytesIO(data)) as file:
        assert file.metadata["comment"] == COMMENT
        assert sum(1 for _ in file.decode(video=0)) == frames
    if kind is FragmentedMp4Writer:
        assert boxes(data)[-1] == "mfra", "a stream ends with the list of its fragments"
        return
    assert boxes(data)[-1] == "uuid" and boxes(data).count("uuid") == 1
    packet = data[data.rindex(b"<x:xmpmeta") : data.rindex(b"<?xpacket end")]
    tree = ElementTree.fromstring(packet)  # noqa: S314  # our own
    [described] = tree.iter("{http://www.w3.org/1999/02/22-rdf-syntax-ns#}Description")
    assert described.get("{http://iptc.org/std/Iptc4xmpExt/2008-02-29/}DigitalSourceType") == SOURCE_TYPE


def test_bytes_that_have_left_cannot_be_written_again() -> None:
    sink = PiecewiseMp4Writer(VideoFormat(96, 64, 25), None, SETTINGS, 1)._new_sink()
    sink.write(bytes(sink._front_bytes + 10))
    sink.seek(sink._front_bytes + 5)
    with pytest.raises(OSError, match="cannot be written again"):
        sink.write(b"x")
