"""Texts that a live session speaks: one after the other, each sentence laid into the session's queue as soon as it is made."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

import numpy as np

from kernels.errors import LiveAnchorError, first_line
from pipeline.expression.looks import Look, Looks
from pipeline.expression.marks import Mark, take_marks, words_of
from pipeline.live.driving_voice import DrivingVoice
from pipeline.live.speech_queue import QueueFullError
from pipeline.media.resample import StreamingResampler
from pipeline.types import SAMPLE_RATE_HZ
from pipeline.voices.errors import VoiceFailedError
from pipeline.voices.sentences import SENTENCE_PAUSE_S, Sentence, sentences
from pipeline.voices.speaking import SpokenPiece, speak
from pipeline.voices.voice import Voice

AHEAD: Final = 8 * SAMPLE_RATE_HZ
"""Samples that wait to be heard; while there are more, no sentence is made, so that an interruption wastes little."""
MAX_TEXTS: Final = 100
"""Texts that may wait in one session."""

OnFailure = Callable[[LiveAnchorError, str], None]
"""Called with an error and the utterance that it cut short."""


@dataclass(frozen=True)
class _Text:
    utterance_id: str
    sentences: tuple[Sentence, ...]
    marks: tuple[Mark, ...]
    follows: bool

    def marks_of(self, sentence: int) -> list[tuple[int, Look]]:
        """Marks of one sentence, each with the number of its words before the mark; the last sentence has those at the end too."""
        first = sum(words_of(one.text) for one in self.sentences[:sentence])
        last = sentence + 1 == len(self.sentences)
        stop = first + words_of(self.sentences[sentence].text)
        return [
            (mark.word - first, mark.look) for mark in self.marks if first <= mark.word and (mark.word < stop or last)
        ]


class TextSpeaker:
    """Speaks texts into one session. It belongs to the session's event loop.

    Args:
        voice: Makes the sound.
        session: Takes the sound in and lets it be heard.
        on_failure: Told when a text cannot be spoken to its end; what was made of it is heard.
    """

    def __init__(self, voice: Voice, session: DrivingVoice, on_failure: OnFailure) -> None:
        self._voice, self._session, self._on_failure = voice, session, on_failure
        self._texts: deque[_Text] = deque()
        self._working: asyncio.Task[None] | None = None

    def say(self, text: str, *, follows: bool = False) -> str:
        """Queue a text behind everything that was pushed before.

        Args:
            text: What `spoken_text` returned; marks in it change the face (`pipeline.expression.marks`).
            follows: Whether it goes on with the text before it: where that is still heard, a pause between sentences comes first.

        Returns:
            Id of its utterance, of which events tell.

        Raises:
            InvalidInputError: A microphone drives the face, or a mark cannot be.
            QueueFullError: As many texts wait as may.
        """
        if len(self._texts) >= MAX_TEXTS:
            raise QueueFullError("text", f"{len(self._texts) + 1} waiting texts", f"at most {MAX_TEXTS}")
        marked = take_marks(text)
        utterance_id = self._session.announce()
        spoken = sentences(marked.text, soon=not follows)
        self._texts.append(_Text(utterance_id, tuple(spoken), marked.marks, follows))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work(), name="text-speaker")
        return utterance_id

    def cancel(self) -> None:
        """Forget every text and what is being made of one; what the session has taken in is the session's to cut."""
        self._texts.clear()
        if self._working is not None:
            self._working.cancel()
            self._working = None

    async def close(self) -> None:
        """Cancel everything, and return when nothing is being made any more."""
        working = self._working
        self.cancel()
        if working is not None:
            await asyncio.gather(working, return_exceptions=True)

    async def _work(self) -> None:
        while self._texts:
            text = self._texts.popleft()
            try:
                [outcome] = await asyncio.gather(self._speak(text), return_exceptions=True)
                if isinstance(outcome, BaseException):  # of any kind: the texts behind it are spoken all the same
                    if not isinstance(outcome, LiveAnchorError):
                        outcome = VoiceFailedError(first_line(outcome, named=True))
                    self._on_failure(outcome, text.utterance_id)
            finally:
                self._session.close(text.utterance_id)

    async def _speak(self, text: _Text) -> None:
        to_session = StreamingResampler(SAMPLE_RATE_HZ)
        await self._session.until_waiting(AHEAD)
        if text.follows and self._session.waiting:
            pause = np.zeros(round(SENTENCE_PAUSE_S * SAMPLE_RATE_HZ), np.float32)
            self._session.add(text.utterance_id, pause)
        begun: int | None = None
        async with aclosing(speak(self._voice, text.sentences)) as pieces:
            async for piece in pieces:
                marks: list[tuple[int, Looks]] = []
                if piece.sentence is not None and piece.sentence != begun:
                    begun = piece.sentence
                    marks = [(_place(word, piece), Looks((look,))) for word, look in text.marks_of(begun)]
                if not self._session.add(text.utterance_id, to_session.push(piece.pcm, piece.rate_hz)[:, 0], marks):
                    return
                await self._session.until_waiting(AHEAD)
        self._session.add(text.utterance_id, to_session.flush()[:, 0])


def _place(word: int, piece: SpokenPiece) -> int:
    """Samples of a sentence before a word, as far as its first piece knows: the sentence's first one where it tells no times."""
    times = [one for one in piece.words if words_of(one.text)]
    if not times:
        return 0
    at_s = times[word].start_s if word < len(times) else times[-1].stop_s
    return round(at_s * SAMPLE_RATE_HZ)
