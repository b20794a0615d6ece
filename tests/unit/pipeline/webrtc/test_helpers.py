"""STUN and TURN servers that are well, silent, gone or without an address: none of them holds an answer up twice."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aioice import ice

from pipeline.live.settings import IceServer as IceServerSettings
from pipeline.live.settings import RtcSettings
from pipeline.webrtc import helpers as module
from pipeline.webrtc.gathering import helped_by
from pipeline.webrtc.helpers import MAX_RETRY_S, RETRY_S, Helpers
from pipeline.webrtc.hub import LiveHub
from pipeline.webrtc.names import KEPT_S, Names
from pipeline.webrtc.peer import LivePeer
from pipeline.webrtc.rtc_patches import apply_patches
from tests.support.ice_servers import MAPPED, RELAYED, ice_server
from tests.support.rtc import Client, Ticker, session, until

BRIEF_S = 0.05
"""Long enough for a server in this process."""


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def rtc(*urls: str) -> RtcSettings:
    return RtcSettings(ice_servers=(IceServerSettings(urls=urls, username="u"),))


def closed_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


async def gathered(helpers: Helpers) -> set[str]:
    """Types of the candidates that one connection finds; host candidates must always be there."""
    apply_patches()
    connection = ice.Connection(ice_controlling=False)
    with helped_by(helpers.ask):
        await connection.gather_candidates()
    found = connection.local_candidates
    await connection.close()
    kinds = {one.type for one in found}
    assert "host" in kinds
    return kinds - {"host"}


def run(body: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(body(), 60))  # type: ignore[arg-type]  # a coroutine function, in all of these


@pytest.fixture(autouse=True)
def _on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    apply_patches()
    monkeypatch.setattr(ice, "get_host_addresses", lambda use_ipv4, use_ipv6: ["127.0.0.1"])


def test_servers_that_answer_are_asked_side_by_side() -> None:
    async def body() -> None:
        async with ice_server() as stun, ice_server() as turn:
            helpers = Helpers(
                rtc(f"stun:127.0.0.1:{stun.port}", f"turn:127.0.0.1:{turn.port}?transport=udp"), wait_s=20
            )
            assert await gathered(helpers) == {"srflx", "relay"}
            assert len(stun.asked) == 1 and helpers.silent == []
            assert [one.name for one in turn.asked] == ["ALLOCATE", "REFRESH"], "freed again with the connection"

    run(body)


@pytest.mark.parametrize("scheme", ["stun", "turn"])
def test_a_server_that_never_answers_is_waited_for_once(scheme: str) -> None:
    async def body() -> None:
        clock = Clock()
        async with ice_server(answers=False) as server:
            helpers = Helpers(rtc(f"{scheme}:127.0.0.1:{server.port}"), clock=clock, wait_s=BRIEF_S)
            assert await gathered(helpers) == set()
            asked = len(server.asked)
            assert asked == 1 and helpers.silent == [f"{scheme}:127.0.0.1:{server.port}"]
            for _ in range(3):
                assert await gathered(helpers) == set()
            assert len(server.asked) == asked, "it was asked again"
            server.answers = True
            clock.now += RETRY_S
            assert await gathered(helpers) == set(), "nobody waits while it is tried again"
            await until(lambda: not helpers.silent)
            assert await gathered(helpers) == ({"srflx"} if scheme == "stun" else {"relay"})
            await helpers.close()

    run(body)


def test_a_silent_server_is_tried_ever_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PROBE_S", 0.01)

    async def body() -> None:
        clock = Clock()
        async with ice_server(answers=False) as server:
            helpers = Helpers(rtc(f"stun:127.0.0.1:{server.port}"), clock=clock, wait_s=BRIEF_S)
            began, tried = clock.now, [len(server.asked)]
            while clock.now < began + 3 * MAX_RETRY_S:
                await gathered(helpers)
                if helpers._probes:
                    tried.append(round(clock.now - began))
                    await asyncio.gather(*helpers._probes)
                clock.now += RETRY_S
            assert tried == [0, 30, 90, 210, 450, 930, 1530]

    run(body)


def test_servers_that_refuse_or_are_no_servers_are_silent_ones() -> None:
    async def body() -> None:
        urls = [f"stun:127.0.0.1:{closed_port()}", f"turn:127.0.0.1:{closed_port()}", "turn:nowhere.invalid"]
        urls.append(f"turn:127.0.0.1:{closed_port()}?transport=tcp")
        helpers = Helpers(rtc(*urls), wait_s=BRIEF_S)
        for _ in urls:
            assert await gathered(helpers) == set()
        assert helpers.silent == sorted(urls)

    run(body)


def test_a_silent_server_gives_way_to_the_next_of_its_kind() -> None:
    async def body() -> None:
        async with ice_server(answers=False) as dead, ice_server() as well:
            urls = f"stun:127.0.0.1:{dead.port}", f"stun:127.0.0.1:{well.port}"
            helpers = Helpers(rtc(*urls), wait_s=BRIEF_S)
            assert await gathered(helpers) == set()
            assert await gathered(helpers) == {"srflx"}

    run(body)


def test_an_address_that_leads_nowhere_silences_a_server_for_itself_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ice, "get_host_addresses", lambda use_ipv4, use_ipv6: ["127.0.0.1", "127.0.0.2"])
    stock = ice.server_reflexive_candidate

    async def from_one_only(protocol: Any, server: Any) -> Any:
        if protocol.local_candidate.host == "127.0.0.2":
            await asyncio.Event().wait()
        return await stock(protocol, server)

    monkeypatch.setattr(ice, "server_reflexive_candidate", from_one_only)

    async def body() -> None:
        async with ice_server() as server:
            helpers = Helpers(rtc(f"stun:127.0.0.1:{server.port}"), wait_s=BRIEF_S)
            assert await gathered(helpers) == {"srflx"}
            patient = Helpers(rtc(f"stun:127.0.0.1:{server.port}"), wait_s=3600)
            patient._silent = helpers._silent
            assert await gathered(patient) == {"srflx"}, "waits for the one that leads nowhere"

    run(body)


def test_a_name_that_hangs_takes_one_thread_of_its_own_and_holds_nobody_up() -> None:
    hang, looked = threading.Event(), []

    def lookup(host: str) -> str:
        looked.append(threading.current_thread().name)
        hang.wait()
        return "127.0.0.1"

    async def body() -> None:
        clock = Clock()
        async with ice_server() as server:
            settings = rtc(f"stun:slow.example:{server.port}", f"turn:slow.example:{server.port}")
            helpers = Helpers(settings, clock=clock, names=Names(lookup, clock), wait_s=BRIEF_S)
            for _ in range(4):
                assert await gathered(helpers) == set()
                clock.now += RETRY_S
            assert looked == ["ice-server-name"]
            hang.set()
            await until(lambda: not helpers.silent)
            helpers._wait_s = 20
            assert await gathered(helpers) == {"srflx", "relay"}
            assert len(looked) == 1
            await helpers.close()

    run(body)


def test_names_are_kept_and_looked_up_again_behind_the_scenes() -> None:
    answers: list[str | OSError] = [OSError("no such host"), "192.0.2.1", "192.0.2.2"]

    def lookup(host: str) -> str:
        found = answers.pop(0)
        if isinstance(found, OSError):
            raise found
        return found

    async def body() -> None:
        clock = Clock()
        names = Names(lookup, clock)
        assert await names.address("198.51.100.1") == "198.51.100.1"
        with pytest.raises(OSError, match="no such host"):
            await names.address("a.example")
        assert await names.address("a.example") == "192.0.2.1"
        clock.now += KEPT_S
        assert await names.address("a.example") == "192.0.2.1", "the old one while the new one is looked up"
        await until(lambda: not names._running)
        assert await names.address("a.example") == "192.0.2.2"
        with pytest.raises(OSError, match="label"):
            await Names().address("a..example")

    run(body)


def test_an_answer_holds_what_servers_know_and_comes_without_them_too() -> None:
    async def body(hub: LiveHub, ticker: Ticker, client: Client) -> None:
        async with ice_server() as well, ice_server(answers=False) as dead:
            settings = rtc(f"stun:127.0.0.1:{well.port}", f"turn:127.0.0.1:{dead.port}")
            helpers = Helpers(settings, wait_s=BRIEF_S)
            offer = await client.offer()
            peer = LivePeer(hub, settings, helpers=helpers)
            answer = await peer.answer(offer)
            assert f" {MAPPED[0]} {MAPPED[1]} typ srflx" in answer and RELAYED[0] not in answer
            await client.accept(answer)
            await until(lambda: len(client.pictures) > 2)
            await peer.close()
            await helpers.close()

    session(body)
