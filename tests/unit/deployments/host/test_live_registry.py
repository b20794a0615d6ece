"""Where live sessions are, on a fake clock."""

from __future__ import annotations

import pytest

from deployments.host.live_errors import SessionEndedError, SessionLostError, SessionNotFoundError
from deployments.host.live_registry import LOST_AFTER_S, MAX_TOMBSTONES, TOMBSTONE_S, SessionRegistry
from tests.support.manual_clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(100.0)


@pytest.fixture
def registry(clock: ManualClock) -> SessionRegistry:
    return SessionRegistry(clock)


def test_a_session_is_found_until_it_ends_and_then_says_why(registry: SessionRegistry) -> None:
    registry.add("s1", "replica-a")
    assert registry.where("s1") == "replica-a"
    registry.end("s1", "deleted")
    with pytest.raises(SessionEndedError, match="deleted"):
        registry.where("s1")
    with pytest.raises(SessionNotFoundError):
        registry.where("s2")


def test_a_beat_that_is_late_loses_the_sessions_of_its_replica_only(
    registry: SessionRegistry, clock: ManualClock
) -> None:
    registry.add("s1", "replica-a")
    registry.add("s2", "replica-b")
    clock.now += LOST_AFTER_S - 1
    registry.beat("replica-b", ["s2"])
    clock.now += 2
    with pytest.raises(SessionLostError):
        registry.where("s1")
    assert registry.where("s2") == "replica-b"
    assert registry.replicas() == ["replica-b"]


def test_a_dead_replica_reported_by_a_caller_loses_its_sessions_at_once(registry: SessionRegistry) -> None:
    registry.add("s1", "replica-a")
    assert registry.leave("replica-a") == ["s1"], "whose tokens are given back"
    assert registry.leave("replica-a") == []
    with pytest.raises(SessionLostError):
        registry.where("s1")


def test_an_empty_registry_is_filled_by_beats(registry: SessionRegistry) -> None:
    registry.beat("replica-a", ["s1", "s2"])
    assert registry.where("s2") == "replica-a"
    registry.beat("replica-a", ["s2"])
    with pytest.raises(SessionLostError):
        registry.where("s1")


def test_an_end_that_comes_after_a_beat_without_the_session_still_says_why(registry: SessionRegistry) -> None:
    registry.add("s1", "replica-a")
    registry.beat("replica-a", [])
    registry.end("s1", "deleted")
    with pytest.raises(SessionEndedError, match="deleted"):
        registry.where("s1")


def test_a_late_beat_does_not_bring_an_ended_session_back(registry: SessionRegistry) -> None:
    registry.add("s1", "replica-a")
    registry.end("s1", "idle_ttl")
    registry.beat("replica-a", ["s1"])
    with pytest.raises(SessionEndedError):
        registry.where("s1")


def test_a_replica_that_was_only_slow_gets_its_sessions_back(registry: SessionRegistry, clock: ManualClock) -> None:
    registry.add("s1", "replica-a")
    registry.add("s2", "replica-a")
    clock.now += LOST_AFTER_S + 1
    with pytest.raises(SessionLostError):
        registry.where("s1")
    registry.end("s2", "deleted")
    registry.beat("replica-a", ["s1", "s2"])
    assert registry.where("s1") == "replica-a"
    with pytest.raises(SessionEndedError, match="deleted"):
        registry.where("s2")


def test_tombstones_are_bounded_in_number_and_age(registry: SessionRegistry, clock: ManualClock) -> None:
    for number in range(MAX_TOMBSTONES + 5):
        registry.add(f"s{number}", "replica-a")
        registry.end(f"s{number}", "deleted")
    with pytest.raises(SessionNotFoundError):
        registry.where("s0")
    with pytest.raises(SessionEndedError):
        registry.where(f"s{MAX_TOMBSTONES + 4}")
    clock.now += TOMBSTONE_S + 1
    with pytest.raises(SessionNotFoundError):
        registry.where(f"s{MAX_TOMBSTONES + 4}")
