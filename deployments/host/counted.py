"""Counts, key by key, how many of something are under way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def counted(counter: Counter[str], key: str) -> Iterator[None]:
    """Count one more under `key` for as long as this is open; a key that nothing is counted under is not kept."""
    counter[key] += 1
    try:
        yield
    finally:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]
