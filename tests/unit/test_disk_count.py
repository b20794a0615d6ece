"""The count of bytes that the Ray tests judge sessions by sees what it must, and only that."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.ray import disk


def test_the_count_of_written_bytes_sees_a_file(tmp_path: Path) -> None:
    path, before = tmp_path / "proof.bin", disk.counted(Path("/proc/self"))
    path.write_bytes(os.urandom(2**20))
    counted = disk.counted(Path("/proc/self")) - before
    path.unlink()
    if not counted:
        pytest.skip("the temporary folder is in memory here, whose files the kernel does not count")
    assert counted >= 2**20
    log = {1: {"/x/logs/a.log": 100}}
    quiet, loud = disk.Written(0.0, {1: 0}, log), disk.Written(20.0, {1: 2**20}, {1: {"/x/logs/a.log": 900}})
    assert quiet.beside_logs(quiet) == {}
    assert quiet.beside_logs(loud)[1] > 900_000, "a log that grew by 800 bytes does not hide a megabyte"


def test_what_ray_writes_of_its_own_is_bounded_and_a_session_may_write_nothing() -> None:
    """Process 1 is the raylet, 2 a replica; 20 seconds pass."""

    def extra(raylet: int, replica: int) -> set[int]:
        before = disk.Written(0.0, {1: 0, 2: 0}, {1: {}, 2: {}}, frozenset({1}))
        return set(before.beside_logs(disk.Written(20.0, {1: raylet, 2: replica}, {1: {}, 2: {}}, frozenset({1}))))

    picture = 360 * 640 * 3 // 2
    assert extra(disk.METADATA + disk.PAGE, 0) == set(), "seen once, and no fault of the session"
    assert extra(2 * picture, 0) == {1}, "two spilled pictures in 20 s are too many"
    assert extra(0, disk.METADATA + disk.PAGE) == {2}, "what a replica may not write"
