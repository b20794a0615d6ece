"""RTMP: addresses, the pipe to the process that sends, and a real server."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.errors import InvalidInputError
from pipeline.fetch.checked_url import UrlRefusedError
from pipeline.fetch.fetcher import Fetcher
from pipeline.publish import rtmp_pusher
from pipeline.publish.errors import IngestUnreachableError
from pipeline.publish.publication_stats import PublicationState
from pipeline.publish.publications import Publications
from pipeline.publish.rtmp_connection import RtmpConnection
from pipeline.publish.rtmp_place import read_place
from pipeline.publish.settings import PublishSettings
from pipeline.publish.target import PublishTarget, check_target
from serve_app.cluster.own import free_port
from tests.support.live import FakeClock
from tests.support.rtc import SIDE, running_hub, until

LISTENER = Path(__file__).parents[3] / "support" / "rtmp_listener.py"
LISTENS = "0A"
"""A socket that listens, in /proc/net/tcp."""


def listening(port: int) -> bool:
    """Whether a program waits at a port; to connect would take the one place that it has."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[1].endswith(f":{port:04X}") and row[3] == LISTENS for row in rows)


@pytest.mark.parametrize(
    ("text", "target", "app", "key", "told"),
    [
        (
            "rtmp://a.example/live/k?x=1",
            "rtmp://192.0.2.9:1935/live/k?x=1",
            "live",
            "k?x=1",
            "rtmp://a.example:1935/live",
        ),
        (
            "rtmp://a.example:443/app/two/k",
            "rtmp://192.0.2.9:443/app/two/k",
            "app/two",
            "k",
            "rtmp://a.example:443/app/two",
        ),
        ("rtmp://a.example:80/app/k", "rtmp://192.0.2.9:80/app/k", "app", "k", "rtmp://a.example:80/app"),
    ],
)
def test_the_server_is_told_the_name_and_reached_by_the_address_that_was_checked(
    text: str, target: str, app: str, key: str, told: str
) -> None:
    place = read_place(text, "url", (80, 443, 1935))
    assert place.target("192.0.2.9") == target and place.target("2001:db8::1").startswith("rtmp://[2001:db8::1]:")
    assert place.options == {"rtmp_app": app, "rtmp_playpath": key, "rtmp_tcurl": told}
    assert key not in repr(place)


@pytest.mark.parametrize(
    "text",
    [
        "rtmp://a.example/live", "rtmp://a.example/", "rtmp://a.example", "rtmp://a.example//k", "rtmp://u:p@a.example/live/k",
        "rtmp://a.example:22/live/k", "rtmp:///live/k", "rtmp://0x7f000001/live/k", "rtmp://a.example/live/k two",
        "rtmp://a.example?x/live/k", "rtmp://a.example#x/live/k", "rtmp://a.example?x:443/live/k", "rtmps://a.example/live/k", "srt://a.example:9000",
    ],
)  # fmt: skip
def test_addresses_that_are_refused_unasked(text: str) -> None:
    settings = PublishSettings(ports=(80, 443, 1935))
    with pytest.raises(UrlRefusedError) as found:
        check_target(PublishTarget(text), settings)
    assert found.value.field == "url"


def test_hosts_ports_and_tokens_are_bounded_as_for_whip() -> None:
    target = PublishTarget("rtmp://a.example/live/secret")
    check_target(target, PublishSettings(ports=(1935,), hosts=("a.example",)))
    assert target.shown == "rtmp://a.example/..."
    for wrong in (PublishSettings(), PublishSettings(ports=(1935,), hosts=("b.example",))):
        with pytest.raises(UrlRefusedError):
            check_target(target, wrong)
    with pytest.raises(InvalidInputError) as found:
        check_target(PublishTarget(target.url, "key"), PublishSettings(ports=(1935,)))
    assert found.value.field == "token"


def test_records_come_out_as_they_went_in() -> None:
    wanted = [(True, True, 9000, b"key"), (False, True, -312, b"\x00opus"), (True, False, 12_600, b"")]
    data = b"".join(rtmp_pusher.record(*one) for one in wanted)
    assert list(rtmp_pusher.records(io.BytesIO(data))) == wanted
    assert list(rtmp_pusher.records(io.BytesIO(data[:20]))) == wanted[:1], "one that is cut off is left out"


def test_a_private_address_is_not_connected_to() -> None:
    async def body() -> None:
        settings = PublishSettings(ports=(1935,))
        async with running_hub() as (hub, _):
            one = RtmpConnection(hub, Fetcher(settings), PublishTarget("rtmp://127.0.0.1/live/k"), settings)
            with pytest.raises(UrlRefusedError):
                await one.open()
            await one.close()
            assert hub.stats().viewers == 0

    asyncio.run(body())


def test_a_real_server_gets_pictures_and_voice_together() -> None:
    port = free_port()
    settings = PublishSettings(ports=(port,), networks=("127.0.0.0/8",))
    url = f"rtmp://127.0.0.1:{port}/live/key"

    async def body() -> None:
        async with running_hub() as (hub, ticker):
            troubles: list[str] = []

            def connect(target: PublishTarget) -> RtmpConnection:
                return RtmpConnection(hub, Fetcher(settings), target, settings)

            nobody = connect(PublishTarget(url))
            with pytest.raises(IngestUnreachableError, match="does not take the stream"):
                await nobody.open()
            await nobody.close()

            server = await asyncio.create_subprocess_exec(sys.executable, str(LISTENER), url, stdout=subprocess.PIPE)
            await until(lambda: listening(port))
            publications = Publications(settings, connect, FakeClock(), troubles.append)
            begun = await publications.add(PublishTarget(url))
            assert begun.state is PublicationState.LIVE, begun
            told, _ = await server.communicate()
            found = json.loads(told)
            assert found["codecs"] == ["aac", "h264"] and found["size"] == [SIDE, SIDE]
            assert found["fps"] == pytest.approx(25, rel=0.05)
            assert abs(found["first"]["video"] - found["first"]["audio"]) < 0.1, "one origin for both"
            assert hub.stats().frames_encoded <= ticker.index
            await until(lambda: publications.stats()[0].state is PublicationState.WAITING)  # the server has left
            assert len(troubles) == 1 and "lost" in troubles[0] and "key" not in troubles[0]
            await publications.close()
            assert hub.stats().viewers == 0

    asyncio.run(body())
