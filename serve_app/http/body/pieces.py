"""Reading a request's body piece by piece, never more than allowed. Nothing is written to disk."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request

from serve_app.http.capacity import Hold
from serve_app.http.problems.errors import (
    BodyMalformedError,
    BodyTooLargeError,
    MisplacedFieldError,
    UploadTooSlowError,
)

MULTIPART: Final = "multipart/form-data"
JSON: Final = "application/json"
_DIGITS: Final = re.compile(r"[0-9]{1,18}")
_FILE_NAME: Final = re.compile(r"[^\x00-\x1f\x7f]{1,240}\.[A-Za-z0-9]{2,5}\s?")
_LONGEST_NAME_BYTES: Final = 1000


@dataclass(frozen=True)
class Upload:
    """A file field.

    Attributes:
        data: Its bytes.
        filename: As the client said; empty when it said none. Never used as a path.
    """

    data: bytes
    filename: str = ""


@dataclass(frozen=True)
class RawForm:
    """Fields as they came: files by name, and text (or, from JSON, plain values) by name."""

    files: dict[str, Upload] = field(default_factory=dict)
    values: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class FormShape:
    """Which fields a route knows.

    Attributes:
        files: Names of file fields.
        values: Names of the others.
        texts: Those of the others that hold prose, and so may be longer.
    """

    files: tuple[str, ...]
    values: tuple[str, ...]
    texts: tuple[str, ...] = ()

    @property
    def known(self) -> str:
        """All names, for messages."""
        return ", ".join((*self.files, *self.values))


@dataclass(frozen=True)
class BodyLimits:
    """What a body may be.

    Attributes:
        max_bytes: Most bytes.
        idle_s: Longest pause.
        total_s: Longest time for all of it.
        min_bytes_per_s: Slowest rate on the whole, from `idle_s` on; 0 for no bound.
    """

    max_bytes: int
    idle_s: float
    total_s: float
    min_bytes_per_s: float = 0.0


def names_a_file(content: bytes | str) -> bool:
    """Whether what came for a file looks like a file's name: callers forget to send the file itself."""
    if len(content) > _LONGEST_NAME_BYTES:
        return False
    try:
        text = content if isinstance(content, str) else content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return _FILE_NAME.fullmatch(text) is not None


def content_type(request: Request) -> str:
    """The body's content type without its parameters, in lower case; empty when there is none."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def refuse_query(request: Request, shape: FormShape) -> None:
    """Fields belong into the body; in the address they would be overlooked. Other names are left to proxies and logs.

    Raises:
        MisplacedFieldError: One is in the address.
    """
    for name in request.query_params:
        if name in shape.files or name in shape.values:
            raise MisplacedFieldError(name, "the field in the address", "the field in the body")


async def read_whole(request: Request, limits: BodyLimits, hold: Hold) -> bytes:
    """The body at once.

    Args:
        request: The request whose body is read.
        limits: Limits of the body.
        hold: Charged with every byte.

    Raises:
        InvalidInputError: See `body_pieces`.
        BusyError: All requests together hold too many bytes.
        ClientDisconnect: The client went away.
    """
    body = io.BytesIO()
    async with aclosing(body_pieces(request, limits)) as pieces:
        async for piece in pieces:
            hold.charge(len(piece))
            body.write(piece)
    return body.getvalue()


async def body_pieces(request: Request, limits: BodyLimits) -> AsyncGenerator[bytes, None]:
    """The body as it comes in.

    Raises:
        BodyTooLargeError: The length that was announced, or the bytes that came, exceed the limit.
        BodyMalformedError: The announced length is no number.
        UploadTooSlowError: It pauses or takes too long.
        ClientDisconnect: The client went away.
    """
    announced = request.headers.get("content-length")
    if announced is not None:
        if not _DIGITS.fullmatch(announced):
            raise BodyMalformedError("Content-Length", announced, "a number of bytes")
        if int(announced) > limits.max_bytes:
            raise _too_large(f"{announced} bytes", limits.max_bytes)
    size, stream, clock = 0, request.stream(), asyncio.get_running_loop().time
    began = clock()
    while True:
        deadline = began + limits.total_s
        if limits.min_bytes_per_s:
            deadline = min(deadline, began + limits.idle_s + size / limits.min_bytes_per_s)
        try:
            async with asyncio.timeout_at(min(deadline, clock() + limits.idle_s)):
                piece = await anext(stream, None)
        except TimeoutError as error:
            slowest = f", {limits.min_bytes_per_s:g} bytes/s" if limits.min_bytes_per_s else ""
            allowed = f"a pause of at most {limits.idle_s:g} s{slowest}, {limits.total_s:g} s for all of it"
            raise UploadTooSlowError("body", f"{size} bytes, then nothing in time", allowed) from error
        if piece is None:
            return
        size += len(piece)
        if size > limits.max_bytes:
            raise _too_large(f"more than {limits.max_bytes} bytes", limits.max_bytes)
        if piece:
            yield piece


def _too_large(got: str, limit: int) -> BodyTooLargeError:
    return BodyTooLargeError("body", got, f"at most {limit} bytes")
