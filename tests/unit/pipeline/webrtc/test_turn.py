"""Credentials of TURN servers that end, and a real coturn that checks them."""

from __future__ import annotations

import asyncio
import base64
import shutil
import time
from collections.abc import Sequence

import pytest
from aiortc import RTCConfiguration, RTCIceServer, RTCPeerConnection
from aiortc.rtcconfiguration import RTCIceTransportPolicy
from pydantic import SecretStr, ValidationError

from benchmarks.agents.coturn import NAME, SECRET, coturn
from kernels.errors import InvalidInputError
from pipeline.live.settings import IceServer, RtcSettings
from pipeline.webrtc import ice
from pipeline.webrtc.helpers import Helpers
from pipeline.webrtc.turn_credentials import servers_for, turn_credentials
from pipeline.webrtc.viewers import Viewers
from serve_app.cluster.own import free_port
from tests.support.manual_clock import ManualClock
from tests.support.require import missing
from tests.support.rtc import Client, running_hub, until


def turn(port: int, secret: str = SECRET, ttl_s: int = 3600) -> RtcSettings:
    urls = (f"turn:127.0.0.1:{port}?transport=udp",)
    return RtcSettings(turn_urls=urls, turn_secret=SecretStr(secret), turn_ttl_s=ttl_s)


def test_the_password_is_a_keyed_hash_of_expiry_and_name() -> None:
    made = turn_credentials("north", 1_433_895_918, "ninefingers")
    assert made.username == "1433895918:ninefingers"
    hash_by_openssl = "jy8hTxmOO7UtEKXqSkSlvakPVYA="
    assert made.password == hash_by_openssl and len(base64.b64decode(made.password)) == 20


def test_clients_get_the_fixed_servers_and_credentials_that_end() -> None:
    fixed = IceServer(urls=("stun:stun.example:3478",))
    settings = turn(3478, ttl_s=600).model_copy(update={"ice_servers": (fixed,)})
    first, second = servers_for(settings, 1000.9, "anna")
    assert first == fixed and second.urls == settings.turn_urls and second.username == "1600:anna"
    assert second.credential.get_secret_value() == turn_credentials(SECRET, 1600, "anna").password
    assert servers_for(RtcSettings(ice_servers=(fixed,)), 0.0, "anna") == (fixed,)
    (link,) = ice.link_headers([second])
    assert 'username="1600:anna"' in link and second.credential.get_secret_value() in link


def test_the_service_s_own_credentials_are_made_when_they_are_needed() -> None:
    clock = ManualClock(1000.0)
    (server,) = ice.helper_urls(turn(3478, ttl_s=600), clock)
    assert server.login == turn_credentials(SECRET, 1600, "liveanchor")
    clock.now = 5000.0
    assert server.login == turn_credentials(SECRET, 5600, "liveanchor") and SECRET not in repr(server)
    assert server == ice.helper_urls(turn(3478, ttl_s=600))[0], "one that was silent is known again"
    with pytest.raises(InvalidInputError, match="turn_urls"):
        ice.helper_urls(RtcSettings(turn_urls=("http://turn.example",), turn_secret=SecretStr("x")))


def test_urls_and_secret_come_together_and_the_secret_is_not_shown() -> None:
    for one in ({"turn_urls": ("turn:turn.example",)}, {"turn_secret": "x"}):
        with pytest.raises(ValidationError, match="turn_urls and turn_secret come together"):
            RtcSettings.model_validate(one)
    settings = turn(3478)
    assert SECRET not in repr(settings) + str(settings.model_dump())
    assert RtcSettings.model_validate_json(settings.model_dump_json()) == settings, "Ray Serve is handed all of it"


def through_relays_only(servers: Sequence[IceServer]) -> RTCPeerConnection:
    given = [RTCIceServer(list(one.urls), one.username, one.credential.get_secret_value()) for one in servers]
    return RTCPeerConnection(RTCConfiguration(iceServers=given, iceTransportPolicy=RTCIceTransportPolicy.RELAY))


@pytest.mark.nightly("starts coturn")
@pytest.mark.parametrize("transport", ["udp", "tcp"])
def test_a_viewer_behind_a_relay_watches(transport: str) -> None:
    if shutil.which(NAME) is None:
        missing("TURN", "coturn is missing: apt-get install --no-install-recommends coturn")
    port = free_port()
    settings = turn(port)
    settings = settings.model_copy(update={"turn_urls": (f"turn:127.0.0.1:{port}?transport={transport}",)})

    async def body() -> None:
        async with running_hub(rtc=settings) as (hub, _):
            helpers = Helpers(settings)
            viewers = Viewers(hub, settings, helpers=helpers)
            client = Client(pc=through_relays_only(servers_for(settings, time.time(), "viewer")))
            offer = await client.offer()
            assert "typ relay" in offer and "typ host" not in offer
            _, answer = await viewers.add_viewer(offer)
            assert "typ relay" in answer, "the service relays by credentials of its own"
            await client.accept(answer)
            await until(lambda: len(client.pictures) > 5)
            await viewers.close()
            await client.close()
            await helpers.close()

    with coturn(port):
        asyncio.run(body())


@pytest.mark.nightly("starts coturn")
def test_credentials_that_ended_or_are_wrong_get_no_relay() -> None:
    if shutil.which(NAME) is None:
        missing("TURN", "coturn is missing: apt-get install --no-install-recommends coturn")
    port = free_port()

    async def relayed(settings: RtcSettings, now_s: float) -> bool:
        pc = through_relays_only(servers_for(settings, now_s, "viewer"))
        pc.addTransceiver("audio", direction="recvonly")
        await pc.setLocalDescription(await pc.createOffer())
        found = "typ relay" in pc.localDescription.sdp
        await pc.close()
        return found

    async def body() -> None:
        now_s = time.time()
        assert await relayed(turn(port), now_s)
        assert not await relayed(turn(port), now_s - 3700)
        assert not await relayed(turn(port, "another secret"), now_s)

    with coturn(port):
        asyncio.run(body())
