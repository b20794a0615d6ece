"""A voice that is asked of a server by OpenAI's convention, `POST /v1/audio/speech`: JSON goes in, samples stream out.

Kokoro-FastAPI, Speaches, LocalAI, vLLM and others speak it. The answer holds no times, so words have none.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from pipeline.servers.caller import ServerCaller, ServerErrors
from pipeline.voices.errors import VoiceFailedError, VoiceMissingError, VoiceUnreachableError
from pipeline.voices.pcm_bytes import PcmBytes
from pipeline.voices.settings import VoiceSettings
from pipeline.voices.voice import VoiceChunk

PATH: Final = "audio/speech"
LONGEST_S: Final = 120.0
"""Seconds of sound that one sentence may have; a server that goes on beyond that is broken."""
_FOREIGN: Final = (
    "text/",
    "application/json",
    "audio/mp",
    "audio/ogg",
    "audio/opus",
    "audio/aac",
    "audio/flac",
    "audio/webm",
)
_ERRORS: Final = ServerErrors(VoiceMissingError, VoiceUnreachableError, VoiceFailedError, "speech")


class SpeechServer:
    """Implements `Voice` over HTTP. Connections are kept open between sentences.

    Args:
        settings: Address, key, model, voice, and how long the server may take.
    """

    def __init__(self, settings: VoiceSettings) -> None:
        self._settings = settings
        self._server = ServerCaller(settings, _ERRORS)

    async def say(self, sentence: str) -> AsyncGenerator[VoiceChunk, None]:
        """Speak one sentence, as `Voice.say` says; every piece that comes is handed on at once."""
        settings, heard = self._settings, 0.0
        body = {"input": sentence, "response_format": settings.audio, "model": settings.model, "voice": settings.voice}
        body = {name: value for name, value in body.items() if value}
        async with self._server.asked(PATH, json=body) as answer:
            kind = str(answer.headers.get("content-type", "")).lower()
            if kind.startswith(_FOREIGN):
                raise VoiceFailedError(f"the server sent {kind[:40]}, where 16 bit PCM or WAV was asked for")
            samples = PcmBytes(settings.pcm_rate_hz)
            async for data in answer.aiter_bytes():
                pcm = samples.push(data)
                heard += len(pcm) / samples.rate_hz
                if heard > LONGEST_S:
                    raise VoiceFailedError(f"the server sent more than {LONGEST_S:g} s of sound for one sentence")
                if len(pcm):
                    yield VoiceChunk(pcm, samples.rate_hz)
        if not heard:
            raise VoiceFailedError("the server answered without any sound")

    def check(self) -> None:
        """Raise VoiceMissingError where the HTTP client is not installed."""
        self._server.open()

    async def warm(self) -> None:
        """Make the client; the server itself is not asked."""
        self._server.open()

    async def close(self) -> None:
        """Close all connections."""
        await self._server.close()
