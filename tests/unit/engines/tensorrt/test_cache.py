"""The folder of built engines: keys, damage, races, bounds."""

from __future__ import annotations

import itertools
import json
import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engines.tensorrt import cache as cache_module
from engines.tensorrt.build import BuildSettings, profiles_of
from engines.tensorrt.cache import MOST_LISTED, EngineCache, EngineKey, make_key
from engines.tensorrt.errors import EngineCacheError
from engines.tensorrt.target import Target
from tests.support.tensorrt import TINY, elsewhere, fake_library


def key_of(**changes: Any) -> EngineKey:
    build = BuildSettings().key(profiles_of(TINY), tf32=False)
    return replace(make_key("test/tiny", "ab" * 32, fake_library(), elsewhere(), build), **changes)


def test_a_plan_is_built_once_and_read_back(tmp_path: Path) -> None:
    cache = EngineCache(tmp_path / "engines")
    assert cache.read(key_of()) is None and cache.entries() == []
    assert cache.read_or_build(key_of(), lambda: b"plan") == (b"plan", True)
    assert cache.read_or_build(key_of(), lambda: b"other") == (b"plan", False)
    (entry,) = cache.entries()
    assert (entry.key, entry.size) == (key_of(), 4)
    assert (tmp_path / "engines").stat().st_mode & 0o077 == 0  # a plan is code: nobody else writes there


@pytest.mark.parametrize(
    "changes",
    [
        {"graph_sha256": "cd" * 32},
        {"version": "1.8.0"},
        {"flavour": "tensorrt"},
        {"card": "NVIDIA H200"},
        {"capability": "sm_89"},
        {"engine": "test/other"},
        {"build": BuildSettings(workspace_mib=64).key(profiles_of(TINY), tf32=False)},
        {"build": BuildSettings(optimisation_level=5).key(profiles_of(TINY), tf32=False)},
        {"build": BuildSettings().key(profiles_of(replace(TINY, max_batch=8)), tf32=False)},
        {"build": BuildSettings().key(profiles_of(TINY), tf32=True)},
    ],
)
def test_anything_else_is_another_engine(tmp_path: Path, changes: dict[str, Any]) -> None:
    cache = EngineCache(tmp_path)
    cache.read_or_build(key_of(), lambda: b"plan")
    assert cache.read(key_of(**changes)) is None
    assert cache.read_or_build(key_of(**changes), lambda: b"another") == (b"another", True)
    assert cache.read(key_of()) == b"plan"


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone", "note"])
def test_a_damaged_entry_is_built_again(tmp_path: Path, damage: str) -> None:
    cache = EngineCache(tmp_path)
    cache.read_or_build(key_of(), lambda: b"a good plan")
    plan, note = tmp_path / f"{key_of().digest}.plan", tmp_path / f"{key_of().digest}.json"
    if damage == "flipped":
        plan.write_bytes(b"a goof plan")
    elif damage == "cut":
        plan.write_bytes(b"a go")
    elif damage == "gone":
        plan.unlink()
    else:
        note.write_text("[1, 2")
    assert cache.read(key_of()) is None
    assert cache.read_or_build(key_of(), lambda: b"a new plan") == (b"a new plan", True)
    assert cache.read(key_of()) == b"a new plan"


def test_a_failed_build_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> bytes:
        raise RuntimeError("no")

    cache = EngineCache(tmp_path)
    with pytest.raises(RuntimeError):
        cache.read_or_build(key_of(), fail)
    assert cache.read(key_of()) is None
    assert [path.name for path in tmp_path.iterdir() if not path.name.endswith(".lock")] == []


def _build_while_another_waits(folder: Path, seen: Any, number: int, at_the_lock: Any) -> None:
    class AnnouncedLock(cache_module.FileLock):
        def acquire(self, *args: Any, **kwargs: Any) -> Any:
            at_the_lock[number].set()
            return super().acquire(*args, **kwargs)

    cache_module.FileLock = AnnouncedLock  # type: ignore[misc]  # this process is the test's own

    def build() -> bytes:
        seen.put(number)
        assert all(arrived.wait(200) for arrived in at_the_lock)
        return b"plan of " + str(number).encode()

    plan, _ = EngineCache(folder).read_or_build(key_of(), build)
    seen.put(plan)


def test_two_processes_build_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    seen = context.Queue()
    at_the_lock = [context.Event() for _ in range(2)]
    workers = [
        context.Process(target=_build_while_another_waits, args=(tmp_path, seen, number, at_the_lock))
        for number in range(2)
    ]
    for worker in workers:
        worker.start()
    results = [seen.get(timeout=240) for _ in range(3)]
    for worker in workers:
        worker.join(timeout=60)
    builders = [item for item in results if isinstance(item, int)]
    plans = {item for item in results if isinstance(item, bytes)}
    assert len(builders) == 1 and plans == {f"plan of {builders[0]}".encode()}


def test_a_lock_that_is_held_too_long_is_an_error_that_may_be_retried(tmp_path: Path) -> None:
    cache = EngineCache(tmp_path, lock_timeout_s=0.05)

    def build_again() -> bytes:
        with pytest.raises(EngineCacheError) as error:
            cache.read_or_build(key_of(), lambda: b"")
        assert error.value.retryable
        return b"plan"

    assert cache.read_or_build(key_of(), build_again) == (b"plan", True)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    with pytest.raises(EngineCacheError, match="cannot be written"):
        EngineCache(blocked / "engines").read_or_build(key_of(), lambda: b"plan")


def test_the_listing_is_bounded_and_takes_entries_only(tmp_path: Path) -> None:
    cache = EngineCache(tmp_path)
    cache.read_or_build(key_of(), lambda: b"plan")
    note = json.loads((tmp_path / f"{key_of().digest}.json").read_text())
    (tmp_path / "notes.json").write_text(json.dumps(note))
    (tmp_path / f"{'0' * 64}.json").write_text(json.dumps(note))  # of another key than its name
    (tmp_path / f"{'1' * 64}.json").write_text('{"schema": 1, "key": {"x": 1}}')
    (tmp_path / f"{'2' * 64}.json").write_text("9" * 100_000)
    assert [entry.digest for entry in cache.entries()] == [key_of().digest]
    for number in range(MOST_LISTED + 10):
        (tmp_path / f"{number:064x}.json").touch()
    assert len(cache._notes()) == MOST_LISTED


def test_engines_used_longest_ago_go_when_the_folder_is_full(tmp_path: Path) -> None:
    cache = EngineCache(tmp_path, max_bytes=250, clock=map(float, itertools.count(1_000)).__next__)
    keys = [key_of(version=f"1.7.{number}") for number in range(3)]
    for key in keys[:2]:
        cache.read_or_build(key, lambda: bytes(100))
    assert cache.read(keys[0]) is not None  # now the more recently used
    cache.read_or_build(keys[2], lambda: bytes(100))
    assert [cache.read(key) is not None for key in keys] == [True, False, True]


def test_a_noted_graph_is_known_next_time(tmp_path: Path) -> None:
    cache = EngineCache(tmp_path / "new")
    assert cache.known_graph("s" * 64) is None
    cache.remember_graph("s" * 64, "ab" * 32)
    assert cache.known_graph("s" * 64) == "ab" * 32
    (tmp_path / "new" / f"graph-{'s' * 64}.json").write_text('{"sha256": "short"}')
    assert cache.known_graph("s" * 64) is None


def test_the_card_is_part_of_the_key_where_the_library_ties_engines_to_one() -> None:
    classic = fake_library("10.15", "tensorrt")
    one, other = (make_key("e", "ab" * 32, classic, Target("sm_90", card, True), {}) for card in ("H200", "H100"))
    assert one.digest != other.digest
