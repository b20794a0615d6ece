"""A conversation in a real session on a clock of the test's own: answers, interruptions by voice, and what is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import numpy as np
import pytest

from kernels.arrays import F32
from kernels.errors import LiveAnchorError
from pipeline.live.contracts import MICROPHONE_RATE_HZ, Drive
from pipeline.live.text_speaker import TextSpeaker
from pipeline.talk.brain import Brain, EchoBrain, Exchange, Heard, Sound, Thought, Words
from pipeline.talk.conversation import Conversation
from pipeline.talk.errors import AgentFailedError, AgentUnreachableError
from pipeline.talk.mouth import SessionMouth
from pipeline.talk.settings import AgentSettings
from pipeline.types import SAMPLE_RATE_HZ
from pipeline.voices.errors import VoiceMissingError
from tests.support.fake_voice import FakeVoice
from tests.support.live import Stage, heard_at_48_khz, live, settle
from tests.unit.pipeline.talk.test_listening import silence, speech

SETTINGS = AgentSettings(remembered_turns=2)


@dataclass
class ScriptedBrain:
    """Says what it is told to, one list of thoughts for each turn.

    Attributes:
        script: Thoughts; an error is raised in its place, an event is waited for.
        turns: Seconds of every turn that came, and the conversation until then.
        left: Turns that were left before their end.
    """

    script: list[list[Thought | Exception | asyncio.Event]]
    turns: list[tuple[float, tuple[Exchange, ...]]] = field(default_factory=list)
    left: int = 0

    async def answer(self, pcm: F32, before: Sequence[Exchange]) -> AsyncGenerator[Thought, None]:
        self.turns.append((len(pcm) / SAMPLE_RATE_HZ, tuple(before)))
        whole = False
        try:
            for one in self.script.pop(0):
                if isinstance(one, Exception):
                    raise one
                if isinstance(one, asyncio.Event):
                    await one.wait()
                else:
                    yield one
            whole = True
        finally:
            self.left += not whole

    async def close(self) -> None:
        return None


@dataclass
class Talk:
    """A session, its conversation, and the person in it."""

    stage: Stage
    conversation: Conversation
    failures: list[LiveAnchorError]

    async def says(self, pcm: F32) -> None:
        """Speak into the microphone at the speed of sound."""
        samples = heard_at_48_khz(pcm)
        for start in range(0, len(samples), 1920):
            piece = samples[start : start + 1920]
            await self.stage.clock.advance(len(piece) / MICROPHONE_RATE_HZ)
            self.conversation.hear(piece, self.stage.place)
            self.stage.place += len(piece)
            await settle(4)

    @property
    def events(self) -> list[str]:
        """What the client was told, words included."""
        return [f"{one.name} {one.detail}".strip() for one in self.stage.sink.events if one.name != "connected"]


@asynccontextmanager
async def talking(brain: Brain, voice: FakeVoice | None = None) -> AsyncGenerator[Talk, None]:
    voice = voice or FakeVoice()
    async with live(Drive.TALK) as stage:
        texts = TextSpeaker(voice, stage.session.voice, lambda error, utterance: failures.append(error))
        failures: list[LiveAnchorError] = []
        mouth = SessionMouth(stage.session, texts, voice)
        conversation = Conversation(SETTINGS, brain, mouth, failures.append)
        sink = stage.sink
        take_voice, take_event = sink.voice, sink.event
        sink.voice = lambda tick: (take_voice(tick), conversation.voice(tick))[0]  # type: ignore[method-assign]
        sink.event = lambda event: (take_event(event), conversation.event(event))[0]  # type: ignore[method-assign]
        stage.session._speaking._tell = sink.event
        try:
            yield Talk(stage, conversation, failures)
        finally:
            await conversation.close()
            await texts.close()


def run(
    script: list[list[Thought | Exception | asyncio.Event]],
    body: Callable[[Talk, ScriptedBrain], Awaitable[None]],
    voice: FakeVoice | None = None,
) -> None:
    async def whole() -> None:
        brain = ScriptedBrain(script)
        async with talking(brain, voice) as talk:
            await body(talk, brain)

    asyncio.run(whole())


TURN = np.concatenate([silence(0.5), speech()[: 1 * SAMPLE_RATE_HZ], silence(1)])


def test_a_turn_is_answered_sentence_by_sentence() -> None:
    voice = FakeVoice()

    async def body(talk: Talk, brain: ScriptedBrain) -> None:
        await talk.says(TURN)
        await talk.says(silence(3))
        assert talk.events == [
            "turn_started",
            "turn_finished",
            "heard Hello?",
            "reply Good evening.",
            "reply Here I am.",
            "speaking_started",
            "speaking_finished",
            "speaking_started",
            "speaking_finished",
        ]
        assert voice.said == ["Good evening.", "Here I am."] and not talk.failures
        first, second = talk.stage.sink.named("speaking_started")
        assert second.at_s - first.at_s == pytest.approx(13 * 0.06 + 0.09 + 0.04, abs=0.06), (
            "without a hole between them"
        )
        assert brain.turns[0][0] == pytest.approx(1.5, abs=0.3) and brain.turns[0][1] == ()

    run([[Heard("Hello?"), Words("Good evening. "), Words("Here "), Words("I am.")]], body, voice)


def test_an_echo_gives_the_same_voice_back_and_hears_not_itself() -> None:
    async def whole() -> None:
        async with talking(EchoBrain()) as talk:
            await talk.says(TURN)
            for _ in range(20):  # the loudness is measured in a thread
                await asyncio.sleep(0.01)
            before = talk.stage.sink.heard().any()
            await talk.says(silence(3))
            heard = talk.stage.sink.heard()
            assert not before and talk.events == [
                "turn_started",
                "turn_finished",
                "speaking_started",
                "speaking_finished",
            ]
            loud = np.square(heard).sum()
            assert loud == pytest.approx(np.square(TURN).sum(), rel=0.05)
            assert talk.conversation.before == (), "sound is no text that could be remembered"

    asyncio.run(whole())


def test_a_person_interrupts_by_speaking_and_only_what_was_heard_is_remembered() -> None:
    voice = FakeVoice()
    long = "This is a sentence that takes its time. "

    async def body(talk: Talk, brain: ScriptedBrain) -> None:
        await talk.says(TURN)
        await talk.says(silence(1.5))
        assert talk.events[-1] == "speaking_started"
        began = talk.stage.sink.voices[-1].pts_samples / SAMPLE_RATE_HZ
        await talk.says(np.concatenate([speech()[: 1 * SAMPLE_RATE_HZ], silence(1)]))
        interrupted = next(one for one in talk.stage.sink.events if one.name == "interrupted")
        assert 0.2 < interrupted.at_s - began < 0.45, "the shortest turn, a frame of the microphone and a tick"
        answered = next(one for one in talk.stage.sink.events if one.name == "heard" and one.detail == "Stop.")
        between = [
            tick
            for tick in talk.stage.sink.voices
            if interrupted.at_s + 0.045 < tick.pts_samples / SAMPLE_RATE_HZ < answered.at_s
        ]
        assert len(between) > 20 and not any(tick.pcm.any() for tick in between), "not a sample after one more tick"
        await talk.says(silence(2))
        assert brain.turns[1][1] == (Exchange("Go on.", long.strip()),)
        assert voice.said[-1] == "Well." and len(voice.said) <= 5, "what is not needed is not made"
        assert talk.stage.session.epoch == 1
        assert talk.events[-2:] == ["speaking_started", "speaking_finished"], "the second answer was spoken to its end"

    run([[Heard("Go on."), Words(long * 8)], [Heard("Stop."), Words("Well.")]], body, voice)


def test_a_pause_in_the_middle_of_a_thought_is_no_end_of_it() -> None:
    never = asyncio.Event()

    async def body(talk: Talk, brain: ScriptedBrain) -> None:
        await talk.says(TURN)
        assert len(brain.turns) == 1 and brain.left == 0
        await talk.says(TURN)
        assert brain.left == 1, "what is not needed any more is not thought about"
        assert brain.turns[1][0] == pytest.approx(2 * brain.turns[0][0], abs=0.3), "both parts are heard as one"
        await talk.says(TURN)
        assert brain.turns[2][0] == pytest.approx(brain.turns[0][0], abs=0.3)
        assert brain.turns[2][1] == (Exchange("All of it.", "Yes."),)

    run([[Heard("Part of"), never], [Heard("All of it."), Words("Yes.")], [Heard("?")]], body)


def test_the_memory_is_bounded_and_noise_is_not_kept() -> None:
    async def body(talk: Talk, brain: ScriptedBrain) -> None:
        for _ in range(5):
            await talk.says(TURN)
            await talk.says(silence(0.5))
        assert [len(before) for _, before in brain.turns] == [0, 1, 1, 2, 2]
        assert all(seconds < 1.9 for seconds, _ in brain.turns), "a sound without words is not part of the next turn"

    run([[Heard("a"), Words("A.")], [Heard("")], *[[Heard(one), Words(f"{one}.")] for one in "bcd"]], body)


@pytest.mark.parametrize("error", [AgentUnreachableError("answered 503"), RuntimeError("secret words")])
def test_a_failure_is_told_and_the_conversation_goes_on(error: Exception) -> None:
    async def body(talk: Talk, brain: ScriptedBrain) -> None:
        await talk.says(TURN)
        (failure,) = talk.failures
        assert isinstance(failure, AgentUnreachableError | AgentFailedError) and "secret" not in str(failure)
        await talk.says(TURN)
        assert brain.turns[1][0] < 1.9, "what failed is not said again by itself"
        assert talk.events[-1] == "speaking_started" or "reply Yes." in talk.events

    run([[Heard("x"), error], [Heard("y"), Words("Yes.")]], body)


def test_a_cut_answer_is_spoken_as_far_as_it_came_and_a_voice_that_is_missing_is_told() -> None:
    voice = FakeVoice()

    async def body(talk: Talk, brain: ScriptedBrain) -> None:
        await talk.says(np.concatenate([TURN, silence(1)]))
        assert voice.said == ["Good evening."] and len(talk.failures) == 1
        voice.missing = VoiceMissingError("hibari-tts")
        await talk.says(np.concatenate([TURN, silence(1)]))
        assert isinstance(talk.failures[1], VoiceMissingError)

    cut = AgentUnreachableError("broke off in the middle of a reply")
    run([[Heard("x"), Words("Good evening. Here is"), cut], [Heard("y"), Words("Yes.")]], body, voice)


def test_words_in_brackets_are_marks_where_they_can_be_and_words_where_not() -> None:
    voice = FakeVoice()

    async def body(talk: Talk, brain: ScriptedBrain) -> None:
        await talk.says(np.concatenate([TURN, silence(2)]))
        assert voice.said == ["Good.", "Very happy 9 indeed."] and not talk.failures

    run([[Heard("x"), Words("[happy] Good. Very [happy 9] indeed.")]], body, voice)


def test_silence_that_is_asked_for_ends_the_thinking_too() -> None:
    never = asyncio.Event()

    async def body(talk: Talk, brain: ScriptedBrain) -> None:
        await talk.says(TURN)
        talk.conversation.drop()
        await settle()
        assert brain.left == 1
        await talk.says(TURN)
        assert brain.turns[1][0] < 1.9, "nothing of before is answered any more"

    run([[Heard("x"), never], [Sound(speech())]], body)
