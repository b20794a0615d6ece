"""Bytes of files in the ingress: held once, given back as the client takes them, all free when it goes away."""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from deployments.host import finished_file
from deployments.host.jobs import PIECE_BYTES, FileJob, JobBytes, JobDone, JobEvent, JobStarted
from pipeline.media.file_buffer import SLAB_BYTES, FileBuffer
from tests.support.http_server import Served, serving, wait_for
from tests.unit.serve_app.http.files.test_generate import _form, _raw_request

PIECES = 96
SIZE = PIECES * PIECE_BYTES
FILE = random.Random(5).randbytes(SIZE)
SOCKETS = 12 * 2**20
"""More than the sockets of both sides and the server's own buffer hold."""
STARTED = JobStarted("j", "a" * 32, 1, 25, 64, 64, 1.0)


class Buffers:
    """Every buffer that the application makes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[FileBuffer] = []

        def make() -> FileBuffer:
            self.made.append(FileBuffer())
            return self.made[-1]

        monkeypatch.setattr(finished_file, "FileBuffer", make)

    @property
    def held_bytes(self) -> int:
        return sum(one.held_bytes for one in self.made)


@pytest.fixture
def buffers(monkeypatch: pytest.MonkeyPatch) -> Buffers:
    return Buffers(monkeypatch)


async def finished(job: FileJob) -> AsyncGenerator[JobEvent, None]:
    """A file that comes while it is made, its front last."""
    yield STARTED
    for start in [*range(PIECE_BYTES, SIZE, PIECE_BYTES), 0]:
        yield JobBytes(FILE[start : start + PIECE_BYTES], start)
    yield JobDone(SIZE, "libx264", {}, {})


def slow_reader(served: Served, **fields: bytes) -> socket.socket:
    connection = _raw_request(served.port, _form(audio=b"x", **fields))
    connection.settimeout(60)
    return connection


def read(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        part = connection.recv(min(65_536, count - len(data)))
        assert part, "the connection ended"
        data += part
    return bytes(data)


def read_head(connection: socket.socket) -> bytes:
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += connection.recv(1)
    return head


def test_a_file_is_held_once_and_leaves_as_fast_as_the_client_takes_it(tmp_path: Path, buffers: Buffers) -> None:
    with serving(tmp_path) as served:
        host: Any = served.host
        host.generate = finished
        connection = slow_reader(served)
        head = read_head(connection)
        assert b"200 OK" in head and f"content-length: {SIZE}".encode() in head.lower()
        body = read(connection, 2**20)
        threading.Event().wait(0.3)
        assert SIZE - SOCKETS <= buffers.held_bytes <= SIZE, "what the client has not taken stays, once"
        body += read(connection, SIZE - 4 * 2**20 - len(body))
        wait_for(lambda: buffers.held_bytes <= 4 * 2**20 + SLAB_BYTES)
        body += read(connection, SIZE - len(body))
        assert body == FILE
        wait_for(lambda: buffers.held_bytes == 0)
        connection.close()


@pytest.mark.parametrize("taken", [0, 3 * 2**20])
def test_a_client_that_goes_away_frees_everything(tmp_path: Path, buffers: Buffers, taken: int) -> None:
    with serving(tmp_path) as served:
        host: Any = served.host
        host.generate = finished
        connection = slow_reader(served)
        if taken:
            read(connection, taken)
        else:
            wait_for(lambda: buffers.held_bytes > 0)
        connection.close()
        wait_for(lambda: served.api.state.services.gate.active == 0)
        wait_for(lambda: buffers.held_bytes == 0)


def test_a_kept_file_passes_through_and_is_the_same(tmp_path: Path, buffers: Buffers) -> None:
    with serving(tmp_path) as served:
        host: Any = served.host
        host.generate = finished
        kept = served.generate(path="/api/generate").json()
        assert served.client.get(kept["url"]).content == FILE
        assert buffers.held_bytes == 0


def test_a_streamed_file_is_made_no_faster_than_its_client_takes_it(tmp_path: Path) -> None:
    made, closed = 0, threading.Event()

    async def endless(job: FileJob) -> AsyncGenerator[JobEvent, None]:
        nonlocal made
        try:
            yield STARTED
            while True:
                yield JobBytes(FILE[:PIECE_BYTES], made)
                made += PIECE_BYTES
                await asyncio.sleep(0)
        finally:
            closed.set()

    with serving(tmp_path) as served:
        host: Any = served.host
        host.generate = endless
        connection = slow_reader(served, stream=b"true")
        read(connection, 2**20)
        threading.Event().wait(0.3)
        assert made <= SOCKETS
        connection.close()
        assert closed.wait(60)
