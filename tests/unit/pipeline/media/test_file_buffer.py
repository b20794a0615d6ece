"""A finished file in the ingress: whole or refused, and free again as it leaves."""

from __future__ import annotations

import random

import pytest

from pipeline.media.file_buffer import FileBuffer, FileGapError


def data_of(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.mark.parametrize("size", [1, 4095, 4096, 4097, 8192, 30_001])
@pytest.mark.parametrize("piece", [1000, 4096, 9000])
def test_what_arrives_in_any_order_leaves_in_order(size: int, piece: int) -> None:
    data, buffer = data_of(size), FileBuffer(4096)
    starts = list(range(0, size, 1700))
    random.Random(1).shuffle(starts)
    for start in starts:
        buffer.write(start, data[start : start + 1700])
    buffer.check_whole(size)
    parts = list(buffer.drain(piece))
    assert b"".join(parts) == data and max(map(len, parts)) <= piece
    assert buffer.held_bytes == 0


def test_memory_goes_back_while_the_file_leaves() -> None:
    buffer = FileBuffer(4096)
    buffer.write(0, data_of(10 * 4096))
    sent = 0
    for part in buffer.drain(1024):
        assert buffer.held_bytes <= 10 * 4096 - sent // 4096 * 4096
        sent += len(part)
    assert buffer.held_bytes == 0


def test_left_half_way_it_can_be_cleared_and_used_again() -> None:
    buffer = FileBuffer(4096)
    buffer.write(0, data_of(9000))
    assert next(buffer.drain(1024)) == data_of(9000)[:1024]
    buffer.clear()
    buffer.clear()
    assert buffer.held_bytes == buffer.size == 0
    buffer.write(0, b"again")
    buffer.check_whole(5)
    assert list(buffer.drain(99)) == [b"again"]


@pytest.mark.parametrize(("offset", "data", "size"), [(1, b"ab", 3), (0, b"ab", 3), (0, b"abcd", 3), (0, b"", 1)])
def test_gaps_are_found(offset: int, data: bytes, size: int) -> None:
    buffer = FileBuffer()
    buffer.write(offset, data)
    with pytest.raises(FileGapError, match="arrived"):
        buffer.check_whole(size)
