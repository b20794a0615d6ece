"""A file that appears when it is whole."""

from __future__ import annotations

import os
from pathlib import Path


class PartFile:
    """Bytes that are collected next to a file, and become it at the end.

    Args:
        path: Where the file goes; what lies there is replaced.

    Raises:
        OSError: It cannot be written there.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._file = self._part.open("wb")

    def write(self, data: bytes) -> None:
        """Add bytes."""
        self._file.write(data)

    def keep(self) -> None:
        """Let it appear."""
        self._file.close()
        self._part.replace(self._path)

    def discard(self) -> None:
        """Leave nothing behind; after `keep` there is nothing to leave."""
        self._file.close()
        self._part.unlink(missing_ok=True)
