"""Sentences spoken one after the other: their sound without the voice's own silences, and a pause between them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

import numpy as np

from kernels.arrays import F32
from pipeline.voices.errors import VoiceFailedError
from pipeline.voices.sentences import Sentence
from pipeline.voices.trim import Trimmer
from pipeline.voices.voice import Voice, WordTime


@dataclass(frozen=True, eq=False)
class SpokenPiece:
    """Samples of a text, in their order.

    Attributes:
        pcm: float32 (n,), mono, -1..1, n >= 1.
        rate_hz: Samples per second.
        sentence: Index of the sentence that is heard; None for the pause after one.
        words: Times of that sentence's words, counted from its first piece, where this piece brings them.
    """

    pcm: F32
    rate_hz: int
    sentence: int | None
    words: tuple[WordTime, ...] = ()


async def speak(voice: Voice, texts: Sequence[Sentence]) -> AsyncGenerator[SpokenPiece, None]:
    """Speak sentences in their order; a sentence is asked of the voice when the one before has been taken.

    Raises:
        LiveAnchorError: As `Voice.say` says.
        VoiceFailedError: Nothing could be heard of any sentence.
    """
    heard = False
    for index, text in enumerate(texts):
        rate_hz = 0
        async with aclosing(_said(voice, index, text.text)) as pieces:
            async for piece in pieces:
                rate_hz = piece.rate_hz
                yield piece
        heard = heard or rate_hz > 0
        if rate_hz and index + 1 < len(texts):
            yield SpokenPiece(np.zeros(round(text.pause_s * rate_hz), np.float32), rate_hz, None)
    if not heard:
        raise VoiceFailedError("it made no sound of this text")


async def _said(voice: Voice, index: int, text: str) -> AsyncGenerator[SpokenPiece, None]:
    """What is heard of one sentence."""
    trimmer: Trimmer | None = None
    words: tuple[WordTime, ...] = ()
    rate_hz = 0
    async with aclosing(voice.say(text)) as chunks:
        async for chunk in chunks:
            if trimmer is None or chunk.rate_hz != rate_hz:
                trimmer, rate_hz = Trimmer(chunk.rate_hz), chunk.rate_hz
            pcm, words = trimmer.push(chunk.pcm), words + chunk.words
            if len(pcm):
                yield SpokenPiece(pcm, rate_hz, index, _earlier(words, trimmer.cut / rate_hz))
                words = ()
    if trimmer is not None and len(rest := trimmer.flush()):
        yield SpokenPiece(rest, rate_hz, index, _earlier(words, trimmer.cut / rate_hz))


def _earlier(words: tuple[WordTime, ...], seconds: float) -> tuple[WordTime, ...]:
    return tuple(
        replace(word, start_s=max(word.start_s - seconds, 0.0), stop_s=max(word.stop_s - seconds, 0.0))
        for word in words
    )
