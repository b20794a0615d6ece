"""The bytes-bounded cache."""

from __future__ import annotations

import threading

import pytest

from pipeline.bounded_cache import BoundedCache


def filled(*sizes: int, max_bytes: int = 10) -> BoundedCache[int, bytes]:
    cache: BoundedCache[int, bytes] = BoundedCache(max_bytes, len)
    for key, size in enumerate(sizes):
        cache.get_or_build(key, lambda size=size: bytes(size))
    return cache


def test_drops_the_least_recently_used_first() -> None:
    cache = filled(4, 4)
    cache.get_or_build(0, lambda: pytest.fail("0 is cached"))
    cache.get_or_build(2, lambda: bytes(4))
    assert cache.keys() == [0, 2] and cache.bytes_held == 8


def test_a_value_larger_than_the_bound_still_serves_its_caller() -> None:
    cache = filled(4, 40)
    assert cache.keys() == [1] and cache.bytes_held == 40


def test_discard_gives_the_bytes_back() -> None:
    cache = filled(3, 4)
    cache.discard(0)
    cache.discard(0)
    assert 0 not in cache and cache.bytes_held == 4


def test_a_failed_build_is_tried_again() -> None:
    cache = filled()

    def fail() -> bytes:
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        cache.get_or_build(7, fail)
    assert cache.get_or_build(7, lambda: b"ok") == b"ok"


def test_many_threads_build_once() -> None:
    cache = filled()
    inside, release, builds = threading.Event(), threading.Event(), []

    def build() -> bytes:
        builds.append(1)
        inside.set()
        release.wait(60)
        return b"x"

    threads = [threading.Thread(target=cache.get_or_build, args=(1, build)) for _ in range(8)]
    for thread in threads:
        thread.start()
    inside.wait(60)
    release.set()
    for thread in threads:
        thread.join(60)
    assert builds == [1]


class SignallingKey:
    """A key that says when it has been looked up twice: its caller then waits for whoever builds."""

    def __init__(self, looked_up: threading.Event) -> None:
        self._looked_up = looked_up
        self._times = 0

    def __hash__(self) -> int:
        self._times += 1
        if self._times == 2:
            self._looked_up.set()
        return 1

    def __eq__(self, other: object) -> bool:
        return True


def test_bytes_are_counted_once_when_two_threads_build_after_a_failure() -> None:
    cache: BoundedCache[object, bytes] = BoundedCache(10, len)
    failing, waits, inside, release = (threading.Event() for _ in range(4))

    def fail() -> bytes:
        failing.set()
        assert waits.wait(60)
        raise OSError("disk")

    def build() -> bytes:
        inside.set()
        assert release.wait(60)
        return b"abcd"

    def first() -> None:
        with pytest.raises(OSError, match="disk"):
            cache.get_or_build(SignallingKey(threading.Event()), fail)

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert failing.wait(60)
    threads.append(threading.Thread(target=cache.get_or_build, args=(SignallingKey(waits), build)))
    threads[1].start()
    assert inside.wait(60)
    cache.get_or_build(SignallingKey(threading.Event()), lambda: b"efgh")
    release.set()
    for thread in threads:
        thread.join(60)
    assert cache.bytes_held == 4
