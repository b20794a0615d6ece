"""Processor time of one thread or several, told apart by what the thread was doing.

Processor time means something beside other load, wall time does not.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any


class CpuParts:
    """Adds up the processor time of parts; what a part calls that is a part itself counts there alone.

    Attributes:
        seconds: Processor time per part.
        calls: Calls per part.
    """

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self.calls: Counter[str] = Counter()
        self._here = threading.local()
        self._adding = threading.Lock()

    @contextmanager
    def part(self, name: str) -> Generator[None]:
        """What runs inside belongs to a part."""
        stack: list[tuple[str, float]] = self._here.__dict__.setdefault("stack", [])
        now = time.thread_time()
        if stack:
            outer, since = stack[-1]
            self._add(outer, now - since, 0)
        stack.append((name, now))
        try:
            yield
        finally:
            now = time.thread_time()
            _, since = stack.pop()
            self._add(name, now - since, 1)
            if stack:
                stack[-1] = (stack[-1][0], time.thread_time())

    @contextmanager
    def watching(self, *methods: tuple[type, str, str]) -> Generator[None]:
        """Count every call of some methods, each given as its class, its name and its part."""
        stock = [(owner, name, getattr(owner, name)) for owner, name, _ in methods]
        for owner, name, part in methods:
            setattr(owner, name, self._counted(getattr(owner, name), part))
        try:
            yield
        finally:
            for owner, name, method in stock:
                setattr(owner, name, method)

    def _counted(self, method: Callable[..., Any], part: str) -> Callable[..., Any]:
        @functools.wraps(method)
        def counted(*arguments: Any, **named: Any) -> Any:
            with self.part(part):
                return method(*arguments, **named)

        return counted

    def _add(self, name: str, seconds: float, calls: int) -> None:
        with self._adding:
            self.seconds[name] += seconds
            self.calls[name] += calls
