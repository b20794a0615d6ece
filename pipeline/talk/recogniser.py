"""What was said, written down by a server of OpenAI's convention `POST /v1/audio/transcriptions`."""

from __future__ import annotations

import io
import json
import wave
from typing import Final

import numpy as np

from kernels.arrays import F32
from pipeline.servers.caller import ServerCaller, ServerErrors
from pipeline.talk.errors import AgentFailedError, AgentMissingError, AgentUnreachableError
from pipeline.talk.settings import HearingSettings
from pipeline.types import SAMPLE_RATE_HZ

PATH: Final = "audio/transcriptions"
MODEL: Final = "whisper-1"
"""What is asked for where no model is set: the convention insists on one, and servers with a single model take this name."""
MAX_ANSWER_BYTES: Final = 256 * 1024
MAX_CHARACTERS: Final = 4000
"""Characters of one turn; nobody says more in two minutes."""
_ERRORS: Final = ServerErrors(AgentMissingError, AgentUnreachableError, AgentFailedError, "transcript", quotes=False)


class Recogniser:
    """Asks one server what is said in a sound.

    Args:
        settings: Address, key, model, language, and how long the server may take.
    """

    def __init__(self, settings: HearingSettings) -> None:
        self._settings = settings
        self._server = ServerCaller(settings, _ERRORS)

    async def text_of(self, pcm: F32) -> str:
        """Write down what is said; empty where no words are.

        Args:
            pcm: float32 (n,), mono, 16 kHz, -1..1.

        Raises:
            AgentMissingError, AgentUnreachableError, AgentFailedError: As `Brain.answer` says.
        """
        settings = self._settings
        fields = {"model": settings.model or MODEL, "language": settings.language, "response_format": "json"}
        data = b""
        async with self._server.asked(
            PATH,
            data={name: value for name, value in fields.items() if value},
            files={"file": ("turn.wav", _wav(pcm), "audio/wav")},
        ) as answer:
            async for piece in answer.aiter_bytes():
                data += piece
                if len(data) > MAX_ANSWER_BYTES:
                    raise AgentFailedError("the transcript has no end")
        try:
            text = json.loads(data)["text"]
        except (ValueError, LookupError, TypeError) as error:
            raise AgentFailedError("the transcript is no JSON with a text") from error
        if not isinstance(text, str):
            raise AgentFailedError("the transcript is no JSON with a text")
        return " ".join(text.split())[:MAX_CHARACTERS]

    async def close(self) -> None:
        """Close all connections."""
        await self._server.close()


def _wav(pcm: F32) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((1, 2, SAMPLE_RATE_HZ, 0, "NONE", ""))
        writer.writeframes(np.rint(np.clip(pcm, -1.0, 1.0) * 32767).astype("<i2").tobytes())
    return file.getvalue()
