"""A coturn for measurements and tests: Debian's package `coturn`, with credentials that end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from benchmarks.agents.own_server import listening, program

SECRET: Final = "shared-with-coturn"  # noqa: S105  # of a server that lives as long as a measurement
NAME: Final = "turnserver"


@contextmanager
def coturn(port: int, secret: str = SECRET) -> Iterator[None]:
    """A TURN server on a port of 127.0.0.1 that runs as long as the block.

    Args:
        port: Its port, for UDP and TCP.
        secret: Shared with those who make credentials.

    Raises:
        LiveAnchorError: It is not installed, or does not start.
    """
    path = program(NAME, "coturn")
    with tempfile.TemporaryDirectory(prefix="la-coturn-") as folder:
        command = [
            path, "-n", "-b", f"{folder}/db.sqlite", "--listening-ip=127.0.0.1", "--relay-ip=127.0.0.1",
            f"--listening-port={port}", "--min-port=30000", "--max-port=31000", "--realm=liveanchor.test", "--use-auth-secret",
            f"--static-auth-secret={secret}",
            "--no-tls", "--no-dtls", "--no-cli", "--allow-loopback-peers", "--log-file=stdout", f"--pidfile={folder}/pid",
        ]  # fmt: skip
        with listening(command, port):
            yield
