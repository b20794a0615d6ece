"""A session at a real WHIP ingest: what arrives there, what it costs, how it ends and begins again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiortc.rtp import RTCP_PSFB_APP, RtcpPsfbPacket, pack_remb_fci

from kernels.errors import InvalidInputError
from pipeline.fetch.checked_url import UrlRefusedError
from pipeline.fetch.fetcher import Fetcher
from pipeline.live.contracts import LiveClock
from pipeline.live.loop_clock import MonotonicClock
from pipeline.publish.connection import Connection, WhipConnection
from pipeline.publish.errors import IngestRefusedError, IngestUnreachableError, TooManyPublicationsError
from pipeline.publish.publication_stats import PublicationState
from pipeline.publish.publications import Publications
from pipeline.publish.settings import PublishSettings
from pipeline.publish.target import PublishTarget
from pipeline.publish.whip_endpoint import WhipEndpoint
from pipeline.publish.whip_peer import WhipPeer
from pipeline.webrtc.errors import PeerClosedError
from pipeline.webrtc.helpers import Helpers
from pipeline.webrtc.hub import LiveHub
from pipeline.webrtc.offer_text import MAX_CANDIDATES
from pipeline.webrtc.viewers import Viewers
from tests.support.live import FakeClock
from tests.support.rtc import RTC, Client, number_of, running_hub, until
from tests.support.whip_ingest import WhipIngest, whip_ingest

KEY = "stream-key"


class Publisher:
    """A session's publications at one ingest, and the peers that were made for them."""

    def __init__(self, hub: LiveHub, ingest: WhipIngest, clock: LiveClock | None = None, **settings: Any) -> None:
        self.peers: list[WhipPeer] = []
        self.troubles: list[str] = []
        self._hub, self._ingest = hub, ingest
        allowed = ingest.settings.model_copy(update=settings)
        self.all = Publications(allowed, self._connect, clock or MonotonicClock(), self.troubles.append)

    def _connect(self, target: PublishTarget) -> Connection:
        peer = WhipPeer(self._hub, RTC, Helpers(RTC))
        self.peers.append(peer)
        return WhipConnection(WhipEndpoint(self._ingest.fetcher, target, self._ingest.settings), peer, 20.0)


def test_an_ingest_and_a_viewer_get_the_same_encode() -> None:
    async def body() -> None:
        async with whip_ingest(token=KEY) as ingest, running_hub() as (hub, ticker):
            publisher, viewers, client = Publisher(hub, ingest), Viewers(hub, RTC), Client()
            begun = await publisher.all.add(PublishTarget(ingest.url, KEY))
            assert begun.state is PublicationState.LIVE and begun.attempts == 1 and not begun.error
            assert begun.target == f"http://127.0.0.1:{ingest.port}/..." and KEY not in repr(begun)
            await client.accept((await viewers.add_viewer(await client.offer()))[1])

            def both() -> int:
                there = {number_of(one.to_ndarray()[:128]) for one in ingest.pictures}
                return len(there & {number_of(one.to_ndarray()[:128]) for one in client.pictures})

            await until(lambda: both() > 5 and len(ingest.sound) > 10)
            assert hub.stats().viewers == 2 and hub.stats().frames_encoded <= ticker.index
            (seen,) = publisher.all.stats()
            assert seen.peer is not None and seen.peer.fps_out > 0 and seen.peer.bitrate_kbps > 0
            assert seen.peer.connected_after_s is not None and seen.live_s is not None

            (sender,) = [one.sender for one in publisher.peers[0]._pc.getTransceivers() if one.kind == "video"]
            remb = RtcpPsfbPacket(fmt=RTCP_PSFB_APP, ssrc=0, media_ssrc=0, fci=pack_remb_fci(900_000, [sender._ssrc]))
            await sender._handle_rtcp_packet(remb)  # type: ignore[attr-defined]
            await until(lambda: hub.stats().bitrate_kbps <= 850)

            assert await publisher.all.remove(begun.publication_id)
            assert not await publisher.all.remove(begun.publication_id), "harmless when repeated"
            assert ingest.deleted == ["/app/session/1"], "its Location was relative"
            assert ingest.tokens == [f"Bearer {KEY}"] * 2 and publisher.all.stats() == []
            assert hub.stats().viewers == 1
            await until(
                lambda: hub.stats().bitrate_kbps > 850, 30
            )  # what the ingest's network carries counts no longer
            await viewers.close()
            await client.close()

    asyncio.run(body())


def test_the_offer_sends_only_and_names_what_ingests_know() -> None:
    async def body() -> None:
        async with running_hub(echo=False) as (hub, _):
            peer = WhipPeer(hub, RTC, Helpers(RTC))
            text = await peer.offer()
            await peer.close()
            assert text.count("m=") == 1 and "a=sendonly" in text and "a=recvonly" not in text
            assert "a=setup:actpass" in text and "profile-level-id=42e01f" in text and "42001f" not in text
            assert "packetization-mode=1" in text and "a=candidate" in text and "BUNDLE" in text

    asyncio.run(body())


def test_of_an_ingests_candidates_no_more_are_taken_than_of_a_clients() -> None:
    async def body() -> None:
        async with running_hub() as (hub, _):
            peer, ingest = WhipPeer(hub, RTC, Helpers(RTC)), WhipIngest()
            text = await ingest.answer(await peer.offer())
            answer = [one for one in text.splitlines() if "candidate" not in one]
            line = "a=candidate:1 1 udp 2130706431 {} {} typ host"
            hostile = [line.format("thing.local", 9)] * 99 + [line.format("192.0.2.7", port) for port in range(1, 999)]
            at = max(place for place, one in enumerate(answer) if one.startswith("a=mid:"))
            await peer.accept("\r\n".join([*answer[:at], *hostile, "a=end-of-candidates", *answer[at:]]) + "\r\n")
            connection = peer._pc.getTransceivers()[0].sender.transport.transport._connection
            taken = connection.remote_candidates
            assert [one.host for one in taken] == ["192.0.2.7"] * MAX_CANDIDATES
            assert connection._remote_candidates_end is False, "aioice would give up before the ingest's own checks"
            await peer.close()
            await ingest.close()

    asyncio.run(body())


def test_a_lost_ingest_is_connected_to_again() -> None:
    async def body() -> None:
        async with whip_ingest() as ingest, running_hub() as (hub, _):
            clock = FakeClock()
            publisher = Publisher(hub, ingest, clock)
            await publisher.all.add(PublishTarget(ingest.url))
            await until(lambda: len(ingest.pictures) > 0)
            await ingest.peers[0].close()
            await until(lambda: len(ingest.deleted) == 1)
            (lost,) = publisher.all.stats()
            assert lost.state is PublicationState.WAITING and "lost" in lost.error and lost.peer is None
            assert publisher.troubles == [f"publishing to {lost.target}: the connection was lost"]
            ingest.refusals.append((503, {"Retry-After": "7"}))
            await clock.advance(1.5)
            await until(lambda: len(publisher.troubles) == 2)
            await clock.advance(6.9)
            assert len(ingest.offers) == 2, "the ingest asked for seven seconds"
            before = len(ingest.pictures)
            await clock.advance(0.2)
            await until(lambda: len(ingest.pictures) > before)
            (again,) = publisher.all.stats()
            assert again.state is PublicationState.LIVE and again.attempts == 3 and "503" in again.error
            await publisher.all.close()
            assert len(ingest.deleted) == 2 and hub.stats().viewers == 0
            with pytest.raises(PeerClosedError):
                await publisher.all.add(PublishTarget(ingest.url))

    asyncio.run(body())


REFUSALS = [
    (401, "token", "401"),
    (403, "token", "403"),
    (404, "url", "404"),
    (406, "url", "406"),
    (302, "url", "302"),
]


def test_a_refusal_names_the_field_and_leaves_nothing() -> None:
    async def body() -> None:
        async with whip_ingest() as ingest, running_hub() as (hub, _):
            publisher = Publisher(hub, ingest)
            for status, field, said in REFUSALS:
                ingest.refusals.append((status, {"Location": "/elsewhere"}))
                with pytest.raises(IngestRefusedError) as found:
                    await publisher.all.add(PublishTarget(ingest.url, "secret-token"))
                assert found.value.field == field and said in found.value.got
                assert "secret-token" not in str(found.value) and "/app/whip" not in str(found.value)
            for ingest.body in ("v=0 nonsense", "<html>"):
                with pytest.raises(IngestRefusedError) as found:
                    await publisher.all.add(PublishTarget(ingest.url))
                assert found.value.field == "url" and "session description" in found.value.got
            ingest.body, ingest.takes = "", ("video",)
            with pytest.raises(IngestRefusedError, match="no audio"):
                await publisher.all.add(PublishTarget(ingest.url))
            ingest.body = "v" * 70_000
            with pytest.raises(IngestRefusedError, match="64000"):
                await publisher.all.add(PublishTarget(ingest.url))
            assert publisher.all.stats() == [] and hub.stats().viewers == 0

    asyncio.run(body())


def test_redirects_keep_the_method_and_never_leave_what_is_allowed() -> None:
    async def body() -> None:
        async with whip_ingest() as ingest:
            endpoint = WhipEndpoint(ingest.fetcher, PublishTarget(ingest.url, "key"), ingest.settings)
            ingest.body = "v=0 answer"
            ingest.refusals += [
                (307, {"Location": "two"}),
                (308, {"Location": f"http://127.0.0.1:{ingest.port}/app/three"}),
            ]
            session = await endpoint.begin("v=0 offer")
            assert ingest.paths == ["/app/whip", "/app/two", "/app/three"]
            assert ingest.offers == ["v=0 offer"] * 3 and ingest.tokens == ["Bearer key"] * 3
            assert session.url == f"http://127.0.0.1:{ingest.port}/app/session/0"
            ingest.refusals.append((307, {"Location": "http://127.0.0.1:22/app/two"}))
            with pytest.raises(UrlRefusedError, match="port 22"):
                await endpoint.begin("v=0 offer")
            ingest.refusals += [(307, {"Location": "again"})] * 9
            with pytest.raises(IngestRefusedError, match="redirects"):
                await endpoint.begin("v=0 offer")

    asyncio.run(body())


def test_a_token_goes_to_no_other_origin_and_sessions_to_no_other_host() -> None:
    async def body() -> None:
        async with whip_ingest() as ingest, whip_ingest() as other:
            both = ingest.settings.model_copy(update={"ports": (ingest.port, other.port)})
            target, other.body = PublishTarget(ingest.url, "key"), "v=0 answer"
            led = [(307, {"Location": other.url})]
            ingest.refusals += led
            endpoint = WhipEndpoint(Fetcher(both), target, both)
            await endpoint.end(await endpoint.begin("v=0 offer"))
            assert (ingest.tokens, other.tokens, len(other.deleted)) == (["Bearer key"], ["", ""], 1)

            only = both.model_copy(update={"hosts": ("127.0.0.1",)})
            strict = WhipEndpoint(Fetcher(only), target, only)
            named = other.url.replace("127.0.0.1", "127.0.0.2")
            for answer in ((308, {"Location": named}), (201, {"Location": named, "Content-Type": "application/sdp"})):
                ingest.refusals.append(answer)
                with pytest.raises(UrlRefusedError, match=r"127\.0\.0\.2"):
                    await strict.begin("v=0 offer")
            ingest.refusals += led
            assert (await strict.begin("v=0 offer")).sdp == "v=0 answer" and len(other.offers) == 2

    asyncio.run(body())


def test_networks_of_our_own_are_not_reached() -> None:
    async def body() -> None:
        async with whip_ingest() as ingest:
            strict = Fetcher(PublishSettings(ports=(ingest.port,)))
            with pytest.raises(UrlRefusedError):
                await WhipEndpoint(strict, PublishTarget(ingest.url), ingest.settings).begin("v=0 offer")
            assert not ingest.offers

    asyncio.run(body())


def test_an_ingest_that_is_not_there_may_come_later() -> None:
    async def body() -> None:
        async with whip_ingest() as ingest, running_hub() as (hub, _):
            ingest.refusals.append((503, {}))
            publisher = Publisher(hub, ingest, FakeClock(), max_publications=1)
            begun = await publisher.all.add(PublishTarget(ingest.url))
            assert begun.state is PublicationState.WAITING and "503" in begun.error
            with pytest.raises(TooManyPublicationsError):
                await publisher.all.add(PublishTarget(ingest.url))
            await publisher.all.close()
            nobody = WhipEndpoint(ingest.fetcher, PublishTarget(ingest.url), ingest.settings)
        with pytest.raises(IngestUnreachableError, match="does not answer"):
            await nobody.begin("v=0 offer")

    asyncio.run(body())


BAD_TARGETS = [
    (PublishTarget("ftp://ingest.example/a"), {}, "url"),
    (PublishTarget("https://user:pw@ingest.example/a"), {}, "url"),
    (PublishTarget("https://ingest.example:8443/a"), {}, "url"),
    (PublishTarget("https://other.example/a"), {"hosts": ("ingest.example",)}, "url"),
    (PublishTarget("https://ingest.example/a"), {"enabled": False}, "url"),
    (PublishTarget("https://ingest.example/a", "two words"), {}, "token"),
    (PublishTarget("https://ingest.example/a", "x" * 5000), {}, "token"),
]


@pytest.mark.parametrize(("target", "settings", "field"), BAD_TARGETS)
def test_targets_that_are_refused_unasked(target: PublishTarget, settings: dict[str, Any], field: str) -> None:
    async def body() -> None:
        def never(target: PublishTarget) -> Connection:
            raise AssertionError

        publications = Publications(PublishSettings.model_validate(settings), never, FakeClock(), print)
        with pytest.raises(InvalidInputError) as found:
            await publications.add(target)
        assert found.value.field == field and publications.stats() == []

    asyncio.run(body())
