"""Events of a live session and who listens to them."""

from __future__ import annotations

import asyncio

from deployments.host.event_log import KEPT, EventLog
from deployments.host.live_calls import NumberedEvent
from pipeline.live.contracts import LiveEvent


def _event(name: str, **extra: object) -> LiveEvent:
    return LiveEvent(name, "s1", 0, 1.5, **extra)  # type: ignore[arg-type]


async def _all(log: EventLog, after: int = 0) -> list[NumberedEvent]:
    return [event async for event in log.follow(after)]


def test_early_and_late_listeners_see_every_event_in_order_and_then_end() -> None:
    async def scenario() -> list[list[NumberedEvent]]:
        log = EventLog()
        early = asyncio.create_task(_all(log))
        await asyncio.sleep(0)
        log.add(_event("connected"))
        await asyncio.sleep(0)
        log.add(_event("speaking_finished", position_s=0.0, interrupted=False))
        late = asyncio.create_task(_all(log, after=1))
        await asyncio.sleep(0)
        log.add(_event("ended", detail="deleted"))
        log.close()
        return list(await asyncio.gather(early, late)) + [await _all(log), await _all(log, after=3)]

    early, late, after_the_end, nothing = asyncio.run(scenario())
    assert [one.name for one in early] == ["connected", "speaking_finished", "ended"]
    assert [one.number for one in late] == [2, 3]
    assert after_the_end == early and nothing == []
    assert early[1].data == {"session_id": "s1", "epoch": 0, "at_s": 1.5, "position_s": 0.0, "interrupted": False}


def test_old_events_are_let_go() -> None:
    async def scenario() -> list[NumberedEvent]:
        log = EventLog()
        for _ in range(KEPT + 10):
            log.add(_event("speaking_started"))
        log.close()
        return await _all(log)

    found = asyncio.run(scenario())
    assert (len(found), found[0].number) == (KEPT, 11)
