"""Where results lie: the few things that are done with files, and which of two ways does them at an address."""

from __future__ import annotations

from typing import BinaryIO, Final, Protocol

OBJECT_STORES: Final = ("s3://", "gs://", "az://", "abfs://", "abfss://")
"""Addresses of object stores that obstore reaches; everything else is fsspec's."""


class Writing(Protocol):
    """A file that is being written. It is there once `commit` has returned, and not before."""

    def write(self, data: bytes) -> None:
        """Append."""
        ...

    def commit(self) -> None:
        """Finish the file."""
        ...

    def abandon(self) -> None:
        """Leave nothing behind."""
        ...


class ResultFiles(Protocol):
    """Files of one place, by names without slashes. Everything may raise OSError."""

    def begin(self, name: str) -> Writing:
        """Begin a file."""
        ...

    def open(self, name: str) -> BinaryIO:
        """Open a file to be read; it can seek. Raises FileNotFoundError."""
        ...

    def size_of(self, name: str) -> int | None:
        """Size of a file in bytes; None where there is none."""
        ...

    def put_empty(self, name: str) -> None:
        """Write a file without content."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file; does nothing where there is none."""
        ...

    def listing(self) -> dict[str, int]:
        """Sizes of all files in bytes, by name."""
        ...

    def link(self, name: str, seconds: float) -> str | None:
        """An address from which anybody can fetch a file for so long; None where the place has no such addresses."""
        ...


def files_at(uri: str) -> ResultFiles:
    """Open a place.

    Args:
        uri: A folder, an address of `OBJECT_STORES`, or an fsspec URI.

    Raises:
        OSError: The place is none.
    """
    if uri.startswith(OBJECT_STORES):
        from pipeline.media.results.object_files import ObjectFiles, store_at  # its package is an extra

        return ObjectFiles(store_at(uri))
    from pipeline.media.results.fsspec_files import FsspecFiles

    return FsspecFiles(uri)
