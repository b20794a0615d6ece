"""A finished file in memory, once: it arrives in any order and leaves front to back, and what has left is free again."""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import AsyncGenerator, Iterator
from typing import Final

from kernels.errors import LiveAnchorError

SLAB_BYTES: Final = 2**20


class FileGapError(LiveAnchorError):
    """Bytes of a file did not arrive."""

    code = "internal_error"


class FileBuffer:
    """Adds to a bytearray: memory goes back to the system slab by slab, whatever the allocator does, and nothing is copied to grow.

    Not for several threads at once.

    Args:
        slab_bytes: Granularity of memory.

    Attributes:
        size: Size of the file in bytes: the end of what was written.
    """

    def __init__(self, slab_bytes: int = SLAB_BYTES) -> None:
        self._slab_bytes = slab_bytes
        self._slabs: dict[int, mmap.mmap] = {}
        self._written = 0
        self.size = 0

    @property
    def held_bytes(self) -> int:
        """Memory in use now."""
        return len(self._slabs) * self._slab_bytes

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes where they belong; no byte may be written twice."""
        view, position = memoryview(data), offset
        while view:
            index, start = divmod(position, self._slab_bytes)
            count = min(len(view), self._slab_bytes - start)
            if index not in self._slabs:
                self._slabs[index] = mmap.mmap(-1, self._slab_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            self._slabs[index][start : start + count] = view[:count]
            view, position = view[count:], position + count
        self._written += len(data)
        self.size = max(self.size, position)

    def check_whole(self, size: int) -> None:
        """Check that every byte came.

        Args:
            size: Size of the file in bytes.

        Raises:
            FileGapError: Some did not.
        """
        if not self._written == self.size == size:
            raise FileGapError(f"{self._written} bytes of a file of {size} arrived")

    def drain(self, piece_bytes: int) -> Iterator[bytes]:
        """The file from its start in pieces; memory behind the piece is free once the next one is asked for."""
        position, size = 0, self.size
        while position < size:
            index, start = divmod(position, self._slab_bytes)
            stop = min(start + piece_bytes, self._slab_bytes, start + size - position)
            yield self._slabs[index][start:stop]
            position += stop - start
            if stop == self._slab_bytes or position == size:
                self._slabs.pop(index).close()

    def clear(self) -> None:
        """Forget everything; harmless when repeated."""
        for slab in self._slabs.values():
            slab.close()
        self._slabs.clear()
        self._written = self.size = 0


async def leaving(file: FileBuffer, piece_bytes: int) -> AsyncGenerator[bytes, None]:
    """A finished file from its start in pieces; its memory is free at the end, however that comes."""
    try:
        for data in file.drain(piece_bytes):
            yield data
            await asyncio.sleep(0)  # a taker may never wait, so other tasks get their turn here
    finally:
        file.clear()
