"""A multipart/form-data body -> fields, while it comes in. Files stay in memory, bounded; unknown fields stop the reading."""

from __future__ import annotations

import io
from contextlib import aclosing
from typing import Any, Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from pipeline.voices.sentences import MAX_CHARACTERS
from serve_app.http.body.pieces import BodyLimits, FormShape, RawForm, Upload, body_pieces, names_a_file
from serve_app.http.capacity import Hold
from serve_app.http.problems.errors import (
    BodyMalformedError,
    DuplicateFieldError,
    FieldTooLargeError,
    MissingFieldError,
    UnknownFieldError,
)

MAX_TEXT_BYTES: Final = 1024
MAX_PROSE_BYTES: Final = 4 * MAX_CHARACTERS
MAX_HEADERS: Final = 8
MAX_HEADER_BYTES: Final = 2048
_PLAIN_ENCODINGS: Final = (b"", b"7bit", b"8bit", b"binary")
_ALLOWED_BODY: Final = "a complete multipart/form-data body"


async def read_multipart(request: Request, shape: FormShape, limits: BodyLimits, hold: Hold) -> RawForm:
    """Read and check a form.

    Args:
        request: The request whose body is read; its content type is multipart/form-data.
        shape: Which fields there may be; each at most once.
        limits: Limits of the whole body.
        hold: Charged with every byte of a file that is kept.

    Raises:
        InvalidInputError: One of `serve_app.http.problems.errors`.
        BusyError: All requests together hold too much.
        ClientDisconnect: The client went away.
    """
    options = parse_options_header(request.headers.get("content-type"))[1]
    boundary = options.get(b"boundary", b"")
    if not boundary:
        raise BodyMalformedError("Content-Type", "no boundary", "multipart/form-data; boundary=...")
    reader = _FormReader(shape, hold)
    try:
        parser = MultipartParser(
            boundary, reader.callbacks(), max_header_count=MAX_HEADERS, max_header_size=MAX_HEADER_BYTES
        )
        pieces = body_pieces(request, limits)
        async with aclosing(pieces):
            async for piece in pieces:
                parser.write(piece)
    except FormParserError as error:
        raise BodyMalformedError("body", f"a broken form ({str(error)[:80]})", _ALLOWED_BODY) from error
    if not reader.complete:
        raise BodyMalformedError("body", "a form that ends before its closing boundary", _ALLOWED_BODY)
    return reader.form


class _FormReader:
    """Takes what the parser finds; one part at a time."""

    def __init__(self, shape: FormShape, hold: Hold) -> None:
        self.form = RawForm()
        self.complete = False
        self._shape = shape
        self._hold = hold
        self._headers: dict[bytes, bytes] = {}
        self._header: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        self._name = ""
        self._filename: str | None = None
        self._data = io.BytesIO()

    def callbacks(self) -> Any:
        """As the parser wants them."""
        return {
            "on_part_begin": self._part_begin,
            "on_header_field": lambda data, start, end: self._header[0].extend(data[start:end]),
            "on_header_value": lambda data, start, end: self._header[1].extend(data[start:end]),
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_part_data": self._part_data,
            "on_part_end": self._part_end,
            "on_end": self._end,
        }

    def _part_begin(self) -> None:
        self._headers = {}
        self._header = (bytearray(), bytearray())
        self._data = io.BytesIO()

    def _header_end(self) -> None:
        name, value = self._header
        self._headers[bytes(name).lower()] = bytes(value)
        self._header = (bytearray(), bytearray())

    def _headers_finished(self) -> None:
        disposition, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        if disposition != b"form-data" or b"name" not in options:
            raise BodyMalformedError("body", "a part without Content-Disposition: form-data; name=...", _ALLOWED_BODY)
        self._name = _text(options[b"name"])
        filename = options.get(b"filename")
        self._filename = None if filename is None else _text(filename)
        if self._name not in (*self._shape.files, *self._shape.values):
            raise UnknownFieldError(self._name, "a field of that name", f"the fields {self._shape.known}")
        if self._name in self.form.files or self._name in self.form.values:
            raise DuplicateFieldError(self._name, "the field twice", "the field once")
        if self._name in self._shape.values and self._filename is not None:
            raise BodyMalformedError(self._name, "a file", "text, not a file")
        if self._headers.get(b"content-transfer-encoding", b"").strip().lower() not in _PLAIN_ENCODINGS:
            raise BodyMalformedError(self._name, "a part with a content transfer encoding", "bytes as they are")

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        if self._name in self._shape.files:
            self._hold.charge(end - start)
        elif self._data.tell() + end - start > (most := self._most_bytes()):
            raise FieldTooLargeError(self._name, f"more than {most} bytes", f"at most {most} bytes")
        self._data.write(memoryview(data)[start:end])

    def _most_bytes(self) -> int:
        return MAX_PROSE_BYTES if self._name in self._shape.texts else MAX_TEXT_BYTES

    def _part_end(self) -> None:
        data = self._data.getvalue()  # shares the buffer, copies nothing
        if self._name in self._shape.values:
            try:
                self.form.values[self._name] = data.decode("utf-8")
            except UnicodeDecodeError as error:
                raise BodyMalformedError(self._name, "bytes that are no UTF-8", "UTF-8 text") from error
        elif self._filename is None and names_a_file(data):
            raise MissingFieldError(
                self._name, f"{len(data)} bytes of text and no file", f"a file; curl: -F {self._name}=@FILE"
            )
        elif data or self._filename:  # a browser sends a file input that was left empty as no bytes without a name
            self.form.files[self._name] = Upload(data, self._filename or "")
        self._data = io.BytesIO()

    def _end(self) -> None:
        self.complete = True


def _text(raw: bytes) -> str:
    """A name out of a header; what is no UTF-8 cannot be the name of a field."""
    return raw.decode("utf-8", "replace")


def need_file(form: RawForm, name: str, allowed: str) -> Upload:
    """A file field that must be there.

    Raises:
        MissingFieldError: It is not.
    """
    found = form.files.get(name)
    if found is None:
        raise MissingFieldError(name, "nothing", allowed)
    return found
