import io
import math
import pickle
import struct
import zipfile

import numpy as np
import pytest
from PIL import Image

from pipeline.media.audio_errors import (
    AudioEmptyError,
    AudioInputError,
    AudioNoStreamError,
    AudioTooLargeError,
    AudioTooLongError,
    AudioUnreadableError,
    AudioUnsupportedError,
)
from pipeline.media.audio_in import AudioLimits, decode_audio
from tests.support.media_samples import encoded, silent_video, sine, video_with_sound, wav


@pytest.mark.parametrize("n", [1, 2, 639, 640, 641, 16_000])
def test_samples_at_16_khz_come_out_as_they_went_in(n):
    samples = np.random.default_rng(n).uniform(-1, 1, n).astype(np.float32)
    decoded = decode_audio(wav(samples))
    np.testing.assert_array_equal(decoded.pcm, samples)
    np.testing.assert_array_equal(decoded.voice.samples[:, 0], samples)
    assert decoded.voice.rate_hz == 16_000 and decoded.duration_s == n / 16_000


@pytest.mark.parametrize("rate_hz", [8_000, 11_025, 22_050, 37_800, 44_100, 48_000, 96_000, 192_000])
@pytest.mark.parametrize("n", [1, 3, 100, 4_801])
def test_any_rate_gives_the_exact_count(rate_hz, n):
    decoded = decode_audio(wav(np.full(n, 0.25, np.float32), rate_hz))
    assert abs(len(decoded.pcm) - n * 16_000 / rate_hz) <= 1
    voice = decoded.voice
    assert abs(len(voice.samples) - n * voice.rate_hz / rate_hz) <= 1
    assert voice.rate_hz == (rate_hz if rate_hz in (8_000, 11_025, 22_050, 44_100, 48_000) else 48_000)


@pytest.mark.parametrize("channels", range(1, 9))
def test_channels_are_averaged_without_gain(channels):
    decoded = decode_audio(wav(np.full((4_800, channels), 0.5, np.float32), 48_000))
    assert np.abs(decoded.pcm[200:-200] - 0.5).max() < 1e-3
    assert decoded.voice.samples.shape[1] == (2 if channels == 2 else 1)


def test_a_stereo_voice_keeps_its_channels():
    both = np.stack([np.full(4_800, 0.5), np.full(4_800, -0.25)], axis=1).astype(np.float32)
    decoded = decode_audio(wav(both, 48_000))
    np.testing.assert_allclose(decoded.voice.samples, both, atol=1e-6)
    assert abs(decoded.pcm[800] - 0.125) < 1e-3


def test_an_inverted_channel_does_not_silence_the_speech():
    left = sine(0.5, 48_000)
    inverted = decode_audio(wav(np.stack([left, -left], axis=1), 48_000))
    np.testing.assert_allclose(inverted.pcm, decode_audio(wav(left, 48_000)).pcm, atol=1e-6)
    one_sided = decode_audio(wav(np.stack([left, 0 * left], axis=1), 48_000))
    np.testing.assert_allclose(one_sided.pcm, inverted.pcm, atol=1e-6)


@pytest.mark.parametrize("dtype,scale", [(np.int16, 32_768), (np.int32, 2**31), (np.uint8, 128)])
def test_integer_samples_are_scaled_by_their_full_scale(dtype, scale):
    values = np.array([-0.5, 0.0, 0.5])
    raw = np.round(values * scale + (128 if dtype == np.uint8 else 0)).astype(dtype)
    np.testing.assert_allclose(decode_audio(wav(raw)).pcm, values, atol=1e-6)


def test_nan_and_infinity_become_silence_and_loud_floats_are_clipped():
    samples = sine(0.1)
    samples[100:200] = np.nan
    samples[300], samples[301], samples[302], samples[303] = np.inf, -np.inf, 1e30, -7.0
    pcm = decode_audio(wav(samples)).pcm
    assert np.isfinite(pcm).all() and not pcm[100:200].any()
    assert pcm[300] == 0 and pcm[301] == 0 and pcm[302] == 1 and pcm[303] == -1


def test_resampled_full_scale_stays_within_range():
    square = np.sign(sine(0.2, 44_100, 300.0)).astype(np.float32)
    decoded = decode_audio(wav(square, 44_100))
    assert np.abs(decoded.pcm).max() <= 1.0


CODECS = [
    ("mp3", "libmp3lame", 16_000),
    ("flac", "flac", 16_000),
    ("ogg", "libopus", 48_000),
    ("adts", "aac", 44_100),
    ("mp4", "aac", 44_100),
    ("webm", "libopus", 48_000),
    ("aiff", "pcm_s16be", 16_000),
    ("au", "pcm_mulaw", 8_000),
    ("caf", "alac", 44_100),
    ("w64", "pcm_s24le", 48_000),
    ("avi", "ac3", 48_000),
    ("mpegts", "mp2", 48_000),
    ("mov", "pcm_s16le", 16_000),
    ("tta", "tta", 44_100),
]


@pytest.mark.parametrize("container,codec,rate_hz", CODECS)
def test_common_formats_are_read(container, codec, rate_hz):
    decoded = decode_audio(encoded(container, codec, sine(0.5, rate_hz), rate_hz))
    assert abs(len(decoded.pcm) - 8_000) < 1_200, "codecs may pad by a frame"
    middle = decoded.pcm[2_000:6_000].astype(np.float64)
    assert abs(math.sqrt(2 * (middle**2).mean()) - 0.5) < 0.03
    spectrum = np.abs(np.fft.rfft(middle))
    assert abs(np.argmax(spectrum) * 16_000 / 4_000 - 440) <= 4


def test_sound_is_taken_out_of_a_video():
    assert abs(decode_audio(video_with_sound(sine(0.5, 44_100))).duration_s - 0.5) < 0.06


def test_a_change_of_rate_and_layout_in_the_middle_is_followed():
    first = encoded("adts", "aac", sine(0.5, 44_100), 44_100)
    second = encoded("adts", "aac", sine(0.5, 22_050, channels=2), 22_050, "stereo")
    decoded = decode_audio(first + second)
    assert abs(decoded.duration_s - 1.0) < 0.2
    assert decoded.voice.rate_hz == 44_100 and decoded.voice.samples.shape[1] == 1
    assert abs(len(decoded.voice.samples) / 44_100 - decoded.duration_s) < 0.001
    tail = decoded.pcm[-4_000:-2_000].astype(np.float64)
    assert abs(math.sqrt(2 * (tail**2).mean()) - 0.5) < 0.05


class Unseekable(io.RawIOBase):
    def __init__(self, data):
        self._data = io.BytesIO(data)

    def readable(self):
        return True

    def read(self, size=-1):
        return self._data.read(size)


def test_every_kind_of_source_is_read(tmp_path):
    data = wav(sine(0.1))
    path = tmp_path / "speech.wav"
    path.write_bytes(data)
    half_read = io.BytesIO(data)
    half_read.seek(500)
    for source in (data, bytearray(data), memoryview(data), path, str(path), half_read, Unseekable(data)):
        assert len(decode_audio(source).pcm) == 1_600


def test_limits_are_enforced():
    three_seconds = wav(sine(3.0))
    assert decode_audio(three_seconds, AudioLimits(max_seconds=3.0)).duration_s == 3.0
    with pytest.raises(AudioTooLongError, match=r"2\.9 s"):
        decode_audio(three_seconds, AudioLimits(max_seconds=2.9))
    for source in (three_seconds, io.BytesIO(three_seconds), Unseekable(three_seconds)):
        with pytest.raises(AudioTooLargeError, match="1000 bytes"):
            decode_audio(source, AudioLimits(max_bytes=1_000))


def test_a_small_file_that_decodes_to_an_hour_is_stopped_at_the_limit():
    long_silence = encoded("flac", "flac", np.zeros(8_000 * 1_300, np.float32), 8_000)
    assert len(long_silence) < 500_000
    with pytest.raises(AudioTooLongError, match="600 s"):
        decode_audio(long_silence)


def patched(data, offset, fmt, value):
    out = bytearray(data)
    struct.pack_into(fmt, out, offset, value)
    return bytes(out)


def picture(kind):
    buffer = io.BytesIO()
    Image.new("RGB", (32, 32)).save(buffer, kind)
    return buffer.getvalue()


def zipped(name, content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def truncated(data, share):
    return data[: int(len(data) * share)]


SPEECH = wav(sine(0.2))
SDP = b"v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=x\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 5004 RTP/AVP 0\r\n"
HOSTILE = {
    "no bytes": (b"", AudioEmptyError),
    "one byte": (b"R", AudioUnreadableError),
    "text named wav": (b"These are words, not sound.\n" * 200, AudioUnreadableError),
    "html": (b"<html><body>404</body></html>", AudioUnreadableError),
    "json": (b'{"a": 1}' * 100, AudioUnreadableError),
    "svg": (b'<svg xmlns="http://www.w3.org/2000/svg"></svg>', AudioUnreadableError),
    "zeros": (bytes(50_000), AudioUnreadableError),
    "ones": (b"\xff" * 50_000, AudioUnreadableError),
    "random": (np.random.default_rng(0).bytes(50_000), AudioUnreadableError),
    "zip of wav": (zipped("a.wav", SPEECH), AudioUnreadableError),
    "zip of mp3": (zipped("a.mp3", encoded("mp3", "libmp3lame", sine(0.5), 16_000)), AudioUnreadableError),
    "png": (picture("PNG"), AudioUnreadableError),
    "jpeg": (picture("JPEG"), AudioUnreadableError),
    "gif": (picture("GIF"), AudioUnreadableError),
    "playlist": (b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/hostname\n", AudioUnreadableError),
    "concat script": (b"ffconcat version 1.0\nfile 'speech.wav'\n", AudioUnreadableError),
    "sdp": (SDP, AudioUnreadableError),
    "riff only": (b"RIFF", AudioUnreadableError),
    "half a header": (SPEECH[:30], AudioUnreadableError),
    "header only": (wav(np.zeros(0, np.float32)), AudioEmptyError),
    "rate 0": (patched(SPEECH, 24, "<I", 0), AudioUnreadableError),
    "rate 4 GHz": (patched(SPEECH, 24, "<I", 0xFFFFFFFF), AudioUnreadableError),
    "rate 4 kHz": (wav(sine(0.1, 4_000), 4_000), AudioUnsupportedError),
    "rate 384 kHz": (wav(sine(0.1, 384_000), 384_000), AudioUnsupportedError),
    "no channels": (patched(SPEECH, 22, "<H", 0), AudioUnreadableError),
    "65535 channels": (patched(SPEECH, 22, "<H", 65_535), AudioUnreadableError),
    "9 channels": (wav(np.zeros((100, 9), np.float32)), AudioUnsupportedError),
    "half an mp4": (truncated(encoded("mp4", "aac", sine(0.5, 44_100), 44_100), 0.5), AudioUnreadableError),
    "flac of a header": (encoded("flac", "flac", sine(0.5), 16_000)[:60], AudioInputError),
    "opus of a header": (encoded("ogg", "libopus", sine(0.5, 48_000), 48_000)[:100], AudioInputError),
    "video without sound": (silent_video(), AudioNoStreamError),
    "no such file": ("/nonexistent/speech.wav", AudioUnreadableError),
    "a folder": ("/", AudioUnreadableError),
    "a device": ("/dev/zero", AudioUnreadableError),
    "a url": ("http://127.0.0.1:9/speech.wav", AudioUnreadableError),
    "a name with NUL": ("a\0b", AudioUnreadableError),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_input_is_refused_with_a_reason(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "speech.wav").write_bytes(SPEECH)
    source, expected = HOSTILE[name]
    with pytest.raises(expected) as caught:
        decode_audio(source)
    error = caught.value
    assert error.field == "audio" and error.code.startswith("audio_")
    assert "\n" not in str(error) and len(str(error)) < 400


HARMLESS = {
    "header claims 4 GB": (patched(SPEECH, len(SPEECH) - 3_200 * 4 - 4, "<I", 0xFFFFFFFF), 3_200),
    "cut in the data": (SPEECH[: len(SPEECH) - 6_400], 1_600),
    "cut inside a sample": (SPEECH[: len(SPEECH) - 6_398], 1_600),
    "block size 0": (patched(SPEECH, 32, "<H", 0), 3_200),
}


@pytest.mark.parametrize("name", HARMLESS)
def test_wrong_claims_in_a_header_do_no_harm(name):
    data, samples = HARMLESS[name]
    assert len(decode_audio(data).pcm) == samples


def test_mutated_files_never_escape_as_another_error():
    rng = np.random.default_rng(11)
    corpus = [encoded(c, k, sine(0.2, r), r) for c, k, r in CODECS]
    for _ in range(400):
        data = bytearray(corpus[rng.integers(len(corpus))])
        for _ in range(rng.integers(1, 12)):
            data[rng.integers(min(len(data), 600))] = rng.integers(256)
        try:
            pcm = decode_audio(bytes(data), AudioLimits(max_seconds=20)).pcm
        except AudioInputError:
            continue
        assert pcm.dtype == np.float32 and len(pcm) and np.isfinite(pcm).all() and np.abs(pcm).max() <= 1


def test_errors_survive_pickling():
    error = AudioTooLongError("700 s", "at most 600 s", "Too long.")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert type(copy) is AudioTooLongError and str(copy) == str(error) and copy.field == "audio"
