"""What a kill costs is read off counters and moments, without a service."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("ray.serve")
pytest.importorskip("aiortc")

from benchmarks.graph.survival import DrawnChunks, picture_gap_s
from tests.support.manual_clock import ManualClock


def numbers(calls: int, failed: int = 0) -> dict[str, dict[str, int]]:
    return {"stage_calls": {"renderer": calls}, "stage_failures": {"renderer": failed}}


def test_the_gap_is_the_longest_time_without_a_drawn_chunk_of_any_session() -> None:
    clock = ManualClock(0.0)
    now: dict[str, dict[str, dict[str, int]]] = {}
    drawn = DrawnChunks(lambda: now, clock)
    for at, first, second in [
        (0.0, (1, 0), (1, 0)),
        (0.3, (2, 0), (2, 0)),
        (2.0, (4, 2), (2, 0)),
        (3.5, (5, 2), (5, 2)),
    ]:
        clock.now = at
        now = {"a": numbers(*first), "b": numbers(*second)}
        drawn.look()
    assert drawn.at == {"a": [0.0, 0.3, 3.5], "b": [0.0, 0.3, 3.5]}, "failed calls drew nothing"
    assert drawn.gap_s(0.4, 4.0) == pytest.approx(3.2)
    assert drawn.gap_s(0.4, 3.0) is None, "nothing came back in time"


def test_a_viewer_who_gets_no_picture_again_has_an_endless_gap() -> None:
    steady = [0.04 * n for n in range(100)]
    broken = [at for at in steady if at < 1.0 or at > 3.0]
    assert picture_gap_s([steady], 1.0, 3.9) == pytest.approx(0.04)
    assert picture_gap_s([steady, broken], 1.0, 3.9) == pytest.approx(3.04 - 0.96)
    assert picture_gap_s([steady, [0.0, 0.5]], 1.0, 3.9) == math.inf
    assert picture_gap_s([[2.0, 2.04]], 1.0, 3.9) == 0.0, "it came after the kill"
