"""What a brain is: what a person said goes in, what the presenter is to say comes out, piece by piece."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

from kernels.arrays import F32


@dataclass(frozen=True)
class Exchange:
    """A turn of the conversation that is over.

    Attributes:
        heard: What the person said.
        said: What the presenter answered, as far as it was heard.
    """

    heard: str
    said: str


@dataclass(frozen=True)
class Heard:
    """What the person said, written down; comes first, where the brain knows it. Empty: no words were said."""

    text: str


@dataclass(frozen=True)
class Words:
    """A piece of an answer in words; a piece may end in the middle of one."""

    text: str


@dataclass(frozen=True, eq=False)
class Sound:
    """An answer as sound, float32 (n,), mono, 16 kHz."""

    pcm: F32


Thought = Heard | Words | Sound


class Brain(Protocol):
    """Answers people. It belongs to one event loop, is shared by all sessions of a process, and keeps nothing of what was said."""

    def answer(self, pcm: F32, before: Sequence[Exchange]) -> AsyncGenerator[Thought, None]:
        """Answer one turn; leaving early cancels what is not made yet.

        Args:
            pcm: What the person said, float32 (n,), mono, 16 kHz.
            before: The conversation until then, oldest first.

        Raises:
            AgentMissingError: What the brain needs is not installed.
            AgentUnreachableError: A server of the brain does not answer, or has too much work.
            AgentFailedError: It was refused, or what came is no answer.
        """
        ...

    async def close(self) -> None:
        """Free everything."""
        ...


class EchoBrain:
    """Implements `Brain` without understanding anything: the presenter says what was said, with the same voice."""

    async def answer(self, pcm: F32, before: Sequence[Exchange]) -> AsyncGenerator[Thought, None]:
        """Give the sound back."""
        yield Sound(pcm)

    async def close(self) -> None:
        """There is nothing to free."""
