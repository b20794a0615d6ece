"""Texts that a live session speaks: one after the other, each sentence laid into the session's queue as soon as it is made."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from kernels.errors import LiveAnchorError, first_line
from pipeline.live.driving_voice import DrivingVoice
from pipeline.live.speech_queue import QueueFullError
from pipeline.media.resample import StreamingResampler
from pipeline.types import SAMPLE_RATE_HZ
from pipeline.voices.errors import VoiceFailedError
from pipeline.voices.sentences import Sentence, sentences
from pipeline.voices.speaking import speak
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

    def say(self, text: str) -> str:
        """Queue a text behind everything that was pushed before.

        Args:
            text: What `spoken_text` returned.

        Returns:
            Id of its utterance, of which events tell.

        Raises:
            InvalidInputError: A microphone drives the face.
            QueueFullError: As many texts wait as may.
        """
        if len(self._texts) >= MAX_TEXTS:
            raise QueueFullError("text", f"{len(self._texts) + 1} waiting texts", f"at most {MAX_TEXTS}")
        utterance_id = self._session.announce()
        self._texts.append(_Text(utterance_id, tuple(sentences(text, soon=True))))
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
        async with aclosing(speak(self._voice, text.sentences)) as pieces:
            async for piece in pieces:
                if not self._session.add(text.utterance_id, to_session.push(piece.pcm, piece.rate_hz)[:, 0]):
                    return
                await self._session.until_waiting(AHEAD)
        self._session.add(text.utterance_id, to_session.flush()[:, 0])
