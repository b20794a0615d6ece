"""Where among several channels the voice is, what sample values mean, and how loud the networks hear it."""

import io
from fractions import Fraction

import av
import numpy as np
import pytest
from scipy.signal import butter, sosfilt

from pipeline.config import SilenceSettings
from pipeline.media.audio_errors import AudioUnsupportedError
from pipeline.media.audio_in import decode_audio
from pipeline.media.downmix import RunningMix
from pipeline.media.loudness import COMFORTABLE_LUFS, NETWORK_LUFS, VOICE_LUFS, integrated_lufs
from pipeline.media.running_level import RunningLevel
from pipeline.session.silence import SilenceGate, frame_rms
from tests.support.media_samples import encoded, sine, wav
from tests.support.paths import ROOT


def speech(seconds=3.0, rate_hz=16_000, seed=0, dbfs=-20.0):
    """Noise in the band and with the rhythm of a voice: syllables of 200 ms, a pause every second. RMS as asked."""
    rng = np.random.default_rng(seed)
    count = round(seconds * rate_hz)
    band = butter(2, (300, 2_500), "bandpass", fs=rate_hz, output="sos")
    time_s = np.arange(count) / rate_hz
    rhythm = np.maximum(np.sin(2 * np.pi * 2.5 * time_s), 0.02) * np.where(time_s % 1.0 < 0.7, 1.0, 0.003)
    wave = sosfilt(band, rng.normal(size=count)) * rhythm
    return (wave * 10 ** (dbfs / 20) / wave.std()).astype(np.float32)


def level_db(samples):
    return 20 * np.log10(np.sqrt(np.square(samples, dtype=np.float64).mean()) + 1e-9)


VOICE = speech()
NOISE = [speech(seed=7 + i, dbfs=-55) for i in range(8)]


def among(channels, place, voice=VOICE):
    """The voice in one of several channels, something very quiet in the others."""
    return np.stack([voice if i == place else NOISE[i] for i in range(channels)], axis=1)


@pytest.mark.parametrize("channels", range(2, 9))
def test_a_voice_in_one_of_many_channels_is_as_loud_as_it_was(channels):
    for place in {0, channels // 2, channels - 1}:
        decoded = decode_audio(wav(among(channels, place)))
        assert abs(level_db(decoded.pcm) - level_db(VOICE)) < 0.5
        assert np.corrcoef(decoded.pcm, VOICE)[0, 1] > 0.99
        if channels > 2:
            np.testing.assert_allclose(decoded.voice.samples[:, 0], decoded.pcm, atol=1e-6)


@pytest.mark.parametrize(
    "codec,container", [("flac", "flac"), ("ac3", "matroska"), ("aac", "mp4"), ("pcm_s16le", "wav")]
)
@pytest.mark.parametrize("place", range(6))
def test_surround_with_the_voice_in_any_place(codec, container, place):
    if place == 3 and codec in ("ac3", "aac"):
        pytest.skip("these cut the low-frequency channel at 120 Hz")
    voice = speech(rate_hz=48_000)
    table = np.zeros((len(voice), 6), np.float32)
    table[:, place] = voice
    decoded = decode_audio(encoded(container, codec, table, 48_000, "5.1"))
    assert abs(level_db(decoded.pcm) - level_db(voice)) < 1.0


def test_the_centre_counts_more_than_music_around_it():
    music = np.stack([speech(seed=i, dbfs=-24) for i in range(6)], axis=1)
    music[:, 2] = VOICE
    mixed = decode_audio(encoded("flac", "flac", music, 16_000, "5.1"))
    assert np.corrcoef(mixed.pcm, VOICE)[0, 1] > 0.8 > np.corrcoef(music.mean(axis=1), VOICE)[0, 1]
    assert abs(level_db(mixed.pcm) - level_db(VOICE)) < 1.0


def test_hum_in_another_channel_is_no_voice():
    hum = 0.5 * np.sin(2 * np.pi * 50 * np.arange(len(VOICE)) / 16_000).astype(np.float32)
    quiet = speech(dbfs=-35)
    decoded = decode_audio(wav(np.stack([hum, quiet], axis=1)))
    assert np.corrcoef(decoded.pcm, quiet)[0, 1] > 0.95


@pytest.mark.parametrize("factor", [-1.0, -0.5, -2.0])
def test_channels_of_opposite_polarity_do_not_cancel(factor):
    both = np.stack([VOICE, factor * VOICE], axis=1)
    decoded = decode_audio(wav(both))
    assert level_db(decoded.pcm) > level_db(VOICE) - 0.1
    heard = decoded.voice.samples.mean(axis=1)
    assert level_db(heard) > level_db(both) - 1.0, "a telephone that plays the mean must not be silent either"


def test_equal_channels_are_their_mean():
    pcm = decode_audio(wav(np.stack([VOICE, VOICE], axis=1))).pcm
    np.testing.assert_allclose(pcm, VOICE, atol=1e-7)


def test_two_speakers_who_take_turns_are_both_heard():
    turn = (np.arange(len(VOICE)) // 16_000) % 2 == 0
    left, right = np.where(turn, VOICE, 0), np.where(turn, 0, VOICE)
    pcm = decode_audio(wav(np.stack([left, right], axis=1).astype(np.float32))).pcm
    assert abs(level_db(pcm[turn]) - level_db(pcm[~turn])) < 3.5
    assert level_db(pcm) > level_db(VOICE) - 3.5


def test_the_mixture_does_not_change_while_it_plays():
    """One factor for all of the clip."""
    table = among(4, 1)
    table[16_000:32_000] *= 0.05
    data = wav(table)
    pcm = decode_audio(data).pcm
    loud = np.abs(table[:, 1]) > 0.02
    factor = pcm[loud] / table[loud, 1]
    assert np.std(factor) < 0.1


@pytest.mark.parametrize("table", [among(2, 0), among(2, 1), np.stack([VOICE, -VOICE], 1), np.stack([VOICE, VOICE], 1)])
def test_pushed_pieces_find_the_voice_too(table):
    whole = RunningMix(2, 16_000).push(table)
    assert abs(level_db(whole[1_600:]) - level_db(VOICE[1_600:])) < 0.3
    pieces = RunningMix(2, 16_000)
    cuts = np.cumsum(np.random.default_rng(3).integers(0, 700, 60))
    joined = np.concatenate([pieces.push(piece) for piece in np.split(table, cuts)])
    assert np.array_equal(joined, whole), "wherever the pieces end"


@pytest.mark.parametrize("full_scale,name", [(128, "8"), (32_768, "16"), (8_388_608, "24"), (2_147_483_648, "32")])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_floats_that_hold_integers_are_scaled(full_scale, name, dtype):
    integers = np.round(speech(dbfs=-12).clip(-1, 1) * (full_scale - 1)).astype(dtype)
    decoded = decode_audio(wav(integers))
    np.testing.assert_allclose(decoded.pcm, integers / full_scale, atol=1e-6)


def test_quiet_sixteen_bit_values_and_a_stereo_file():
    quiet = np.round(speech(dbfs=-40) * 32_767).astype(np.float32)
    np.testing.assert_allclose(decode_audio(wav(quiet)).pcm, quiet / 32_768, atol=1e-6)
    both = np.stack([quiet, quiet], axis=1)
    np.testing.assert_allclose(decode_audio(wav(both)).voice.samples, both / 32_768, atol=1e-6)


def test_floats_a_little_over_full_scale_are_clipped_and_stray_ones_change_nothing():
    loud = 3.0 * sine(0.5)
    np.testing.assert_allclose(decode_audio(wav(loud)).pcm, loud.clip(-1, 1), atol=1e-6)
    stray = speech()
    stray[1000:1010] = 30_000.0
    stray[2000], stray[2001], stray[2002] = np.nan, np.inf, 1e38
    pcm = decode_audio(wav(stray)).pcm
    keep = np.abs(stray) < 1
    np.testing.assert_allclose(pcm[keep], stray[keep], atol=1e-6)


def test_floats_beyond_every_integer_are_refused_with_the_reason():
    with pytest.raises(AudioUnsupportedError, match="float samples beyond 2.14748e\\+09"):
        decode_audio(wav(speech() * np.float32(1e20)))


def test_signed_bytes_in_a_file_of_unsigned_ones():
    signed = np.round(speech() * 127).astype(np.int8)
    right = decode_audio(wav((signed.astype(np.int16) + 128).astype(np.uint8))).pcm
    np.testing.assert_allclose(decode_audio(wav(signed.view(np.uint8))).pcm, right, atol=1e-6)
    np.testing.assert_allclose(right, signed / 128, atol=1e-6)


@pytest.mark.parametrize("gain", [1.0, 0.1])
@pytest.mark.parametrize("channels", [1, 2])
def test_words_of_the_other_byte_order(gain, channels):
    said = decode_audio(ROOT / "docs" / "demo" / "speech.wav").pcm[:, None] * gain
    words = np.round(np.repeat(said, channels, axis=1) * 32_767).astype(np.int16)
    np.testing.assert_allclose(decode_audio(wav(words.byteswap())).pcm, words[:, 0] / 32_768, atol=1e-4)


@pytest.mark.parametrize("dbfs", [-12, -30, -50])
def test_floats_under_the_name_of_integers(dbfs):
    floats = speech(dbfs=dbfs)
    np.testing.assert_allclose(decode_audio(wav(floats.view(np.int32))).pcm, floats.clip(-1, 1), atol=1e-4)


def test_integers_that_look_odd_stay_what_they_are():
    """Few bits, noise, full-scale squares, the highest tones: whatever the other reading of them would be."""
    rng, loud = np.random.default_rng(3), speech(dbfs=-6).clip(-1, 1)
    turns = np.arange(16_000)
    for odd in (
        np.round(loud * 127) * 256,
        np.round(loud * 15) * 2048,
        rng.normal(0, 3_000, 16_000).clip(-32_768, 32_767),
        rng.normal(0, 2, 16_000),
        np.where(np.sin(turns * 0.17) > 0, 32_767, -32_768),
        20_000 * np.sin(turns * 2 * np.pi * 7_900 / 16_000),
    ):
        words = odd.astype(np.int16)
        np.testing.assert_array_equal(decode_audio(wav(words)).pcm, words / np.float32(32_768))
    for scale in (2.0**31 - 129, 2.0**24, 2.0**16):
        wide = (loud.astype(np.float64) * scale).astype(np.int32)
        np.testing.assert_allclose(decode_audio(wav(wide)).pcm, wide / 2.0**31, atol=1e-7)


def test_small_integers_under_the_name_of_floats_are_refused():
    with pytest.raises(AudioUnsupportedError, match="as integers look"):
        decode_audio(wav(np.round(np.abs(speech()) * 32_767).astype(np.int32).view(np.float32)))


@pytest.mark.parametrize("lufs", [-50, -45, -40, -35, -28, -23, -16, -13, -10])
def test_the_networks_hear_speech_of_any_level_alike(lufs):
    plain = speech(5.0)
    level = plain * np.float32(10 ** ((lufs - integrated_lufs(plain)) / 20))
    decoded = decode_audio(wav(level))
    heard = integrated_lufs(decoded.for_networks())
    np.testing.assert_array_equal(decoded.pcm, level.clip(-1, 1))
    np.testing.assert_array_equal(decoded.voice.samples[:, 0], decoded.pcm)
    if COMFORTABLE_LUFS[0] <= lufs <= COMFORTABLE_LUFS[1]:
        assert decoded.network_gain == 1.0
    else:
        assert abs(heard - NETWORK_LUFS) < 1.5
    speaking, _ = SilenceGate(SilenceSettings()).step(frame_rms(decoded.for_networks()[: 124 * 640]))
    assert speaking.mean() > 0.6


def _noise(kind):
    rng = np.random.default_rng(1)
    white = rng.normal(size=16_000 * 4)
    if kind == "white":
        return white
    if kind == "hum":
        return np.sin(2 * np.pi * 100 * np.arange(len(white)) / 16_000)
    if kind == "rumble":
        return sosfilt(butter(1, 200, fs=16_000, output="sos"), white)
    return sosfilt(butter(2, (3_000, 6_000), "bandpass", fs=16_000, output="sos"), white)


@pytest.mark.parametrize("kind", ["white", "hum", "rumble", "hiss"])
@pytest.mark.parametrize("dbfs", [-50, -60, -45])
def test_noise_stays_quiet_and_the_mouth_shut(kind, dbfs):
    noise = _noise(kind)
    noise = (noise * 10 ** (dbfs / 20) / noise.std()).astype(np.float32)
    decoded = decode_audio(wav(noise))
    assert decoded.network_gain == 1.0
    speaking, _ = SilenceGate(SilenceSettings()).step(frame_rms(decoded.for_networks()))
    assert not speaking.any()


def _mains(hz, seconds=3.0):
    return (0.01 * np.sin(2 * np.pi * hz * np.arange(round(seconds * 16_000)) / 16_000)).astype(np.float32)


@pytest.mark.parametrize("hz", [50, 60, 120, 180, 440, 1000, 3000])
@pytest.mark.parametrize(
    "off", [slice(0, 24_000), slice(30_000, None), slice(16_000, 32_000), np.sin(np.arange(48_000) / 5e3) > 0]
)
def test_hum_and_tones_that_come_and_go_are_no_speech(hz, off):
    hum = _mains(hz)
    hum[off] = 0
    assert decode_audio(wav(hum)).network_gain == 1.0
    heard = RunningLevel()
    heard.hear(hum)
    assert heard.gain == 1.0


@pytest.mark.parametrize("hz", [50, 60, 100, 120])
def test_quiet_speech_is_found_above_hum(hz):
    assert 10.0 < decode_audio(wav(speech(dbfs=-50) + _mains(hz))).network_gain < 100.0


@pytest.mark.parametrize(
    "samples", [np.zeros(16_000, np.float32), np.zeros(1, np.float32), np.full(3, 0.001, np.float32)]
)
def test_nothing_is_made_of_silence(samples):
    assert decode_audio(wav(samples)).network_gain == 1.0
    assert decode_audio(wav(samples), normalise=True).voice.samples.max() == samples.max()


def test_a_short_word_is_measured_too():
    word = speech(0.3, dbfs=-45)
    assert 5 < decode_audio(wav(word)).network_gain < 40


@pytest.mark.parametrize("dbfs,channels", [(-45, 1), (-30, 2), (-8, 1)])
def test_the_voice_is_normalised_only_when_asked(dbfs, channels):
    voice = speech(4.0, 44_100, dbfs=dbfs)
    table = np.stack([voice] * channels, axis=1)
    data = wav(table, 44_100)
    np.testing.assert_allclose(decode_audio(data).voice.samples, table.clip(-1, 1), atol=1e-6)
    decoded = decode_audio(data, normalise=True)
    assert abs(integrated_lufs(decoded.voice.samples, 44_100) - VOICE_LUFS) < 0.5
    assert np.abs(decoded.voice.samples).max() <= 0.892
    shared = decode_audio(wav(speech(4.0, dbfs=dbfs)), normalise=True)
    np.testing.assert_array_equal(shared.voice.samples[:, 0], shared.pcm)


def test_peaks_are_never_cut_by_normalising():
    clicks = speech(4.0, dbfs=-50)
    clicks[::8_000] = 0.3
    assert np.abs(decode_audio(wav(clicks), normalise=True).voice.samples).max() <= 0.892


def test_loudness_is_what_the_standard_says():
    """EBU Tech 3341: a stereo sine of 1 kHz at -23 dBFS is -23 LUFS; one channel of it 3 dB less."""
    tone = (10 ** (-23 / 20) * np.sin(2 * np.pi * 1_000 * np.arange(48_000 * 3) / 48_000)).astype(np.float32)
    assert abs(integrated_lufs(np.stack([tone, tone], axis=1), 48_000) + 23.0) < 0.1
    assert abs(integrated_lufs(tone, 48_000) + 26.0) < 0.1
    assert integrated_lufs(np.zeros(16_000, np.float32)) <= -70
    quiet_half = np.concatenate([tone, tone * 0.01])
    assert abs(integrated_lufs(quiet_half, 48_000) - integrated_lufs(tone, 48_000)) < 0.6, "pauses are gated"


def test_an_unknown_layout_of_eight_channels_in_a_real_file():
    buffer = io.BytesIO()
    table = (among(8, 5) * 30_000).astype(np.int16)
    with av.open(buffer, "w", format="wav") as output:
        stream = output.add_stream("pcm_s16le", rate=16_000, layout="7.1")
        frame = av.AudioFrame.from_ndarray(np.ascontiguousarray(table.reshape(1, -1)), format="s16", layout="7.1")
        frame.sample_rate, frame.pts, frame.time_base = 16_000, 0, Fraction(1, 16_000)
        output.mux(stream.encode(frame))
    assert abs(level_db(decode_audio(buffer.getvalue()).pcm) - level_db(VOICE * 30_000 / 32_768)) < 0.5
