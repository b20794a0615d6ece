"""When a viewer whose pictures stopped gives its session up, on a fake clock."""

from __future__ import annotations

import asyncio

import httpx
import numpy as np
import pytest

pytest.importorskip("aiortc")

from benchmarks.graph.standing_clients import StandingViewer
from tests.support.manual_clock import ManualClock


class Service:
    """Answers questions in turn, after so many seconds each."""

    def __init__(self, clock: ManualClock, *answers: tuple[float, int | None]) -> None:
        self._clock, self._answers = clock, list(answers)

    async def get(self, path: str, timeout: float) -> httpx.Response:  # noqa: ASYNC109  # as httpx spells it
        took_s, status = self._answers.pop(0)
        self._clock.now += min(took_s, timeout)
        if status is None:
            raise httpx.ReadTimeout(path) if took_s >= timeout else httpx.ConnectError(path)
        return httpx.Response(status)


@pytest.mark.parametrize(
    ("answers", "given_up_s"),
    [
        ([(0.01, 410)], 0.01),
        ([(9.0, None), (9.0, None)], 2.0),  # a second each, and no pause on top
        ([(0.01, None), (0.01, None)], 1.01),  # nobody listens for a moment: that is no reason to ask sooner
        ([(9.0, None), (0.3, 404)], 1.3),
        ([(9.0, None), (0.01, 503), (9.0, None), (9.0, None)], 4.0),
    ],
)
def test_questions_are_a_second_apart_whatever_their_answers_take(
    answers: list[tuple[float, int | None]], given_up_s: float
) -> None:
    clock = ManualClock()

    async def pause(seconds: float) -> None:
        clock.now += seconds

    async def ask() -> float:
        viewer = StandingViewer(np.zeros(16, np.float32), {}, clock, pause)
        began = clock.now
        assert await viewer._is_gone(Service(clock, *answers), asyncio.Event())  # type: ignore[arg-type]  # as little of httpx as it needs
        return clock.now - began

    assert asyncio.run(ask()) == pytest.approx(given_up_s)
