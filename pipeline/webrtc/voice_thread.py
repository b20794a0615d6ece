"""Where the microphones of a process are decoded: one thread for all of them, so that the event loop only passes packets on."""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol


class Line(Protocol):
    """Something with work for the thread."""

    def work(self) -> None:
        """Do all the work that waits; called in the thread, for one line at a time. It raises nothing."""
        ...


class VoiceThread:
    """Does the work of lines in the order in which they ask, as long as one is open. It may be asked from any thread."""

    def __init__(self) -> None:
        self._wake = threading.Condition()
        self._asking: deque[Line] = deque()
        self._open = 0
        self._thread: threading.Thread | None = None
        self._working = False

    @property
    def busy(self) -> bool:
        """Whether anything is to be done that was asked for."""
        with self._wake:
            return self._working or bool(self._asking)

    @property
    def running(self) -> bool:
        """Whether the thread is there."""
        return self._thread is not None

    def open(self) -> None:
        """A line begins; the first one starts the thread."""
        with self._wake:
            self._open += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="live-voices", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """A line that was opened ends; with the last one, the thread does. Does not wait."""
        with self._wake:
            self._open -= 1
            self._wake.notify()

    def ask(self, line: Line) -> None:
        """Have a line's work done soon; a line that asks again before that has it done once."""
        with self._wake:
            if line not in self._asking:
                self._asking.append(line)
                self._wake.notify()

    def _run(self) -> None:
        while True:
            with self._wake:
                self._working = False
                while not self._asking and self._open:
                    self._wake.wait()
                if not self._open:
                    self._asking.clear()
                    self._thread = None
                    return
                line = self._asking.popleft()
                self._working = True
            line.work()
