"""A session at a real SFU: Debian's Janus behind a small WHIP front, watched through it."""

from __future__ import annotations

import asyncio
import shutil

import pytest

from benchmarks.agents.janus import NAME, janus_client, janus_server
from benchmarks.agents.subscribers import Subscriber, from_janus
from benchmarks.agents.whip_front import TOKEN, whip_front
from pipeline.fetch.fetcher import Fetcher
from pipeline.live.loop_clock import MonotonicClock
from pipeline.publish.connection import WhipConnection
from pipeline.publish.errors import IngestRefusedError
from pipeline.publish.publication_stats import PublicationState
from pipeline.publish.publications import Publications
from pipeline.publish.settings import PublishSettings
from pipeline.publish.target import PublishTarget
from pipeline.publish.whip_endpoint import WhipEndpoint
from pipeline.publish.whip_peer import WhipPeer
from pipeline.webrtc.helpers import Helpers
from serve_app.cluster.own import free_port
from tests.support.require import missing
from tests.support.rtc import RTC, running_hub, until

pytestmark = pytest.mark.nightly("starts Janus; the same way is tested against an ingest of this process")


def test_what_janus_takes_reaches_its_subscribers() -> None:
    if shutil.which(NAME) is None:
        missing("SFU", "janus is missing: apt-get install --no-install-recommends janus")
    port = free_port()
    settings = PublishSettings(networks=("127.0.0.0/8",), ports=(port,))
    fetcher = Fetcher(settings)

    async def body(janus_url: str) -> None:
        async with running_hub() as (hub, ticker), janus_client(janus_url) as janus:

            def connect(target: PublishTarget) -> WhipConnection:
                return WhipConnection(WhipEndpoint(fetcher, target, settings), WhipPeer(hub, RTC, Helpers(RTC)), 20.0)

            publications = Publications(settings, connect, MonotonicClock(), print)
            url = f"http://127.0.0.1:{port}/whip"
            with pytest.raises(IngestRefusedError) as refused:
                await publications.add(PublishTarget(url, "wrong"))
            assert refused.value.field == "token"
            begun = await publications.add(PublishTarget(url, TOKEN))
            assert begun.state is PublicationState.LIVE
            viewers = [Subscriber() for _ in range(3)]
            for one in viewers:
                await from_janus(janus, one)
            await until(lambda: all(one.pictures > 20 for one in viewers))
            assert hub.stats().viewers == 1 and hub.stats().frames_encoded <= ticker.index
            await publications.close()
            for one in viewers:
                await one.close()

    with janus_server() as janus_url, whip_front(janus_url, port) as front:
        asyncio.run(body(janus_url))
        assert (front.published, front.deleted) == (1, 1)
