"""Sentences become one sound: without the voice's own silences, with pauses between them, and with times that fit."""

from __future__ import annotations

import asyncio
import io
from contextlib import aclosing

import numpy as np
import pytest
from scipy.io import wavfile

from kernels.arrays import F32
from pipeline.voices.captions import LINE_CHARACTERS, cues_of, webvtt
from pipeline.voices.errors import TextTooLongError, VoiceFailedError
from pipeline.voices.sentences import SENTENCE_PAUSE_S, Sentence, sentences
from pipeline.voices.speaking import SpokenPiece, speak
from pipeline.voices.trim import AFTER_S, BEFORE_S, LOUD, Trimmer
from pipeline.voices.whole_text import SaidSentence, speak_whole
from tests.support.fake_voice import CHARACTER_S, FakeVoice

RATE = 24_000
TEXT = "Good evening. This is the news of the day & more."


def spoken(voice: FakeVoice, text: str) -> list[SpokenPiece]:
    async def all_of_it() -> list[SpokenPiece]:
        async with aclosing(speak(voice, sentences(text))) as pieces:
            return [piece async for piece in pieces]

    return asyncio.run(all_of_it())


@pytest.mark.parametrize("block", [1, 7, 240, 4000, 10**6])
def test_the_silence_around_a_sentence_is_cut_whatever_pieces_it_comes_in(block: int) -> None:
    loud = np.full(3000, 0.2, np.float32)
    quiet = np.full(1000, LOUD / 2, np.float32)
    pcm = np.concatenate(
        [np.zeros(5000, np.float32), loud, np.zeros(9000, np.float32), loud, quiet, np.zeros(9000, np.float32)]
    )
    trimmer = Trimmer(RATE)
    heard = np.concatenate([*(trimmer.push(pcm[at : at + block]) for at in range(0, len(pcm), block)), trimmer.flush()])
    before, after = round(BEFORE_S * RATE), round(AFTER_S * RATE)
    np.testing.assert_array_equal(heard, pcm[5000 - before : 5000 + 3000 + 9000 + 3000 + after])
    assert trimmer.cut == 5000 - before


def test_silence_alone_is_nothing() -> None:
    trimmer = Trimmer(RATE)
    assert len(trimmer.push(np.zeros(50_000, np.float32))) == 0 and len(trimmer.flush()) == 0


def test_sentences_follow_each_other_with_a_pause() -> None:
    pieces = spoken(FakeVoice(), "One two. Three.")
    runs: list[tuple[int | None, float]] = []
    for piece in pieces:
        if runs and runs[-1][0] == piece.sentence:
            runs[-1] = (piece.sentence, runs[-1][1] + len(piece.pcm) / piece.rate_hz)
        else:
            runs.append((piece.sentence, len(piece.pcm) / piece.rate_hz))
    (first, first_s), (pause, pause_s), (second, second_s) = runs
    assert (first, pause, second) == (0, None, 1) and pause_s == pytest.approx(SENTENCE_PAUSE_S)
    assert first_s == pytest.approx(8 * CHARACTER_S + BEFORE_S + AFTER_S, abs=0.002)
    assert second_s == pytest.approx(6 * CHARACTER_S + BEFORE_S + AFTER_S, abs=0.002)


def test_a_sentence_is_asked_for_when_the_one_before_was_taken() -> None:
    voice = FakeVoice()

    async def first_piece() -> None:
        async with aclosing(speak(voice, [Sentence("One.", 0.1), Sentence("Two.", 0.1)])) as pieces:
            await anext(pieces)

    asyncio.run(first_piece())
    assert voice.said == ["One."] and voice.cancelled == ["One."]


def test_a_voice_that_makes_no_sound_of_a_text_has_failed() -> None:
    class Mute(FakeVoice):
        async def say(self, sentence: str):  # type: ignore[no-untyped-def]
            async with aclosing(FakeVoice.say(self, sentence)) as chunks:
                async for chunk in chunks:
                    yield type(chunk)(np.zeros_like(chunk.pcm), chunk.rate_hz)

    with pytest.raises(VoiceFailedError, match="no sound"):
        spoken(Mute(), "Hello.")


def whole(text: str, words: bool) -> tuple[F32, int, tuple[SaidSentence, ...]]:
    found = asyncio.run(speak_whole(FakeVoice(words=words), text, 60.0))
    rate_hz, samples = wavfile.read(io.BytesIO(found.wav))
    return samples.astype(np.float32) / 32767, rate_hz, found.said


@pytest.mark.parametrize("words", [False, True])
def test_a_whole_text_is_a_file_whose_times_fit_its_sound(words: bool) -> None:
    samples, rate_hz, said = whole(TEXT, words)
    assert rate_hz == RATE and [one.text for one in said] == sentences_of(TEXT)
    for one in said:
        inside = samples[round(one.start_s * rate_hz) : round(one.stop_s * rate_hz)]
        assert np.abs(inside).max() > 0.29 and np.abs(inside[: round(0.6 * BEFORE_S * rate_hz)]).max() < LOUD
        assert len(one.words) == (len(one.text.split()) if words else 0)
        for word in one.words:
            assert one.start_s <= word.start_s < word.stop_s <= one.stop_s + 0.01
    gap = samples[round(said[0].stop_s * rate_hz) + 1 : round(said[1].start_s * rate_hz) - 1]
    assert not gap.any() and len(gap) / rate_hz == pytest.approx(SENTENCE_PAUSE_S, abs=0.01)
    if words:  # "evening." begins five characters after the first sound
        onset = np.flatnonzero(np.abs(samples) > LOUD)[0] / rate_hz
        assert said[0].words[1].start_s == pytest.approx(onset + 5 * CHARACTER_S, abs=0.002)


def sentences_of(text: str) -> list[str]:
    return [one.text for one in sentences(text)]


def test_a_text_that_takes_too_long_is_refused_by_its_field() -> None:
    voice = FakeVoice()
    with pytest.raises(TextTooLongError, match="--text: got more than 2 s of speech"):
        asyncio.run(speak_whole(voice, "This one takes its time. And so does this one.", 2.0, "--text"))
    assert len(voice.said) <= 2


@pytest.mark.parametrize("words", [False, True])
def test_captions_are_webvtt(words: bool) -> None:
    text = (
        TEXT
        + " It is a sentence of so many words that it needs more than one caption to be read in peace, and then some <b>more</b>."
    )
    _, _, said = whole(text, words)
    cues = cues_of(said)
    assert len(cues) > len(said)
    for before, cue in zip(cues, cues[1:], strict=False):
        assert before.start_s < before.stop_s <= cue.start_s + 1e-6
    assert all(len(line) <= LINE_CHARACTERS for cue in cues for line in cue.text.split("\n"))
    assert all(cue.text.count("\n") <= 1 for cue in cues)
    assert " ".join(" ".join(cue.text.split("\n")) for cue in cues) == text
    file = webvtt(cues)
    assert file.startswith("WEBVTT\n\n00:00:00.000 --> 00:00:0") and file.endswith("\n")
    assert "of the day &amp; more." in file and "&lt;b&gt;more&lt;/b&gt;." in file
    assert len(file.split("\n\n")) == len(cues) + 1


def test_times_of_captions_are_written_out() -> None:
    said = (SaidSentence("Late.", 3723.5, 3724.25),)
    assert "01:02:03.500 --> 01:02:04.250\nLate.\n" in webvtt(cues_of(said))
