"""A file that a stranger handed in, and how much of it may be looked at to learn where it ends.

Headers can send a reader back and forth without end; here every byte that is looked at counts, and there is an end to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import BinaryIO, Final

HEAD: Final = 64
"""Bytes at the front of a file that are enough to recognise it."""
LOOKS_PER_BYTE: Final = 4
LEAST_LOOKS: Final = 1 << 26
_FIRST_BLOCK: Final = 1 << 12
_LARGEST_BLOCK: Final = 1 << 20
_SOMETHING: Final = re.compile(rb"[^\x00]")


class ScanLimitError(ValueError):
    """More had to be looked at than any honest file needs.

    Args:
        allowed: How many bytes.
    """

    def __init__(self, allowed: int) -> None:
        super().__init__(f"headers that lead nowhere, after a look at {allowed} bytes")


class ScannedFile:
    """Random access with a limit for all of it: `LOOKS_PER_BYTE` times the size and `LEAST_LOOKS` bytes.

    A read counts as `HEAD` bytes at least. Every method raises `ScanLimitError` beyond.

    Args:
        file: A seekable file, which must stay open.

    Attributes:
        size: Bytes of the file.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = file.seek(0, os.SEEK_END)
        self._allowed = LOOKS_PER_BYTE * self.size + LEAST_LOOKS
        self._left = self._allowed
        self._zeros = (self.size, self.size)

    def bytes_at(self, position: int, count: int) -> bytes:
        """Up to `count` bytes from a position on; none behind the end, however far."""
        count = max(0, min(count, self.size - position))
        self._left -= max(count, HEAD)
        if self._left < 0:
            raise ScanLimitError(self._allowed)
        if not count:
            return b""
        self._file.seek(position)
        return self._file.read(count)

    def blocks(self, start: int) -> Iterator[tuple[int, int, bytes]]:
        """All from `start` on: the place of a block, its bytes' count, and they with the `HEAD` bytes that follow.

        Blocks grow, since what is looked for is often near.
        """
        at, length = start, _FIRST_BLOCK
        while at < self.size:
            own = min(length, self.size - at)
            yield at, own, self.bytes_at(at, own + HEAD)
            at, length = at + own, min(2 * length, _LARGEST_BLOCK)

    def first_place(self, pattern: re.Pattern[bytes], start: int) -> int:
        """The first place from `start` on where a pattern of at most `HEAD` bytes matches; the size when there is none."""
        for at, own, data in self.blocks(start):
            match = pattern.search(data)
            if match is not None and match.start() < own:
                return at + match.start()
        return self.size

    def behind_zeros(self, start: int) -> int:
        """The first place from `start` on that holds no zero; the size when there is none. The last run of zeros is remembered."""
        first, behind = self._zeros
        if not first <= start < behind:
            behind = self.first_place(_SOMETHING, start)
            self._zeros = (start, behind)
        return behind
