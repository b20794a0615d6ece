"""Text in a live session: spoken sentence by sentence, in its place in the queue, and gone when it is interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import numpy as np
import pytest

from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.live.contracts import Drive
from pipeline.live.speech_queue import QueueFullError
from pipeline.live.text_speaker import AHEAD, MAX_TEXTS, TextSpeaker
from pipeline.types import SAMPLE_RATE_HZ
from pipeline.voices.errors import VoiceFailedError
from tests.support.fake_voice import CHARACTER_S, FakeVoice
from tests.support.live import Stage, live, settle, tone

Body = Callable[[Stage, TextSpeaker, FakeVoice, list[tuple[LiveAnchorError, str]]], Awaitable[None]]


@asynccontextmanager
async def speaking(
    voice: FakeVoice, drive: Drive = Drive.PUSH
) -> AsyncGenerator[tuple[Stage, TextSpeaker, list[tuple[LiveAnchorError, str]]], None]:
    async with live(drive) as stage:
        failures: list[tuple[LiveAnchorError, str]] = []
        texts = TextSpeaker(voice, stage.session.voice, lambda error, utterance: failures.append((error, utterance)))
        try:
            yield stage, texts, failures
        finally:
            await texts.close()


def loud_s(stage: Stage) -> float:
    """Seconds of sound that were heard."""
    heard = np.abs(stage.sink.heard()).reshape(-1, 160).max(axis=1)
    return float((heard > 0.1).sum()) * 0.01


def test_a_text_is_heard_to_its_end_as_one_utterance() -> None:
    async def body() -> None:
        voice = FakeVoice()
        async with speaking(voice) as (stage, texts, failures):
            utterance = texts.say("Good evening. Here is the news.")
            await settle(40)
            await stage.clock.advance(5)
            assert voice.said == ["Good evening.", "Here is the news."] and not failures
            (began,), (ended,) = stage.sink.named("speaking_started"), stage.sink.named("speaking_finished")
            assert began.utterance_id == ended.utterance_id == utterance and ended.interrupted is False
            assert loud_s(stage) == pytest.approx((13 + 17) * CHARACTER_S, abs=0.06)

    asyncio.run(body())


def test_the_first_sentence_sounds_before_the_second_is_made() -> None:
    async def body() -> None:
        voice = FakeVoice(open=asyncio.Event())
        voice.open.set()
        async with speaking(voice) as (stage, texts, _):
            texts.say("Good evening. Here is the news.")
            await settle(6)
            voice.open.clear()
            await stage.clock.advance(1.5)
            assert stage.sink.named("speaking_started") and 0.2 < loud_s(stage) < 14 * CHARACTER_S
            assert not stage.sink.named("speaking_finished"), "more comes of it"
            voice.open.set()
            await stage.clock.advance(4)
            assert stage.sink.named("speaking_finished")

    asyncio.run(body())


def test_texts_and_files_keep_their_order() -> None:
    async def body() -> None:
        async with speaking(FakeVoice()) as (stage, texts, _):
            first = texts.say("Good evening.")
            file = stage.session.voice.speak(tone(0.5))
            last = texts.say("Good night.")
            await settle(40)
            await stage.clock.advance(6)
            assert [one.utterance_id for one in stage.sink.named("speaking_started")] == [first, file, last]
            assert [one.utterance_id for one in stage.sink.named("speaking_finished")] == [first, file, last]

    asyncio.run(body())


def test_an_interruption_takes_what_is_not_spoken_yet() -> None:
    async def body() -> None:
        voice = FakeVoice()
        async with speaking(voice) as (stage, texts, failures):
            first = texts.say("Good evening. " + "And this goes on for a good while longer. " * 20)
            second = texts.say("Never heard.")
            await settle(60)
            await stage.clock.advance(1.0)
            made = len(voice.said)
            assert made < 10, "sentences far ahead are not made"
            texts.cancel()
            cut = stage.session.interrupt()
            assert cut.utterance_id == first
            before = loud_s(stage)
            await stage.clock.advance(10)
            assert loud_s(stage) - before <= 0.05 and len(voice.said) == made and not failures
            assert [one.utterance_id for one in stage.sink.named("speaking_finished")] == [first, second]
            again = texts.say("Now this.")
            await settle(20)
            await stage.clock.advance(3)
            assert stage.sink.named("speaking_finished")[-1].utterance_id == again
            assert loud_s(stage) - before == pytest.approx(9 * CHARACTER_S, abs=0.1)

    asyncio.run(body())


def test_a_text_that_was_cut_by_the_session_is_not_made_to_its_end() -> None:
    async def body() -> None:
        voice = FakeVoice()
        async with speaking(voice) as (stage, texts, _):
            texts.say("This goes on for a good while longer. " * 20)
            await settle(60)
            made = len(voice.said)
            stage.session.interrupt()
            await stage.clock.advance(3)
            assert len(voice.said) <= made + 1

    asyncio.run(body())


def test_not_more_is_made_ahead_than_is_needed() -> None:
    async def body() -> None:
        voice = FakeVoice()
        async with speaking(voice) as (stage, texts, _):
            texts.say("This goes on for a good while longer. " * 40)
            await settle(200)
            for _ in range(20):
                waiting = stage.session.waiting_s
                assert waiting <= AHEAD / SAMPLE_RATE_HZ + 38 * CHARACTER_S + 1
                await stage.clock.advance(1)
            assert waiting > AHEAD / SAMPLE_RATE_HZ - 38 * CHARACTER_S - 1, "and no gap comes"
            assert loud_s(stage) > 15

    asyncio.run(body())


def test_a_failure_is_told_and_the_next_text_is_spoken() -> None:
    async def body() -> None:
        voice = FakeVoice(refused={"bad": VoiceFailedError("no"), "All": ZeroDivisionError("odd")})
        async with speaking(voice) as (stage, texts, failures):
            half, none, good = (
                texts.say("Good evening. A bad one. Not heard."),
                texts.say("All bad."),
                texts.say("Fine."),
            )
            await settle(60)
            await stage.clock.advance(5)
            assert [(error.code, utterance) for error, utterance in failures] == [
                ("voice_failed", half),
                ("voice_failed", none),
            ]
            assert [one.utterance_id for one in stage.sink.named("speaking_started")] == [half, good]
            ended = {one.utterance_id: one.position_s for one in stage.sink.named("speaking_finished")}
            assert list(ended) == [half, none, good] and ended[none] == 0 and ended[half] > 0.5

    asyncio.run(body())


def test_a_microphone_s_session_takes_no_text_and_texts_do_not_pile_up() -> None:
    async def body() -> None:
        async with speaking(FakeVoice(), Drive.MIC) as (_, texts, _):
            with pytest.raises(InvalidInputError, match="drive"):
                texts.say("Hello.")
        voice = FakeVoice(open=asyncio.Event())
        async with speaking(voice) as (_, texts, _):
            for _ in range(MAX_TEXTS + 1):  # one of them is being made
                texts.say("Hello.")
                await settle(2)
            with pytest.raises(QueueFullError, match="waiting texts"):
                texts.say("Hello.")

    asyncio.run(body())


def test_marks_change_the_face_where_their_sentences_sound_and_go_with_an_interruption() -> None:
    async def body() -> None:
        voice = FakeVoice()
        async with speaking(voice) as (stage, texts, failures):
            texts.say("[happy] Good evening. [sad 0.5] Here is the news. [angry] So much for that.")
            await settle(40)
            seen = {}
            for _ in range(22):
                await stage.clock.advance(0.1)
                looks = stage.session._performer._expressed.looks.looks
                seen |= {(look.expression, look.strength): look.at_s for look in looks}
            assert voice.said[:2] == ["Good evening.", "Here is the news."] and not failures
            assert list(seen)[:2] == [("happy", 1.0), ("sad", 0.5)]
            loud = np.abs(stage.sink.heard()).reshape(-1, 160).max(axis=1) > 0.1
            begin = np.flatnonzero(loud[1:] & ~loud[:-1]) / 100
            assert seen["happy", 1.0] == pytest.approx(begin[0], abs=0.06)
            assert seen["sad", 0.5] == pytest.approx(begin[1], abs=0.06)
            texts.cancel()
            stage.session.interrupt()
            left = stage.session._performer._expressed.looks.looks
            assert left and all(look.at_s <= stage.session._performer._deadlines.present / 25 for look in left)

    asyncio.run(body())
