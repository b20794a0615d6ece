"""A receiver of messages that fails at random: it answers 500, or hangs up without a word."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

HANGS_UP: Final = 0.5
"""Share of failures that are no answer at all."""


class Receiver(ThreadingHTTPServer):
    """Takes some of what comes.

    Args:
        failing: Share of requests that fail.
        seed: The draw is a function of it.

    Attributes:
        came: Ids of messages that came.
        taken: Ids of messages that were taken, each with its video's id.
        at_once: Ids of messages that were taken when they first came.
    """

    daemon_threads = True

    def __init__(self, failing: float, seed: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Take)
        self.came: set[str] = set()
        self.taken: dict[str, str] = {}
        self.at_once: set[str] = set()
        self._failing = failing
        self._draw = random.Random(seed)  # noqa: S311  # a reproducible draw
        self._lock = threading.Lock()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def take(self, message_id: str, body: bytes) -> int | None:
        """Decide about a message: the status of the answer, or None for no answer."""
        with self._lock:
            fails, hangs_up = self._draw.random() < self._failing, self._draw.random() < HANGS_UP
            if not fails:
                self.taken[message_id] = str(json.loads(body)["data"]["id"])
                if message_id not in self.came:
                    self.at_once.add(message_id)
            self.came.add(message_id)
        return 204 if not fails else None if hangs_up else 500


class _Take(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        """Take a message, or do not."""
        length = int(self.headers["Content-Length"])
        if len(body := self.rfile.read(length)) < length:  # its sender was killed on the way
            self.close_connection = True
            return
        status = self.server.take(self.headers["webhook-id"], body)
        if status is None:
            self.close_connection = True
            return
        self.send_response(status)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def receiving(failing: float, seed: int = 0) -> Iterator[Receiver]:
    """Run a receiver in a thread."""
    server = Receiver(failing, seed)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
