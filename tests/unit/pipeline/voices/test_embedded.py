"""The embedded voice: sound at an ordinary level, the same every time, and words whose times fit the sound."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from importlib.util import find_spec

import numpy as np
import pytest

from kernels.arrays import F32
from pipeline.media.loudness import integrated_lufs
from pipeline.voices.embedded import EmbeddedVoice
from pipeline.voices.embedded_model import RATE_HZ, EmbeddedModel, SaidPhonemes, _spaced
from pipeline.voices.errors import VoiceFailedError, VoiceMissingError
from pipeline.voices.voice import VoiceChunk
from pipeline.voices.whole_text import speak_whole
from tests.support.require import missing

TEXT = "Good evening. Dr. Smith paid $9.99 at 9:30, for two tickets to the opera."


@pytest.fixture(scope="module")
def model() -> EmbeddedModel:
    if find_spec("hibari") is None:
        missing("EXTRAS", "hibari-tts is not installed: pip install 'liveanchor[speech]'")
    return EmbeddedModel()


def level(pcm: F32) -> F32:
    """RMS of every 10 ms."""
    blocks = pcm[: len(pcm) // 240 * 240].reshape(-1, 240)
    found: F32 = np.sqrt(np.mean(np.square(blocks), axis=1))
    return found


def test_it_speaks_at_an_ordinary_level_and_the_same_every_time(model: EmbeddedModel) -> None:
    said = model.say(TEXT)
    assert said.pcm.dtype == np.float32 and 4 < len(said.pcm) / RATE_HZ < 8
    assert -26 < integrated_lufs(said.pcm, RATE_HZ) < -20 and np.abs(said.pcm).max() < 0.95
    np.testing.assert_array_equal(model.say(TEXT).pcm, said.pcm)


def test_every_written_word_has_its_time_though_it_is_read_otherwise(model: EmbeddedModel) -> None:
    said = model.say(TEXT)
    assert [word.text for word in said.words] == TEXT.split()
    for before, word in zip(said.words, said.words[1:], strict=False):
        assert before.start_s <= before.stop_s <= word.start_s + 1e-9
    assert said.words[-1].stop_s <= len(said.pcm) / RATE_HZ


@pytest.mark.parametrize("sentence", ["Better be quick.", "Come today.", "People like coffee.", "Ten dogs bark."])
def test_times_fit_the_sound(model: EmbeddedModel, sentence: str) -> None:
    said = model.say(sentence)
    loud = np.flatnonzero(level(said.pcm) > 0.1 * level(said.pcm).max()) * 0.01
    assert said.words[0].start_s == pytest.approx(loud[0], abs=0.04)
    assert loud[-1] - 0.05 < said.words[-1].stop_s < loud[-1] + 0.45
    assert said.words[-1].start_s < loud[-1] - 0.15


def test_a_pause_at_a_comma_lies_between_the_words(model: EmbeddedModel) -> None:
    said = model.say("Before the storm, everybody slept.")
    storm, everybody = said.words[2], said.words[3]
    assert everybody.start_s - storm.start_s > 0.3
    around = level(said.pcm)[round((storm.start_s + 0.3) * 100) : round((everybody.start_s + 0.05) * 100)]
    assert around.min() < 0.05 * level(said.pcm).max(), "it is quiet somewhere between them"


def test_very_long_numbers_and_pronunciations_are_spoken(model: EmbeddedModel) -> None:
    long = model.say(" ".join(["987,654,321,987"] * 8) + ".")
    assert len(long.pcm) / RATE_HZ > 30 and len(long.words) == 8
    assert all(word.stop_s - word.start_s > 2 for word in long.words)
    told = model.say("The word is [Kokoro](/kˈOkəɹO/).")
    assert [word.text for word in told.words] == ["The", "word", "is", "Kokoro."]


def test_overlong_words_are_cut_for_the_dictionary_and_keep_their_time(model: EmbeddedModel) -> None:
    told = "[" + "Kokoro-" * 9 + "](/k\u02c8Ok\u0259\u0279O/)"
    spaced = _spaced(f"{'ab-' * 30}{told} {'x' * 90} {'1' * 40} fine")
    assert told in spaced and max(len(word) for word in spaced.replace(told, "").split()) == 40
    assert ("1" * 15 + " " + "1" * 15 + " " + "1" * 10) in spaced
    said = model.say("ab-" * 30 + "ab")
    assert len(said.words) == 1 and said.words[0].stop_s > 2
    assert len(model.say("1" * 300).words) == 1


def test_what_english_has_no_sound_for_is_silent_and_told(model: EmbeddedModel) -> None:
    assert len(model.say("\u4f60\u597d\u3002").pcm) == 0

    async def spoken() -> None:
        voice = EmbeddedVoice()
        try:
            await speak_whole(voice, "\u4f60\u597d\u3002", 60.0)
        finally:
            await voice.close()

    with pytest.raises(VoiceFailedError, match="no sound"):
        asyncio.run(spoken())


def test_the_voice_hands_on_what_the_network_made(model: EmbeddedModel) -> None:
    async def chunks() -> list[VoiceChunk]:
        voice = EmbeddedVoice()
        await voice.warm()
        try:
            async with aclosing(voice.say("Good evening.")) as found:
                return [chunk async for chunk in found]
        finally:
            await voice.close()

    (chunk,) = asyncio.run(chunks())
    assert chunk.rate_hz == RATE_HZ and [word.text for word in chunk.words] == ["Good", "evening."]
    np.testing.assert_array_equal(chunk.pcm, model.say("Good evening.").pcm)


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.voices.embedded.find_spec", lambda name: None)
    voice = EmbeddedVoice()
    with pytest.raises(VoiceMissingError, match=r"hibari-tts is not installed.*liveanchor\[speech\].*voices.url"):
        voice.check()
    with pytest.raises(VoiceMissingError):
        asyncio.run(voice.warm())


def test_a_network_that_breaks_is_told_as_a_failure(model: EmbeddedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(groups: list[str]) -> SaidPhonemes:
        raise RuntimeError("onnx says no")

    monkeypatch.setattr(model, "_sound", broken)
    with pytest.raises(VoiceFailedError, match="broke"):
        model.say("Hello.")
