"""Real sessions in fake rooms: an agent speaks through one, cuts it off and is told what was heard, by LiveKit's own tracks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from tests.support.require import missing

try:
    import livekit.rtc  # noqa: F401  # the rooms are made of it
except ModuleNotFoundError:
    missing("EXTRAS", "no livekit here (the extra livekit)")

from benchmarks.agents.rooms import AGENT, FakeRoom, Listener, Rooms, access_token, rtc
from benchmarks.live.click_stages import ClickStages, grey_card
from benchmarks.live.stamped_scene import is_flash
from deployments.config import SessionHostSettings
from deployments.host.live_calls import LiveOffer
from deployments.host.live_errors import SessionEndedError
from deployments.host.live_sessions import LiveSessions
from kernels.errors import InvalidInputError
from pipeline.live.contracts import Drive
from pipeline.livekit.errors import LiveKitMissingError, RoomUnreachableError
from pipeline.livekit.invitation import RoomInvitation, read_invitation
from pipeline.stages import Stages
from serve_app.cluster.own import free_port

SETTINGS = SessionHostSettings.model_validate(
    {"encoder": {"prefer": "x264", "threads": 1}, "live": {"connect_timeout_s": 20.0}}
)
TOPIC = "lk.audio_stream"


def speech(seconds: float, rate_hz: int = 24_000, channels: int = 1) -> bytes:
    """s16le: a tone with a click every 0.5 s."""
    places = np.arange(round(seconds * rate_hz))
    voice = 0.03 * np.sin(2 * np.pi * 200 / rate_hz * places)
    for start in range(rate_hz // 4, len(voice), rate_hz // 2):
        voice[start : start + rate_hz // 1000] = 0.9
    return np.repeat((voice * 32767).astype("<i2"), channels).tobytes()


class Agent:
    """The agent's side of the data streams, spelt out.

    Attributes:
        told: Payloads of `lk.playback_finished`.
        starts: Calls of `lk.playback_started`.
    """

    def __init__(self, room: FakeRoom, wants_starts: bool = True) -> None:
        self.room, self.told, self.starts = room, [], 0
        room.local_participant.register_rpc_method("lk.playback_finished", self._finished)
        if wants_starts:
            room.local_participant.register_rpc_method("lk.playback_started", self._started)

    async def say(self, seconds: float, rate_hz: int = 24_000, channels: int = 1, ends: bool = True) -> Any:
        attributes = {"sample_rate": str(rate_hz), "num_channels": str(channels)}
        participant: Any = self.room.local_participant
        stream = await participant.stream_bytes(
            "a", topic=TOPIC, destination_identities=["avatar"], attributes=attributes
        )
        data = speech(seconds, rate_hz, channels)
        for start in range(0, len(data), 4001):
            await stream.write(data[start : start + 4001])
        if ends:
            await stream.aclose()
        return stream

    async def clear(self) -> str:
        participant: Any = self.room.local_participant
        return str(await participant.perform_rpc(destination_identity="avatar", method="lk.clear_buffer", payload=""))

    def _finished(self, data: Any) -> str:
        assert data.caller_identity == "avatar"
        self.told.append(json.loads(data.payload))
        return "ok"

    def _started(self, data: Any) -> str:
        self.starts += 1
        return "ok"


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # it happens in the session's own tasks
            await asyncio.sleep(0.005)


@asynccontextmanager
async def sessions(rooms: Rooms, connect_timeout_s: float = 20.0) -> AsyncIterator[LiveSessions]:
    live = SETTINGS.live.model_copy(update={"connect_timeout_s": connect_timeout_s})
    stages, avatar = ClickStages(), grey_card()

    async def same(session_id: str) -> Stages:
        return stages

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deployments.host.session_setup.load_rtc", lambda: rooms)
        found = LiveSessions(SETTINGS.model_copy(update={"live": live}), same, lambda _: avatar, stages)
        try:
            yield found
        finally:
            await found.close()


def offer(agent: str = "agent") -> LiveOffer:
    room = RoomInvitation("wss://live.example", access_token(agent=agent), "studio", "avatar", agent)
    return LiveOffer("s1", "", None, 25, Drive.PUSH, True, room=room)


def in_room(body: Callable[[LiveSessions, Rooms, Agent, Listener], Coroutine[Any, Any, None]], **more: Any) -> None:
    async def run() -> None:
        rooms = Rooms()
        agent = Agent(rooms.agent(), **more)
        async with sessions(rooms) as found:
            answer = await found.open(offer())
            assert (answer.sdp, answer.width, answer.height) == ("", 512, 512)
            listener = Listener(rooms.joined["avatar"].local_participant)
            try:
                await body(found, rooms, agent, listener)
            finally:
                await listener.close()

    asyncio.run(run())


def test_segments_are_heard_and_seen_and_each_is_reported_once() -> None:
    async def body(found: LiveSessions, rooms: Rooms, agent: Agent, listener: Listener) -> None:
        await agent.say(0.6)
        await agent.say(0.4, 48_000, channels=2)
        empty = await agent.say(0.0)
        await until(lambda: len(agent.told) == 3)
        assert [one["interrupted"] for one in agent.told] == [False] * 3
        by_length = sorted(one["playback_position"] for one in agent.told)
        assert by_length == [0.0, pytest.approx(0.4, abs=0.002), pytest.approx(0.6, abs=0.002)]
        await until(lambda: listener.loud_s() > 0.95)
        assert listener.loud_s() == pytest.approx(1.0, abs=0.06)
        assert agent.starts == 2 and empty.closed
        frames = pictures(found)
        assert {(one.width, one.height, one.type) for one in frames} == {(512, 512, rtc.VideoBufferType.NV12)}
        luma = [np.frombuffer(one.data, np.uint8)[: 512 * 512].reshape(512, 512) for one in frames]
        assert sum(is_flash(one, 0, 0) for one in luma) >= 2, "clicks that were heard were seen"

    in_room(body)


def pictures(found: LiveSessions) -> list[Any]:
    """What the session handed to LiveKit."""
    peer: Any = found._entry("s1").peer
    frames: list[Any] = peer._pictures.source.frames
    return frames


def test_a_cut_is_reported_with_what_was_heard_and_drops_the_rest() -> None:
    async def body(found: LiveSessions, rooms: Rooms, agent: Agent, listener: Listener) -> None:
        stream = await agent.say(5.0, ends=False)
        waiting = await agent.say(1.0)
        await until(lambda: listener.loud_s() > 0.4)
        assert await agent.clear() == "ok"
        await until(lambda: len(agent.told) == 2)
        await listener.settle()
        heard_s = listener.loud_s()
        first, second = agent.told
        assert (first["interrupted"], second) == (
            True,
            {"playback_position": 0.0, "interrupted": True, "synchronized_transcript": None},
        )
        assert first["playback_position"] == pytest.approx(heard_s, abs=0.04), "what was heard, to a picture"
        await stream.write(speech(1.0))
        await stream.aclose()
        await listener.settle()
        assert listener.loud_s() == heard_s, "nothing old is heard any more"
        assert waiting.closed and stream.closed
        await agent.say(0.3)
        await until(lambda: len(agent.told) == 3)
        assert agent.told[2]["interrupted"] is False
        assert agent.told[2]["playback_position"] == pytest.approx(0.3, abs=0.002)

    in_room(body)


@pytest.mark.nightly("1.5 s of speech; the cut by the agent goes the same way")
def test_an_interruption_from_elsewhere_is_reported_too() -> None:
    from deployments.host.live_commands import Interrupt

    async def body(found: LiveSessions, rooms: Rooms, agent: Agent, listener: Listener) -> None:
        await agent.say(5.0)
        await until(lambda: listener.loud_s() > 0.4)
        await found.handle(Interrupt("s1"))
        await until(lambda: agent.told)
        await listener.settle()
        (told,) = agent.told
        assert told["interrupted"] and told["playback_position"] == pytest.approx(listener.loud_s(), abs=0.04)

    in_room(body, wants_starts=False)


def test_others_in_the_room_neither_speak_nor_cut() -> None:
    async def body(found: LiveSessions, rooms: Rooms, agent: Agent, listener: Listener) -> None:
        stranger = Agent(rooms.agent("stranger"))
        await stranger.say(1.0)
        await agent.say(0.4)
        await until(lambda: listener.loud_s() > 0.1)
        assert await stranger.clear() == "reject"
        await until(lambda: agent.told)
        assert agent.told[0]["interrupted"] is False and stranger.told == []

    in_room(body)


@pytest.mark.nightly("1.3 s of speech; strangers are refused by a faster one")
def test_a_token_without_an_agent_means_the_first_agent_that_speaks() -> None:
    async def run() -> None:
        rooms = Rooms()
        viewer, agent = Agent(rooms.agent("viewer")), Agent(rooms.agent("helper"))
        viewer.room.local_participant.kind = rtc.ParticipantKind.PARTICIPANT_KIND_STANDARD
        assert agent.room.local_participant.kind == AGENT
        async with sessions(rooms) as found:
            await found.open(offer(agent=""))
            await viewer.say(0.5)
            await agent.say(0.3)
            await until(lambda: agent.told)
            assert viewer.told == [] and await viewer.clear() == "reject"

    asyncio.run(run())


def test_the_session_ends_with_its_agent_and_leaves_nothing() -> None:
    async def body(found: LiveSessions, rooms: Rooms, agent: Agent, listener: Listener) -> None:
        await rooms.agent("another").disconnect()
        assert found.ids == ["s1"]
        await agent.room.disconnect()
        await until(lambda: not found.ids)
        assert found.ended == {"peer_closed": 1} and found.headroom.active == 0
        assert "avatar" not in rooms.joined
        with pytest.raises(SessionEndedError):
            from deployments.host.live_commands import ReadStats

            await found.handle(ReadStats("s1"))

    in_room(body)


@pytest.mark.parametrize(
    "said, error",
    (
        ("engine: signal failure: 401 Unauthorized", InvalidInputError),
        ("engine: connection refused", RoomUnreachableError),
        ("", RoomUnreachableError),
    ),
)
def test_a_room_that_cannot_be_joined_leaves_nothing(said: str, error: type[Exception]) -> None:
    async def run() -> None:
        rooms = Rooms()
        rooms.refuses, rooms.stalls = said, not said
        async with sessions(rooms, 20.0 if said else 0.1) as found:
            with pytest.raises(error) as caught:
                await found.open(offer())
            assert getattr(caught.value, "retryable", False) is (error is RoomUnreachableError)
            assert access_token() not in str(caught.value)
            assert found.ids == [] and found.headroom.active == 0

    asyncio.run(run())


async def no(request: web.Request) -> web.Response:
    return web.Response(status=401, text="invalid token")


@pytest.mark.parametrize("answers, error", ((True, InvalidInputError), (False, RoomUnreachableError)))
def test_livekit_s_own_client_says_the_same(answers: bool, error: type[Exception]) -> None:
    async def run() -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", no)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1] if answers else free_port()
        room = read_invitation(f"ws://127.0.0.1:{port}", access_token(), ("127.0.0.1",))
        stages, avatar = ClickStages(), grey_card()

        async def same(session_id: str) -> Stages:
            return stages

        found = LiveSessions(SETTINGS, same, lambda _: avatar, stages)
        try:
            with pytest.raises(error) as caught:
                await found.open(replace(offer(), room=room))
            assert room.token not in str(caught.value) and found.ids == [] and found.headroom.active == 0
        finally:
            await found.close()
            await runner.cleanup()

    asyncio.run(run())


def test_without_the_package_the_offer_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "livekit", None)
    from pipeline.livekit.room_peer import load_rtc

    with pytest.raises(LiveKitMissingError, match=r"liveanchor\[livekit\]"):
        load_rtc()
