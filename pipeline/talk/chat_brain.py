"""A brain of two servers: one writes down what was said, one answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from kernels.arrays import F32
from pipeline.talk.brain import Exchange, Heard, Thought, Words
from pipeline.talk.chat_server import ChatServer
from pipeline.talk.recogniser import Recogniser
from pipeline.talk.settings import AgentSettings


class ChatBrain:
    """Implements `Brain`.

    Args:
        settings: Both servers, and the system message.
    """

    def __init__(self, settings: AgentSettings) -> None:
        self._instructions = settings.instructions
        self._ears, self._server = Recogniser(settings.ears), ChatServer(settings)

    async def answer(self, pcm: F32, before: Sequence[Exchange]) -> AsyncGenerator[Thought, None]:
        """Answer as `Brain.answer` says; where no words were said, there is no answer."""
        text = await self._ears.text_of(pcm)
        yield Heard(text)
        if not text:
            return
        messages = [{"role": "system", "content": self._instructions}] if self._instructions else []
        for one in before:
            messages += [{"role": "user", "content": one.heard}, {"role": "assistant", "content": one.said}]
        messages.append({"role": "user", "content": text})
        async with aclosing(self._server.reply(messages)) as pieces:
            async for piece in pieces:
                yield Words(piece)

    async def close(self) -> None:
        """Close all connections."""
        await self._ears.close()
        await self._server.close()
