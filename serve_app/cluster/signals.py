"""SIGTERM stays ours while Ray connects."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def sigterm_kept() -> Iterator[None]:
    """Give SIGTERM its present handler again at the end of the block.

    `ray.init` takes the signal twice: in Python, and below it with a handler that dumps the native stack of a healthy process.
    """
    if threading.current_thread() is not threading.main_thread():  # no other may set handlers
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if before is not None:  # None: set by native code, which cannot be given back
            signal.signal(signal.SIGTERM, before)
