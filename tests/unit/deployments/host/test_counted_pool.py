"""What the pool of tokens and the hosts export: tokens and their use by set, offers without one, late pictures."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

pytest.importorskip("ray.serve")

from deployments.graph.session_cost import StageCost
from deployments.host import counted_pool
from deployments.host.counted_pool import CountedPool
from deployments.host.late_pictures import LatePictures
from deployments.host.live_errors import NoCapacityError
from deployments.host.stage_set import RENDERER, SET_LOST_S, StageReport

EXPORTED: dict[str, dict[str, float]] = {}


class Metric:
    """Keeps what was exported, by set."""

    def __init__(self, name: str, *, description: str, tag_keys: tuple[str, ...]) -> None:
        assert description and tag_keys == ("application", "set")
        self._values = EXPORTED.setdefault(name, {})

    def set(self, value: float, tags: dict[str, str]) -> None:
        assert tags["application"] == "app"
        self._values[tags["set"]] = value

    def inc(self, value: float = 1.0, *, tags: dict[str, str]) -> None:
        self._values[tags["set"]] = self._values.get(tags["set"], 0.0) + value


def test_tokens_are_exported_by_set(monkeypatch: pytest.MonkeyPatch) -> None:
    EXPORTED.clear()
    monkeypatch.setattr(counted_pool, "metrics", SimpleNamespace(Gauge=Metric, Counter=Metric))
    pool, now = CountedPool("app"), [0.0]
    pool._clock = lambda: now[0]
    for name, most in (("a", 2), ("b", 1)):
        pool.report(StageReport(name, StageCost(RENDERER, 1.0, 1.0), most=most))
    leases = [pool.acquire(f"s{number}", 25.0) for number in range(3)]
    with pytest.raises(NoCapacityError):
        pool.acquire("one more", 25.0)
    pool.renew(leases)
    assert EXPORTED["liveanchor_set_tokens"] == EXPORTED["liveanchor_set_tokens_used"] == {"a": 2.0, "b": 1.0}
    assert EXPORTED["liveanchor_set_offers_refused"] == {"a": 1.0, "b": 1.0}
    now[0] = SET_LOST_S + 1
    pool.report(StageReport("a", StageCost(RENDERER, 1.0, 1.0), most=2))
    pool.renew([])
    assert EXPORTED["liveanchor_set_tokens"] == {"a": 2.0, "b": 0.0}, "a set that is gone has none"


def test_late_pictures_are_counted_once() -> None:
    late = LatePictures()
    assert late.since_last([{"session_id": "a", "frames_repeated": 3}]) == 3
    assert late.since_last([{"session_id": "a", "frames_repeated": 5}, {"session_id": "b", "frames_repeated": 1}]) == 3
    assert late.since_last([]) == 0
    assert late.since_last([{"session_id": "a", "frames_repeated": 2}]) == 2, "an id that begins anew"
