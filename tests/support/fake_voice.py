"""A voice without a model: a tone for each sentence, as long as it has characters, in silence that real voices add, too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import numpy as np

from kernels.errors import LiveAnchorError
from pipeline.voices.voice import VoiceChunk, WordTime

CHARACTER_S = 0.06
SILENCE_S = 0.25
LEVEL = 0.3


@dataclass
class FakeVoice:
    """Implements `pipeline.voices.voice.Voice`.

    Attributes:
        rate_hz: Rate of its samples.
        said: Sentences that were asked for.
        refused: Parts of sentences that it fails at, and how.
        missing: Why there is no voice at all.
        open: Sentences may be made; cleared, they wait.
        words: Whether it tells when words are heard.
        cancelled: Sentences that were left before their end.
        warmed: How often it was loaded ahead.
    """

    rate_hz: int = 24_000
    said: list[str] = field(default_factory=list)
    refused: dict[str, Exception] = field(default_factory=dict)
    missing: LiveAnchorError | None = None
    open: asyncio.Event | None = None
    words: bool = False
    cancelled: list[str] = field(default_factory=list)
    warmed: int = 0

    async def say(self, sentence: str) -> AsyncGenerator[VoiceChunk, None]:
        self.check()
        self.said.append(sentence)
        for part, error in self.refused.items():
            if part in sentence:
                raise error
        whole = False
        try:
            if self.open is not None:
                await self.open.wait()
            silence = np.zeros(round(SILENCE_S * self.rate_hz), np.float32)
            samples = round(len(sentence) * CHARACTER_S * self.rate_hz)
            tone = (LEVEL * np.sin(np.arange(samples) * (2 * np.pi * 220 / self.rate_hz))).astype(np.float32)
            pcm = np.concatenate([silence, tone, silence])
            for start in range(0, len(pcm), 4000):
                words = self._words_of(sentence) if self.words and not start else ()
                yield VoiceChunk(pcm[start : start + 4000], self.rate_hz, words)
            whole = True
        finally:
            if not whole:
                self.cancelled.append(sentence)

    def check(self) -> None:
        if self.missing is not None:
            raise self.missing

    async def warm(self) -> None:
        self.check()
        self.warmed += 1

    async def close(self) -> None:
        return None

    def _words_of(self, sentence: str) -> tuple[WordTime, ...]:
        found, place = [], 0
        for word in sentence.split():
            start_s = SILENCE_S + place * CHARACTER_S
            found.append(WordTime(word, start_s, start_s + len(word) * CHARACTER_S))
            place += len(word) + 1
        return tuple(found)
