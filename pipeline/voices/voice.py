"""What a voice is: one sentence of text goes in, samples come out as soon as they are there."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol

from kernels.arrays import F32


@dataclass(frozen=True)
class WordTime:
    """When a word is heard.

    Attributes:
        text: The word as it was written, with the punctuation that follows it.
        start_s: Seconds from the first sample to its first sound.
        stop_s: Seconds from the first sample to its end, >= `start_s`.
    """

    text: str
    start_s: float
    stop_s: float


@dataclass(frozen=True, eq=False)
class VoiceChunk:
    """Samples of a sentence, in their order.

    Attributes:
        pcm: float32 (n,), mono, -1..1, finite; n may be 0.
        rate_hz: Samples per second, 8000 to 192000.
        words: Times of the sentence's words, counted from the sentence's first sample; empty where they are not known.
    """

    pcm: F32
    rate_hz: int
    words: tuple[WordTime, ...] = ()


class Voice(Protocol):
    """Speaks sentences. It belongs to one event loop; several sentences may be spoken at the same time."""

    def say(self, sentence: str) -> AsyncGenerator[VoiceChunk, None]:
        """Speak one sentence; leaving early cancels what is not made yet.

        Raises:
            VoiceMissingError: What the voice needs is not installed.
            VoiceUnreachableError: Its server does not answer, or has too much work.
            VoiceFailedError: The sentence was refused, or the answer is no speech.
        """
        ...

    def check(self) -> None:
        """Raise VoiceMissingError where what the voice needs is not installed; nothing is loaded."""
        ...

    async def warm(self) -> None:
        """Load what the first sentence would otherwise wait for; harmless when repeated. Errors are those of `say`."""
        ...

    async def close(self) -> None:
        """Free everything."""
        ...
