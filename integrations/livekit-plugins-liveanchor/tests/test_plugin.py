"""An agent's side made of LiveKit's own classes, the real LiveAnchor behind it, and a room of this process between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from livekit import rtc
from livekit.agents import APIConnectionError, APIStatusError
from livekit.agents.voice import AgentSession
from livekit.plugins import liveanchor
from service import IDENTITY, Service, service

KEYS = {"livekit_url": "wss://live.example", "livekit_api_key": "key", "livekit_api_secret": "s" * 32}
RATE_HZ = 24_000


class Talk:
    """What a test of one agent has.

    Attributes:
        finished: Everything that LiveKit's output told the framework.
    """

    def __init__(self, there: Service, avatar: Any, session: AgentSession, room: Any) -> None:
        self.there, self.avatar, self.session, self.room = there, avatar, session, room
        self.finished: list[Any] = []
        self.starts = 0
        self.voice: Any = session.output.audio
        self.voice.on("playback_finished", self.finished.append)
        self.voice.on("playback_started", self._started)

    def _started(self, event: Any) -> None:
        self.starts += 1

    async def say(self, seconds: float) -> None:
        tone = (1500 * np.sin(np.arange(round(seconds * RATE_HZ)) * 0.05)).astype(np.int16)
        for start in range(0, len(tone), RATE_HZ // 10):
            piece = tone[start : start + RATE_HZ // 10]
            await self.voice.capture_frame(rtc.AudioFrame(piece.tobytes(), RATE_HZ, 1, len(piece)))


def talk(folder: Path, body: Callable[[Talk], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        async with service(folder) as there, aiohttp.ClientSession() as http:
            room: Any = there.rooms.agent("agent-1")
            session = AgentSession()
            avatar = liveanchor.AvatarSession(base_url=there.url, http_session=http)
            await avatar.start(session, room, **KEYS)
            try:
                await body(Talk(there, avatar, session, room))
            finally:
                await avatar.aclose()
                await there.until(lambda: IDENTITY not in there.rooms.joined)

    asyncio.run(run())


def test_what_the_agent_says_is_heard_and_its_end_is_told_once(tmp_path: Path) -> None:
    async def body(one: Talk) -> None:
        await one.avatar.wait_for_join(timeout=30)
        listener = one.there.listener()
        await one.say(0.8)
        one.voice.flush()
        done = await one.voice.wait_for_playout()
        assert (done.interrupted, done.playback_position) == (False, pytest.approx(0.8, abs=0.002))
        assert listener.loud_s() == pytest.approx(0.8, abs=0.06)
        await one.say(0.3)
        one.voice.flush()
        done = await one.voice.wait_for_playout()
        assert (done.interrupted, done.playback_position) == (False, pytest.approx(0.3, abs=0.002))
        assert len(one.finished) == 2 and one.starts == 2
        await listener.close()

    talk(tmp_path, body)


def test_an_interruption_is_told_with_what_was_heard(tmp_path: Path) -> None:
    async def body(one: Talk) -> None:
        await one.avatar.wait_for_join(timeout=30)
        listener = one.there.listener()
        await one.say(6.0)
        one.voice.flush()
        await one.there.until(lambda: listener.loud_s() > 0.9)
        one.voice.clear_buffer()
        done = await one.voice.wait_for_playout()
        await listener.settle()
        assert done.interrupted
        assert done.playback_position == pytest.approx(listener.loud_s(), abs=0.04)
        await one.say(0.4)
        one.voice.flush()
        done = await one.voice.wait_for_playout()
        assert (done.interrupted, done.playback_position) == (False, pytest.approx(0.4, abs=0.002))
        assert len(one.finished) == 2
        await listener.close()

    talk(tmp_path, body)


def test_an_avatar_that_leaves_is_told(tmp_path: Path) -> None:
    async def body(one: Talk) -> None:
        left: list[None] = []
        one.avatar.on("avatar_disconnected", lambda: left.append(None))
        await one.there.rooms.joined[IDENTITY].disconnect()
        assert left == [None]

    talk(tmp_path, body)


def test_what_keeps_the_avatar_away_says_whether_to_ask_again(tmp_path: Path) -> None:
    async def start(there: Service, http: Any, **more: Any) -> None:
        session = AgentSession()
        before = session.output.audio
        avatar = liveanchor.AvatarSession(base_url=more.pop("base_url", there.url), http_session=http)
        try:
            await avatar.start(session, there.rooms.agent("agent-1"), **(KEYS | more))  # type: ignore[arg-type]
        finally:
            assert session.output.audio is before, "the agent keeps its own voice"

    async def run() -> None:
        async with service(tmp_path, max_sessions=1) as there, aiohttp.ClientSession() as http:
            with pytest.raises(APIStatusError) as caught:
                await start(there, http, livekit_url="wss://elsewhere.example")
            assert (caught.value.status_code, caught.value.retryable) == (422, False)
            with pytest.raises(APIConnectionError) as unreachable:
                await start(there, http, base_url="http://127.0.0.1:9")
            assert unreachable.value.retryable
            there.rooms.refuses = "engine: connection refused"
            with pytest.raises(APIStatusError) as away:
                await start(there, http)
            assert (away.value.status_code, away.value.retryable) == (503, True)
            there.rooms.refuses = ""
            await start_and_keep(there, http)
            with pytest.raises(liveanchor.LiveAnchorCapacityError) as full:
                await start(there, http)
            assert full.value.retryable and full.value.retry_after_s

    async def start_and_keep(there: Service, http: Any) -> None:
        avatar = liveanchor.AvatarSession(base_url=there.url, http_session=http, avatar_identity="first")
        await avatar.start(AgentSession(), there.rooms.agent("agent-2"), **KEYS)  # type: ignore[arg-type]

    asyncio.run(run())


def test_addresses_and_keys_must_come_from_somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIVEANCHOR_URL", raising=False)
    with pytest.raises(ValueError, match="LIVEANCHOR_URL"):
        liveanchor.AvatarSession()

    async def run() -> None:
        room: Any = None
        with pytest.raises(ValueError, match="LIVEKIT_URL"):
            await liveanchor.AvatarSession(base_url="http://x").start(AgentSession(), room)

    for name in ("LIVEKIT_URL", "LIVEKIT_API_KEY", "LIVEKIT_API_SECRET"):
        monkeypatch.delenv(name, raising=False)
    asyncio.run(run())
