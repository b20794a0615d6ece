"""The rows that the fan-out benchmark makes of what its subscribers report, and what they count."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

pytest.importorskip("aiortc")

from aiortc.rtcconfiguration import RTCIceTransportPolicy

from benchmarks.agents import fan_out, relay, run
from benchmarks.agents.settings import fields
from benchmarks.agents.subscribers import Subscriber
from benchmarks.core.run_info import describe_run
from kernels.errors import LiveAnchorError
from pipeline.publish.target import PublishTarget, check_target
from pipeline.webrtc.turn_credentials import servers_for
from serve_app.config.settings import AppConfig

RIG = run.Rig(describe_run("x", commit="0123abc"), "http://x", "a" * 32, 3, 1, 2)


@contextmanager
def nothing(*arguments: object) -> Iterator[str]:
    yield "s1"


def rows(monkeypatch: pytest.MonkeyPatch, watched: Any, state: str = "live") -> list[Any]:
    for name in ("janus_server", "whip_front", "session"):
        monkeypatch.setattr(fan_out, name, nothing)
    answer = httpx.Response(201, json={"state": state, "error": "away"}, request=httpx.Request("POST", "http://x"))
    monkeypatch.setattr(fan_out.httpx, "post", lambda *arguments, **more: answer)
    monkeypatch.setattr(fan_out, "_watched", watched)
    return list(fan_out.whip(RIG))


def test_each_row_has_its_baseline_and_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    def watched(url: str, count: int, *options: str) -> dict[str, Any]:
        cores = {1: 0.5, 50: 0.52, 10: 0.75}[count]
        return {"fps": [25.0] * (count - 2) + [19.0, 24.0] if count > 1 else [25.0], "cores": cores}

    viewers, ratio = rows(monkeypatch, watched)
    assert (viewers.case, viewers.value, viewers.floor_value, viewers.n) == ("whip_viewers", 49, 50, 3)
    assert (ratio.case, ratio.value, ratio.baseline_value, ratio.floor_value) == (
        "host_cpu_ratio_50_to_1",
        1.04,
        1.5,
        1,
    )
    assert ratio.ratio == pytest.approx(1.5 / 1.04, rel=1e-4) and "WHEP" in ratio.baseline


def test_a_session_that_is_not_at_the_sfu_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LiveAnchorError, match="away"):
        rows(monkeypatch, lambda *arguments: {}, state="waiting")


def test_pictures_are_counted_by_their_last_packet() -> None:
    async def body() -> None:
        one = Subscriber()
        one._count("v=0\r\nm=audio 9 UDP/TLS/RTP/SAVPF 111\r\nm=video 9 UDP/TLS/RTP/SAVPF 99 100\r\n")
        for second in (99, 99, 0x80 | 99, 100, 0x80 | 111, 0x80 | 100):
            await one._take(bytes([0x80, second, 0, 1]), 0)
        assert (one.packets, one.pictures) == (6, 2)
        await one.close()

    asyncio.run(body())


def test_the_graph_may_do_what_the_cases_ask_of_it() -> None:
    config = AppConfig.model_validate(fields(8123, 8456))
    target = PublishTarget("http://127.0.0.1:8123/whip", "key")
    check_target(target, config.session_host().publish)
    (server,) = servers_for(config.ingress().rtc, 0.0, "viewer")
    assert server.urls == ("turn:127.0.0.1:8456?transport=udp",) and server.username == "3600:viewer"
    assert config.rtc.max_viewers == fan_out.DIRECT


def test_a_relayed_connection_is_compared_with_a_direct_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def visits(url: str, session_id: str) -> tuple[list[float], list[float]]:
        assert session_id == "s1"
        return [420.0, 400.0, 500.0], [200.0, 210.0, 190.0]

    for name in ("coturn", "session"):
        monkeypatch.setattr(relay, name, nothing)
    monkeypatch.setattr(relay, "_visits", visits)
    (row,) = relay.relay(RIG)
    assert (row.case, row.value, row.baseline_value, row.floor_value, row.n) == (
        "turn_relay_connect_ms",
        420,
        200,
        200,
        3,
    )


def test_a_relayed_client_tells_no_address_of_its_own() -> None:
    told = [{"urls": ["turn:turn.example"], "username": "u", "credential": "c"}]
    for relayed, policy in ((True, RTCIceTransportPolicy.RELAY), (False, RTCIceTransportPolicy.ALL)):

        async def body(relayed: bool = relayed, policy: RTCIceTransportPolicy = policy) -> None:
            pc: Any = relay.connection(told, relayed)
            configuration = pc._RTCPeerConnection__configuration
            assert configuration.iceTransportPolicy is policy and len(configuration.iceServers) == relayed
            await pc.close()

        asyncio.run(body())
