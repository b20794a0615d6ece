"""An answer from a server of OpenAI's convention `POST /v1/chat/completions`, as it is written.

The answer is a stream of server-sent events (WHATWG HTML, 9.2), each a JSON document whose `choices[0].delta.content` holds the
next piece, closed by `[DONE]`. A server that does not stream and answers with one document is understood as well.
"""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

from pipeline.servers.caller import ServerCaller, ServerErrors
from pipeline.talk.errors import AgentFailedError, AgentMissingError, AgentUnreachableError
from pipeline.talk.settings import AgentSettings

PATH: Final = "chat/completions"
MAX_LINE_BYTES: Final = 64 * 1024
MAX_DOCUMENT_BYTES: Final = 1024 * 1024
_ERRORS: Final = ServerErrors(AgentMissingError, AgentUnreachableError, AgentFailedError, "reply", quotes=False)
_NO_REPLY: Final = "the reply is no chat completion"


class ChatServer:
    """Asks one server.

    Args:
        settings: Address, key, model, and how long and how much the server may write.
        clock: Gives monotonic seconds.
    """

    def __init__(self, settings: AgentSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._server = ServerCaller(settings, _ERRORS)

    async def reply(self, messages: Sequence[dict[str, str]]) -> AsyncGenerator[str, None]:
        """Write the next message, piece by piece; leaving early tells the server.

        Args:
            messages: The conversation, each with `role` and `content`.

        Raises:
            AgentMissingError, AgentUnreachableError, AgentFailedError: As `Brain.answer` says; also where the stream breaks off
                before its end, after what came.
        """
        settings, until = self._settings, self._clock() + self._settings.reply_s
        body: dict[str, Any] = {"messages": list(messages), "stream": True}
        if settings.model:
            body["model"] = settings.model
        written = 0
        async with self._server.asked(PATH, json=body) as answer:
            kind = str(answer.headers.get("content-type", "")).lower()
            streams = not kind.startswith("application/json")
            read = _streamed if streams else _whole
            async with aclosing(read(answer.aiter_bytes())) as pieces:
                async for piece in pieces:
                    if self._clock() > until:
                        raise AgentUnreachableError(f"did not end its reply within {settings.reply_s:g} s")
                    left = settings.reply_characters - written
                    written += len(piece)
                    if piece:
                        yield piece[:left]
                    if written >= settings.reply_characters:
                        return

    async def close(self) -> None:
        """Close all connections."""
        await self._server.close()


async def _streamed(data: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
    """Pieces of a streamed reply; an event without text is an empty piece, so that time is looked at."""
    finished = False
    async for line in _lines(data):
        if not line.startswith(b"data:"):
            yield ""  # a comment, which keeps the connection open
            continue
        event = line[5:].strip()
        if event == b"[DONE]":
            return
        choice = _choice(event)
        if choice is None:
            continue
        finished = finished or choice.get("finish_reason") is not None
        yield _text(choice.get("delta"))
    if not finished:
        raise AgentUnreachableError("broke off in the middle of a reply")


async def _whole(data: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
    document = b""
    async for piece in data:
        document += piece
        if len(document) > MAX_DOCUMENT_BYTES:
            raise AgentFailedError("the reply has no end")
    choice = _choice(document)
    if choice is None:
        raise AgentFailedError(_NO_REPLY)
    yield _text(choice.get("message"))


async def _lines(data: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Lines that are not empty; the last one may lack its end."""
    rest = b""
    async for piece in data:
        *lines, rest = (rest + piece).replace(b"\r", b"\n").split(b"\n")
        if len(rest) > MAX_LINE_BYTES:
            raise AgentFailedError("a line of the reply has no end")
        for line in lines:
            if line:
                yield line
    if rest:
        yield rest


def _choice(document: bytes) -> dict[str, Any] | None:
    """The first choice of a document; None where it has none, as those have that tell the use of tokens.

    Raises:
        AgentFailedError: It is no document of the convention, or tells of an error.
    """
    try:
        found = json.loads(document)
    except ValueError as error:
        raise AgentFailedError(_NO_REPLY) from error
    if not isinstance(found, dict) or not isinstance(found.get("choices"), list):
        raise AgentFailedError(
            "the server told of an error" if isinstance(found, dict) and "error" in found else _NO_REPLY
        )
    choices = found["choices"]
    if choices and not isinstance(choices[0], dict):
        raise AgentFailedError(_NO_REPLY)
    return choices[0] if choices else None


def _text(message: object) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, str) else ""
