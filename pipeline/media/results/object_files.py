"""Results in an object store (S3, Google, Azure) through obstore. An object appears whole, or not at all.

A store takes a large file in parts as it comes; what is abandoned is told to the store, so that no part is left to be paid for.
Credentials, endpoint, region and encryption come from the environment (`AWS_...`, `GOOGLE_...`, `AZURE_...`).
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, BinaryIO, Final, cast

import obstore
import structlog
from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import ObjectStore, from_url

from kernels.errors import first_line

TYPE: Final = "video/mp4"
PART_BYTES: Final = 8 * 2**20
"""Bytes of one part of an upload; a smaller file is one request."""
ANSWER_S: Final = timedelta(seconds=30)
CONNECT_S: Final = timedelta(seconds=5)
RETRIES: Final = 3
PLAIN_ENV: Final = "AWS_ALLOW_HTTP"
"""Variable of the environment that allows an endpoint without TLS."""
_SAID: Final[dict[type[BaseException], str]] = {
    PermissionDeniedError: "permission denied",
    PermissionError: "permission denied",
    UnauthenticatedError: "the credentials are not taken",
}


def store_at(uri: str) -> ObjectStore:
    """Open an object store.

    Args:
        uri: Such as `s3://bucket/results`.

    Raises:
        OSError: The address or the environment is not such that a store can be reached.
    """
    with _reaching():
        return from_url(
            uri,
            client_options={
                "timeout": ANSWER_S,
                "connect_timeout": CONNECT_S,
                "allow_http": os.environ.get(PLAIN_ENV, "").lower() in ("1", "true"),
            },
            retry_config={"max_retries": RETRIES, "retry_timeout": ANSWER_S},
        )


class ObjectFiles:
    """Implements `ResultFiles`.

    Args:
        store: The store, its prefix included.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def begin(self, name: str) -> _Writing:
        """Begin an object."""
        with _reaching():
            return _Writing(
                obstore.open_writer(self._store, name, attributes={"Content-Type": TYPE}, buffer_size=PART_BYTES)
            )

    def open(self, name: str) -> BinaryIO:
        """Open an object to be read; what is read is fetched."""
        with _reaching():
            return cast(BinaryIO, io.BufferedReader(_Reader(obstore.open_reader(self._store, name)), 256 * 1024))

    def size_of(self, name: str) -> int | None:
        """Size of an object in bytes; None where there is none."""
        with _reaching():
            try:
                return int(obstore.head(self._store, name)["size"])
            except FileNotFoundError:
                return None

    def put_empty(self, name: str) -> None:
        """Write an object without content."""
        with _reaching():
            obstore.put(self._store, name, b"")

    def remove(self, name: str) -> None:
        """Remove an object."""
        with _reaching():
            try:
                obstore.delete(self._store, name)
            except FileNotFoundError:
                return

    def listing(self) -> dict[str, int]:
        """Sizes of all objects in bytes, by name."""
        with _reaching():
            found = obstore.list_with_delimiter(self._store)["objects"]
        named = ((str(one["path"]).rpartition("/")[2], int(one["size"])) for one in found)
        return {name: size for name, size in named if name}  # some stores list the folder itself

    def link(self, name: str, seconds: float) -> str | None:
        """An address, signed with our credentials; None where the store signs none."""
        if not hasattr(self._store, "config"):  # in memory, or a folder
            return None
        with _reaching():
            signed: Any = obstore.sign(cast(Any, self._store), "GET", name, expires_in=timedelta(seconds=seconds))
            return str(signed)


class _Writing:
    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._closed = False

    def write(self, data: bytes) -> None:
        with _reaching():
            self._writer.write(data)

    def commit(self) -> None:
        self._closed = True
        with _reaching():
            self._writer.close()

    def abandon(self) -> None:
        """Leave the writer as a block is left that fails: that ends the upload, and nothing else does.

        Where the last request of an upload failed, the writer can do no more: its parts go by the bucket's own rule.
        """
        if self._closed:
            return
        error = RuntimeError("abandoned")
        with _reaching():
            self._writer.__exit__(type(error), error, None)


class _Reader(io.RawIOBase):
    """An object as a file of Python's."""

    def __init__(self, reader: Any) -> None:
        super().__init__()
        self._reader = reader

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        with _reaching():
            return int(self._reader.seek(offset, whence))

    def tell(self) -> int:
        return int(self._reader.tell())

    def readinto(self, buffer: Any) -> int:
        with _reaching():
            data = bytes(self._reader.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)


@contextmanager
def _reaching() -> Iterator[None]:
    """Raise OSError. The store's own text holds addresses, so it goes into the log only."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, BaseError) as error:  # its writers and readers raise OSError
        structlog.get_logger("liveanchor.results").warning("object_store", reason=first_line(error, named=True))
        said = next((text for kind, text in _SAID.items() if isinstance(error, kind)), "the object store failed")
        raise OSError(said) from error
