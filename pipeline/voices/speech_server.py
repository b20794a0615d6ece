"""A voice that is asked of a server by OpenAI's convention, `POST /v1/audio/speech`: JSON goes in, samples stream out.

Kokoro-FastAPI, Speaches, LocalAI, vLLM and others speak it. The answer holds no times, so words have none.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

from kernels.errors import first_line
from pipeline.voices.errors import VoiceFailedError, VoiceMissingError, VoiceUnreachableError
from pipeline.voices.pcm_bytes import PcmBytes
from pipeline.voices.settings import VoiceSettings
from pipeline.voices.voice import VoiceChunk

if TYPE_CHECKING:
    import httpx

LONGEST_S: Final = 120.0
"""Seconds of sound that one sentence may have; a server that goes on beyond that is broken."""
LATER: Final = (408, 425, 429, 500, 502, 503, 504)
"""Statuses after which the same request may succeed."""
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
_SHOWN_BYTES: Final = 2000


class SpeechServer:
    """Implements `Voice` over HTTP. Connections are kept open between sentences.

    Args:
        settings: Address, key, model, voice, and how long the server may take.
    """

    def __init__(self, settings: VoiceSettings) -> None:
        self._settings = settings
        self._client: httpx.AsyncClient | None = None

    async def say(self, sentence: str) -> AsyncGenerator[VoiceChunk, None]:
        """Speak one sentence, as `Voice.say` says; every piece that comes is handed on at once."""
        heard = 0.0
        async with AsyncExitStack() as stack:
            client = self._opened()
            stack.enter_context(_told())
            answer = await stack.enter_async_context(self._asked(client, sentence))
            samples = PcmBytes(self._settings.pcm_rate_hz)
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
        self._opened()

    async def warm(self) -> None:
        """Make the client; the server itself is not asked."""
        self._opened()

    async def close(self) -> None:
        """Close all connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    @asynccontextmanager
    async def _asked(self, client: httpx.AsyncClient, sentence: str) -> AsyncGenerator[httpx.Response, None]:
        settings = self._settings
        body = {"input": sentence, "response_format": settings.audio, "model": settings.model, "voice": settings.voice}
        body = {name: value for name, value in body.items() if value}
        key = settings.key.get_secret_value()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        async with client.stream("POST", settings.endpoint, json=body, headers=headers) as answer:
            if answer.is_error:
                said = await _said(answer)
                if answer.status_code in LATER:
                    raise VoiceUnreachableError(f"answered {answer.status_code}{said}")
                raise VoiceFailedError(f"the server answered {answer.status_code}{said}")
            if not answer.is_success:
                raise VoiceFailedError(f"the server answered {answer.status_code}, which is no speech")
            kind = str(answer.headers.get("content-type", "")).lower()
            if kind.startswith(_FOREIGN):
                raise VoiceFailedError(f"the server sent {kind[:40]}, where 16 bit PCM or WAV was asked for")
            yield answer

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            try:
                import httpx  # of an extra: a machine without a server needs none
            except ImportError as error:
                raise VoiceMissingError("httpx") from error
            timeout = httpx.Timeout(self._settings.silent_s, connect=self._settings.connect_s)
            self._client = httpx.AsyncClient(timeout=timeout)
        return self._client


@contextmanager
def _told() -> Iterator[None]:
    """Tell the client's errors as ours."""
    import httpx

    try:
        yield
    except httpx.TimeoutException as error:
        raise VoiceUnreachableError(f"does not answer in time ({type(error).__name__})") from error
    except httpx.HTTPError as error:
        reason = first_line(error, 100, named=True)
        raise VoiceUnreachableError(f"cannot be reached, or broke off ({reason})") from error


async def _said(answer: Any) -> str:
    """The server's own words, shortened; empty where it said nothing readable."""
    data = b""
    async for piece in answer.aiter_bytes():
        data += piece
        if len(data) > _SHOWN_BYTES:
            break
    text = " ".join(data[:_SHOWN_BYTES].decode("utf-8", "replace").split())
    return f": {text[:160]}" if text else ""
