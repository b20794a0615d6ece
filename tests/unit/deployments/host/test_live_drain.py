"""Live sessions of a service that is told to end."""

from __future__ import annotations

from deployments.host.live_calls import LiveOffer
from deployments.host.live_sessions import LiveSessions
from pipeline.live.contracts import Drive
from tests.support.rtc import Client
from tests.unit.deployments.host.test_live_sessions import Told, run


def test_a_service_that_ends_tells_its_sessions_and_then_ends_them() -> None:
    async def body(sessions: LiveSessions, told: Told) -> None:
        client = Client()
        await sessions.open(LiveOffer("s1", await client.offer(), None, 25, Drive.PUSH, True))
        sessions.warn(30.0)
        events = sessions.events("s1", 0)
        warning = await anext(events)
        assert (warning.name, warning.data["detail"]) == ("draining", "30")
        await sessions.drain_all()
        assert told.ended == [("s1", "drained")] and not sessions.ids
        assert [(one.name, one.data["detail"]) async for one in events] == [("ended", "drained")]
        await client.close()

    run(body)
