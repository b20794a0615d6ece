"""A server on this machine that writes down speech and answers people, by OpenAI's conventions, or does something worse."""

from __future__ import annotations

import asyncio
import io
import json
import wave
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.datastructures import UploadFile
from starlette.responses import StreamingResponse

from tests.support.http_server import running


def delta(text: str, finish: str | None = None) -> bytes:
    """One event of a streamed reply."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def reply(*pieces: str) -> list[bytes]:
    """A whole streamed reply, as servers write it: a role first, the use of tokens at the end."""
    role = b'data: {"choices": [{"delta": {"role": "assistant", "content": null}, "finish_reason": null}]}\n\n'
    usage = b'data: {"choices": [], "usage": {"total_tokens": 7}}\n\n'
    return [role, *map(delta, pieces), delta("", "stop"), usage, b"data: [DONE]\n\n"]


@dataclass
class AgentApi:
    """What the server is to do, and what came.

    Attributes:
        url: Its base address, with `/v1`.
        transcript: What it hears: text, or the bytes of another answer.
        reply: What it answers with, piece by piece.
        status: Status of its replies; that of transcripts is `heard_status`.
        media_type: Content type of its replies.
        stalls: After its pieces it sends nothing until the client leaves.
        breaks: It announces more than it sends.
        heard: Fields of the requests for a transcript, their headers, seconds and rate of the sound.
        asked: Bodies of the requests for a reply, and their headers.
        left: Clients that went away before the end.
    """

    url: str = ""
    transcript: str | bytes = "What is new?"
    reply: list[bytes] = field(default_factory=lambda: reply("Good ", "evening. Here ", "is the news."))
    status: int = 200
    heard_status: int = 200
    media_type: str = "text/event-stream"
    stalls: bool = False
    breaks: bool = False
    heard: list[tuple[dict[str, str], dict[str, str], float, int]] = field(default_factory=list)
    asked: list[tuple[dict[str, Any], dict[str, str]]] = field(default_factory=list)
    left: int = 0


@contextmanager
def agent_api() -> Iterator[AgentApi]:
    """Run one."""
    told, app = AgentApi(), FastAPI()

    async def pieces() -> AsyncIterator[bytes]:
        try:
            for piece in told.reply:
                yield piece
                await asyncio.sleep(0)
            if told.stalls:
                await asyncio.sleep(60)
        except asyncio.CancelledError:
            told.left += 1
            raise

    @app.post("/v1/audio/transcriptions")
    async def transcriptions(request: Request) -> Response:
        async with request.form() as form:
            file = form["file"]
            assert isinstance(file, UploadFile)
            with wave.open(io.BytesIO(await file.read())) as sound:
                seconds, rate_hz = sound.getnframes() / sound.getframerate(), sound.getframerate()
            fields = {name: value for name, value in form.items() if isinstance(value, str)}
        told.heard.append((fields, dict(request.headers), seconds, rate_hz))
        text = told.transcript
        body = text if isinstance(text, bytes) else json.dumps({"text": text}).encode()
        return Response(body, told.heard_status, media_type="application/json")

    @app.post("/v1/chat/completions")
    async def completions(request: Request) -> Response:
        told.asked.append((await request.json(), dict(request.headers)))
        if told.status != 200:
            return Response(b"".join(told.reply), told.status)
        headers = {"Content-Length": str(len(b"".join(told.reply)) + 100)} if told.breaks else {}
        return StreamingResponse(pieces(), media_type=told.media_type, headers=headers)

    with running(app) as port:
        told.url = f"http://127.0.0.1:{port}/v1"
        yield told
