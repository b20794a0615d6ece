"""A conversation in one live session: the person speaks, is heard out and answered, and interrupts by speaking."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field

import numpy as np

from kernels.arrays import F32
from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.live.contracts import LiveEvent, VideoTick, VoiceTick
from pipeline.talk.brain import Brain, Exchange, Heard, Sound, Words
from pipeline.talk.errors import AgentFailedError
from pipeline.talk.listener import Listener
from pipeline.talk.mouth import Mouth
from pipeline.talk.sentence_stream import SentenceStream
from pipeline.talk.settings import AgentSettings
from pipeline.talk.turns import TurnEnded
from pipeline.types import SAMPLE_RATE_HZ

OnFailure = Callable[[LiveAnchorError], None]
"""Called with what kept the presenter from answering."""


@dataclass(eq=False)
class _Reply:
    """What is being answered.

    Attributes:
        pcm: What the person said.
        heard: The same, written down, as far as that is known.
        said: Utterance -> what it says, in order; nothing of a sound.
        begun: Utterances that the client has begun to hear.
        task: Makes the reply.
    """

    pcm: F32
    heard: str = ""
    said: dict[str, str] = field(default_factory=dict)
    begun: set[str] = field(default_factory=set)
    task: asyncio.Task[None] | None = None


class Conversation:
    """Listens to one client and lets the presenter answer. It belongs to the session's event loop and keeps nothing after it.

    It is a `LiveSink`: what the presenter says is no turn of the person, and tells how much of a reply was heard.

    Args:
        settings: How turns are taken, and what is remembered.
        brain: Answers.
        mouth: The presenter.
        on_failure: Told of what keeps the presenter from answering; the conversation goes on.
    """

    def __init__(self, settings: AgentSettings, brain: Brain, mouth: Mouth, on_failure: OnFailure) -> None:
        self._brain, self._mouth, self._on_failure = brain, mouth, on_failure
        self._listener = Listener(settings)
        self._longest = round(settings.longest_turn_s * SAMPLE_RATE_HZ)
        self._before: deque[Exchange] = deque(maxlen=settings.remembered_turns)
        self._reply: _Reply | None = None

    @property
    def before(self) -> tuple[Exchange, ...]:
        """What is remembered of the conversation, oldest first."""
        return tuple(self._before)

    def hear(self, samples: F32, place: int) -> None:
        """Take the client's voice, as `Listener.hear` does: a turn that begins interrupts, one that ends is answered."""
        for event in self._listener.hear(samples, place):
            if isinstance(event, TurnEnded):
                self._mouth.tell("turn_finished")
                self._answer(event.pcm)
            else:
                self._mouth.tell("turn_started")
                self._stop_thinking()
                if self._mouth.busy:
                    self._mouth.interrupt()

    def drop(self) -> None:
        """Answer nothing of what was said until now: somebody wants silence."""
        self._stop_thinking()
        if self._reply is not None and self._reply.begun:
            self._remember(self._reply)
        self._reply = None

    async def close(self) -> None:
        """Stop thinking, and return when nothing is being made any more."""
        task = self._reply.task if self._reply is not None else None
        self._reply = None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def video(self, tick: VideoTick) -> None:
        """Pictures tell nothing."""

    def voice(self, tick: VoiceTick) -> None:
        """The presenter's voice of one frame is sent."""
        self._listener.played(tick)

    def event(self, event: LiveEvent) -> None:
        """Something happened in the session."""
        if event.name == "speaking_started" and self._reply is not None and event.utterance_id is not None:
            self._reply.begun.add(event.utterance_id)

    def _answer(self, pcm: F32) -> None:
        """Begin to answer. What was said before and is not answered yet belongs to it: the person only paused."""
        self._stop_thinking()
        if (last := self._reply) is not None:
            if last.begun:
                self._remember(last)
            else:
                pcm = np.concatenate([last.pcm, pcm])[-self._longest :]
        reply = self._reply = _Reply(pcm)
        reply.task = asyncio.create_task(self._work(reply), name="talk-reply")

    def _stop_thinking(self) -> None:
        if self._reply is not None and self._reply.task is not None:
            self._reply.task.cancel()

    def _remember(self, reply: _Reply) -> None:
        said = " ".join(text for utterance, text in reply.said.items() if utterance in reply.begun)
        if reply.heard and said:
            self._before.append(Exchange(reply.heard, said))

    async def _work(self, reply: _Reply) -> None:
        try:
            await self._think(reply)
        except LiveAnchorError as error:
            self._failed(reply, error)
        except Exception as error:  # noqa: BLE001  # of any kind: the conversation goes on, and the client is told
            self._failed(reply, AgentFailedError(type(error).__name__))

    async def _think(self, reply: _Reply) -> None:
        sentences = SentenceStream()
        async with aclosing(self._brain.answer(reply.pcm, self.before)) as thoughts:
            async for thought in thoughts:
                match thought:
                    case Heard(text):
                        reply.heard = text
                        self._mouth.tell("heard", text)
                        if not text:
                            self._reply = None  # a sound without words is nothing that the next turn goes on with
                    case Sound(pcm):
                        reply.said[await self._mouth.play(pcm)] = ""
                    case Words(text):
                        self._say(reply, sentences.push(text))
        self._say(reply, sentences.end())

    def _say(self, reply: _Reply, texts: list[str]) -> None:
        for text in texts:
            try:
                utterance_id = self._mouth.say(text, bool(reply.said))
            except InvalidInputError:  # brackets that look like a mark and are none
                text = text.replace("[", "").replace("]", "")
                utterance_id = self._mouth.say(text, bool(reply.said))
            reply.said[utterance_id] = text
            self._mouth.tell("reply", text, utterance_id)

    def _failed(self, reply: _Reply, error: LiveAnchorError) -> None:
        if self._reply is reply and not reply.said:
            self._reply = None  # it is asked again in the person's own words
        self._on_failure(error)
