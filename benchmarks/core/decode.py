"""Pictures of a finished video, as a player would see them."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import av
import numpy as np

from kernels.arrays import U8


def decode_rgb(video: bytes | Path) -> Iterator[U8]:
    """Decode all frames of the first video stream in presentation order.

    Args:
        video: The file, or its bytes.

    Yields:
        uint8 (H, W, 3), RGB, converted with the matrix and range that the stream's tags name.
    """
    for frame in _frames(video):
        yield np.asarray(frame.to_ndarray(format="rgb24"), dtype=np.uint8)


def decode_luma(video: bytes | Path) -> Iterator[U8]:
    """Decode all frames of the first video stream: uint8 (H, W) luma exactly as coded."""
    for frame in _frames(video):
        yield np.asarray(frame.to_ndarray(format="yuv420p"), dtype=np.uint8)[: frame.height]


def _frames(video: bytes | Path) -> Iterator[av.VideoFrame]:
    with av.open(BytesIO(video) if isinstance(video, bytes) else str(video), "r") as container:
        stream = container.streams.video[0]
        stream.thread_type = "NONE"
        yield from container.decode(stream)
