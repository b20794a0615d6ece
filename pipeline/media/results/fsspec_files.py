"""Results in a folder, or wherever fsspec reaches."""

from __future__ import annotations

from typing import Any, BinaryIO, cast

import fsspec
from fsspec.spec import AbstractBufferedFile


class FsspecFiles:
    """Implements `ResultFiles`.

    Args:
        uri: A folder or an fsspec URI.
    """

    def __init__(self, uri: str) -> None:
        self._fs: Any
        self._fs, self._root = fsspec.core.url_to_fs(uri)

    def begin(self, name: str) -> _Writing:
        """Begin a file. In a folder it grows under its name, which nobody knows yet."""
        self._fs.makedirs(self._root, exist_ok=True)
        return _Writing(self, name, self._fs.open(self._path(name), "wb"))

    def open(self, name: str) -> BinaryIO:
        """Open a file to be read."""
        return cast(BinaryIO, self._fs.open(self._path(name), "rb"))

    def size_of(self, name: str) -> int | None:
        """Size of a file in bytes; None where there is none."""
        try:
            return int(self._fs.info(self._path(name))["size"])
        except FileNotFoundError:
            return None

    def put_empty(self, name: str) -> None:
        """Write a file without content."""
        self._fs.pipe_file(self._path(name), b"")

    def remove(self, name: str) -> None:
        """Remove a file; another process may have been faster."""
        try:
            self._fs.rm_file(self._path(name))
        except FileNotFoundError:
            return

    def listing(self) -> dict[str, int]:
        """Sizes of all files in bytes, by name."""
        self._fs.invalidate_cache(self._root)
        entries = self._fs.ls(self._root, detail=True)
        return {str(entry["name"]).rpartition("/")[2]: int(entry["size"] or 0) for entry in entries}

    def link(self, name: str, seconds: float) -> str | None:
        """There is none."""
        return None

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"


class _Writing:
    def __init__(self, files: FsspecFiles, name: str, file: Any) -> None:
        self._files = files
        self._name = name
        self._file = file

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def commit(self) -> None:
        self._file.close()

    def abandon(self) -> None:
        """Closing a file of a remote place would publish what there is of it, if only for a moment; so it is not closed."""
        if isinstance(self._file, AbstractBufferedFile):
            try:
                self._file.discard()  # ends the upload, where the driver can
            finally:
                self._file.closed = True  # else it would be closed when it is forgotten
        else:
            self._file.close()
        self._files.remove(self._name)
