"""How long a service that is told to end waits for what runs, and what it does then."""

from __future__ import annotations

from typing import Any

import pytest

from serve_app.cli import serve as command
from serve_app.cluster import drain as drains
from serve_app.cluster.drain import drain


class Work:
    """Work that gets less at every look."""

    def __init__(self, *counts: int) -> None:
        self._counts = list(counts)
        self.asked: list[Any] = []

    def refuse_new(self, seconds: float) -> None:
        self.asked.append(("refuse", seconds))

    def count(self) -> int:
        return self._counts.pop(0) if len(self._counts) > 1 else self._counts[0]

    def end(self) -> None:
        self.asked.append("end")


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drains, "LOOK_S", 0.0)


def test_what_finishes_in_time_is_waited_for() -> None:
    work, said = Work(3, 3, 2, 0), list[int]()
    assert drain(work, 30.0, said.append, lambda: 0.0) == 0  # type: ignore[arg-type]
    assert said == [3, 2] and work.asked == [("refuse", 30.0), "end"]


def test_what_does_not_is_ended_after_the_time() -> None:
    clock = iter(range(100))
    work, said = Work(2), list[int]()
    assert drain(work, 5.0, said.append, lambda: float(next(clock))) == 2  # type: ignore[arg-type]
    assert said == [2] and work.asked[-1] == "end" and next(clock) == 6, "asked the time until it was over"


def test_no_time_is_no_waiting() -> None:
    work = Work(1)
    assert drain(work, 0.0, lambda left: None, lambda: 0.0) == 1  # type: ignore[arg-type]


def test_the_second_signal_is_not_taken_for_the_first() -> None:
    import threading

    stop = threading.Event()
    command._told(stop, 15, None)
    assert stop.is_set()
    with pytest.raises(KeyboardInterrupt):
        command._told(stop, 2, None)
