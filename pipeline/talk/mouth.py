"""What a conversation does to its session: the presenter says words or sound, is interrupted, and the client is told."""

from __future__ import annotations

import asyncio
from typing import Protocol

from kernels.arrays import F32
from pipeline.live.session import LiveSession
from pipeline.live.text_speaker import TextSpeaker
from pipeline.media.loudness import network_gain
from pipeline.voices.voice import Voice


class Mouth(Protocol):
    """The presenter of one session."""

    @property
    def busy(self) -> bool:
        """Whether something is said, or waits to be said."""
        ...

    def say(self, text: str, follows: bool) -> str:
        """Say a sentence and return the id of its utterance; errors are those of `TextSpeaker.say` and `Voice.check`.

        Args:
            text: What `spoken_text` returned.
            follows: Whether it goes on with what the sentence before it said.
        """
        ...

    async def play(self, pcm: F32) -> str:
        """Say a sound, float32 (n,), mono, 16 kHz, and return the id of its utterance; errors are those of `DrivingVoice.speak`."""
        ...

    def interrupt(self) -> None:
        """Stop, and forget what waits."""
        ...

    def tell(self, event: str, detail: str = "", utterance_id: str | None = None) -> None:
        """Tell the client of something; the arguments are those of `LiveEvent`."""
        ...


class SessionMouth:
    """Implements `Mouth` with a live session.

    Args:
        session: The session.
        texts: Speaks texts into it.
        voice: Makes their sound.
    """

    def __init__(self, session: LiveSession, texts: TextSpeaker, voice: Voice) -> None:
        self._session, self._texts, self._voice = session, texts, voice

    @property
    def busy(self) -> bool:
        """Implement `Mouth.busy`."""
        return self._session.voice.pending

    def say(self, text: str, follows: bool) -> str:
        """Implement `Mouth.say`."""
        self._voice.check()
        return self._texts.say(text, follows=follows)

    async def play(self, pcm: F32) -> str:
        """Implement `Mouth.play`."""
        return self._session.voice.speak(pcm, await asyncio.to_thread(network_gain, pcm))

    def interrupt(self) -> None:
        """Implement `Mouth.interrupt`."""
        self._texts.cancel()
        self._session.interrupt()

    def tell(self, event: str, detail: str = "", utterance_id: str | None = None) -> None:
        """Implement `Mouth.tell`."""
        self._session.tell(event, detail, utterance_id)
