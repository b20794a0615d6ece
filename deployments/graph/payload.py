"""Bytes that travel between processes without a copy, and that are let go of as soon as they were used."""

from __future__ import annotations

from typing import Any

import numpy as np


class Payload:
    """An upload on its way, as an array: Ray lays arrays next to its messages, and the receiver reads the sender's shared memory.

    Frames of a long call hold their arguments to its end; `release` frees the bytes before that.

    Args:
        data: Anything with a buffer.
    """

    def __init__(self, data: Any) -> None:
        self._array = np.frombuffer(data, np.uint8) if len(data) else np.zeros(0, np.uint8)

    def __len__(self) -> int:
        """How many bytes; 0 once released."""
        return len(self._array)

    @property
    def view(self) -> memoryview:
        """The bytes; do not keep it longer than the payload."""
        return self._array.data

    def release(self) -> None:
        """Let go of the bytes; harmless when repeated."""
        self._array = np.zeros(0, np.uint8)
