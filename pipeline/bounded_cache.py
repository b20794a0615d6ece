"""A least-recently-used cache bounded in bytes, safe to share between threads.

Caches of what was made of an avatar have keys that name it: its id, its folder, or a tuple with the id in it. So all that a process
keeps of an avatar can be dropped at once, whoever keeps it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Generic, TypeVar
from weakref import WeakSet

K = TypeVar("K")
V = TypeVar("V")
_CACHES: Final[WeakSet[BoundedCache[Any, Any]]] = WeakSet()
_MAKING: Final = threading.Lock()


def drop_avatar(avatar_id: str) -> int:
    """Drop all that the caches of this process keep of an avatar; who uses it now goes on doing so.

    Returns:
        Number of values dropped.
    """
    with _MAKING:
        caches = list(_CACHES)
    return sum(cache.discard(key) for cache in caches for key in cache.keys() if _names(key, avatar_id))


class BoundedCache(Generic[K, V]):
    """Keeps the most recently used values whose sizes sum to at most `max_bytes`; the newest one always stays.

    Args:
        max_bytes: Bound on the sum of `size_of` over the values, >= 0.
        size_of: Bytes that a value holds.
    """

    def __init__(self, max_bytes: int, size_of: Callable[[V], int]) -> None:
        self._max_bytes = max_bytes
        self._size_of = size_of
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self._building: dict[K, threading.Lock] = {}
        with _MAKING:
            _CACHES.add(self)

    @property
    def bytes_held(self) -> int:
        """Sum over the values held now."""
        with self._lock:
            return self._bytes

    def __contains__(self, key: K) -> bool:
        with self._lock:
            return key in self._entries

    def keys(self) -> list[K]:
        """Keys held now, least recently used first."""
        with self._lock:
            return list(self._entries)

    def find(self, key: K) -> V | None:
        """The value of `key` where it is held."""
        with self._lock:
            found = self._touch(key)
            return None if found is None else found[0]

    def get_or_build(self, key: K, build: Callable[[], V]) -> V:
        """The value of `key`; built at most once at a time, also when several threads ask. Errors of `build` are not cached."""
        with self._lock:
            if (found := self._touch(key)) is not None:
                return found[0]
            building = self._building.setdefault(key, threading.Lock())
        with building:
            with self._lock:
                if (found := self._touch(key)) is not None:
                    return found[0]
            try:
                value = build()
                with self._lock:
                    self._insert(key, value)
            finally:
                with self._lock:
                    self._building.pop(key, None)
            return value

    def discard(self, key: K) -> bool:
        """Forget `key`, present or not; whether it was."""
        with self._lock:
            found = self._entries.pop(key, None)
            self._bytes -= found[1] if found else 0
        return found is not None

    def _touch(self, key: K) -> tuple[V, int] | None:
        if key not in self._entries:
            return None
        self._entries.move_to_end(key)
        return self._entries[key]

    def _insert(self, key: K, value: V) -> None:
        size = self._size_of(value)
        _, replaced = self._entries.pop(key, (None, 0))  # after a failed build, two threads may build at once
        self._entries[key] = (value, size)
        self._bytes += size - replaced
        while self._bytes > self._max_bytes and len(self._entries) > 1:
            _, (_, dropped) = self._entries.popitem(last=False)
            self._bytes -= dropped


def _names(key: object, avatar_id: str) -> bool:
    if isinstance(key, tuple):
        return avatar_id in key
    return (key.name if isinstance(key, Path) else key) == avatar_id
