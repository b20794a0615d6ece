"""Keeps LiteRT's greeting off the terminal. Its library writes to file descriptor 2 itself and has no switch for that."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

STDERR_FD: Final = 2
GREETING: Final = re.compile(rb"INFO: Created TensorFlow Lite XNNPACK delegate for CPU\.\r?\n")


@contextmanager
def without_litert_greeting() -> Iterator[None]:
    """Run a block without that one line on stderr; whatever else native code writes there comes after the block.

    Python's own stderr, progress bars included, goes on meanwhile. The descriptor belongs to the whole process: for commands,
    which are alone in theirs, never for a service.
    """
    sys.stderr.flush()
    terminal, python_stderr = os.dup(STDERR_FD), sys.stderr
    with tempfile.TemporaryFile() as written, open(terminal, "w", encoding="utf-8", errors="replace") as own:
        if _is_stderr(python_stderr):
            sys.stderr = own
        os.dup2(written.fileno(), STDERR_FD)
        try:
            yield
        finally:
            own.flush()
            os.dup2(terminal, STDERR_FD)
            sys.stderr = python_stderr
            written.seek(0)
            os.write(STDERR_FD, GREETING.sub(b"", written.read()))


def _is_stderr(stream: object) -> bool:
    try:
        return stream.fileno() == STDERR_FD  # type: ignore[attr-defined, no-any-return]
    except (AttributeError, OSError, ValueError):  # a stand-in without a descriptor, such as a test's
        return False
