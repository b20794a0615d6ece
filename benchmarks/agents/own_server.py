"""A program of this machine that listens on a port as long as a block runs."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from kernels.errors import LiveAnchorError

START_S: Final = 20.0


def program(name: str, package: str) -> str:
    """Where a program is.

    Raises:
        LiveAnchorError: It is not installed; says how to get it.
    """
    if (path := shutil.which(name)) is None:
        raise LiveAnchorError(f"{name} is missing: apt-get install --no-install-recommends {package}")
    return path


@contextmanager
def listening(command: Sequence[str], port: int) -> Iterator[None]:
    """Run a command that listens on a TCP port of 127.0.0.1.

    Raises:
        LiveAnchorError: It does not start.
    """
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603  # our own arguments
    try:
        deadline, pause = time.monotonic() + START_S, threading.Event()
        while not _answers(port):
            if time.monotonic() > deadline or process.poll() is not None:
                raise LiveAnchorError(f"{command[0]} did not start (exit code {process.poll()})")
            pause.wait(0.05)
        yield
    finally:
        process.terminate()
        process.wait(10)


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
