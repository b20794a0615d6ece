"""A server of the convention `POST /v1/audio/speech` on this machine: a tone for every input, or something worse."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from starlette.responses import StreamingResponse

from tests.support.http_server import running

RATE_HZ = 24_000
TONE_S = 0.4


def tone_bytes(seconds: float = TONE_S, channels: int = 1) -> bytes:
    """A tone of -10 dBFS, s16le."""
    tone = 10_000 * np.sin(np.arange(round(seconds * RATE_HZ)) * (2 * np.pi * 300 / RATE_HZ))
    return np.repeat(tone.astype("<i2"), channels).tobytes()


def wav_header(
    rate_hz: int, channels: int = 1, size: int = 0xFFFFFFFF, extra: bytes = b"", bits: int = 16, kind: int = 1
) -> bytes:
    """The front of a WAV whose length is not known yet."""
    form = struct.pack("<HHIIHH", kind, channels, rate_hz, rate_hz * channels * bits // 8, channels * bits // 8, bits)
    return (
        b"RIFF"
        + struct.pack("<I", size)
        + b"WAVE"
        + extra
        + b"fmt "
        + struct.pack("<I", 16)
        + form
        + b"data"
        + struct.pack("<I", size)
    )


@dataclass
class SpeechApi:
    """What the server is to do, and what came.

    Attributes:
        url: Its base address, with `/v1`.
        body: What it answers with.
        piece: Bytes of a piece of the answer.
        status: Status of its answers.
        media_type: Content type of its answers.
        stalls: It sends half and then nothing until the client leaves.
        breaks: It announces more than it sends.
        asked: Bodies of the requests, and their headers.
        left: Clients that went away before the end.
    """

    url: str = ""
    body: bytes = field(default_factory=tone_bytes)
    piece: int = 1999
    status: int = 200
    media_type: str = "audio/pcm"
    stalls: bool = False
    breaks: bool = False
    asked: list[tuple[dict[str, Any], dict[str, str]]] = field(default_factory=list)
    left: int = 0


@contextmanager
def speech_api() -> Iterator[SpeechApi]:
    """Run one."""
    told, app = SpeechApi(), FastAPI()

    async def pieces(request: Request) -> AsyncIterator[bytes]:
        try:
            for start in range(0, len(told.body) // (2 if told.stalls else 1), told.piece):
                yield told.body[start : start + told.piece]
                await asyncio.sleep(0)
            if told.stalls:
                await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.left += 1
            raise

    @app.post("/v1/audio/speech")
    async def speech(request: Request) -> Response:
        told.asked.append((await request.json(), dict(request.headers)))
        if told.status != 200:
            return Response(told.body, told.status, media_type=told.media_type)
        headers = {"Content-Length": str(len(told.body) + 100)} if told.breaks else {}
        return StreamingResponse(pieces(request), media_type=told.media_type, headers=headers)

    with running(app) as port:
        told.url = f"http://127.0.0.1:{port}/v1"
        yield told
