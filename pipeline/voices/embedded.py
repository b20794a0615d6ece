"""The embedded voice as a `Voice`: offline, English, in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Final

from pipeline.voices.embedded_model import RATE_HZ, EmbeddedModel, SaidPhonemes
from pipeline.voices.errors import VoiceMissingError
from pipeline.voices.voice import VoiceChunk

PACKAGE: Final = "hibari"
FIRST_WORDS: Final = "Ready for zorbulins."
"""Spoken at the start: a word that no dictionary knows loads the network for those, too."""


class EmbeddedVoice:
    """Implements `Voice`. One sentence is made at a time, whole; all sessions of a process share the thread and the network."""

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._model: EmbeddedModel | None = None

    async def say(self, sentence: str) -> AsyncGenerator[VoiceChunk, None]:
        """Speak one sentence, as `Voice.say` says; it comes in one piece."""
        said = await self._in_thread(sentence)
        yield VoiceChunk(said.pcm, RATE_HZ, said.words)

    def check(self) -> None:
        """Raise VoiceMissingError where the package is not installed."""
        if find_spec(PACKAGE) is None:
            raise VoiceMissingError("hibari-tts")

    async def warm(self) -> None:
        """Load the network and speak some words."""
        if self._model is None:
            await self._in_thread(FIRST_WORDS)

    async def close(self) -> None:
        """End the thread; a sentence that is being made is not waited for."""
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.shutdown(wait=False, cancel_futures=True)

    async def _in_thread(self, sentence: str) -> SaidPhonemes:
        self.check()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="voice")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._said, sentence)

    def _said(self, sentence: str) -> SaidPhonemes:
        if self._model is None:
            self._model = EmbeddedModel()
        return self._model.say(sentence)
