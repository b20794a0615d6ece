"""`liveanchor doctor --url`: what it says of a service that is well, and of one for each thing that can be wrong."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import structlog
from typer.testing import CliRunner

from benchmarks.live.in_process import InProcessLive
from deployments.config import SessionHostSettings
from deployments.host.live_errors import NoCapacityError
from kernels.errors import InvalidInputError
from liveanchor.client import Client
from serve_app.cli.app import app
from serve_app.cli.finding import Finding
from serve_app.cli.remote import KEY_ENV
from serve_app.cli.service import looks, media
from serve_app.cli.service.check import looked_at
from serve_app.cli.service.visit import Visit
from tests.support.http_server import InProcessHost, serving, small_avatar, wait_for
from tests.support.ice_servers import IceServer, ice_server
from tests.support.keys import keyed
from tests.support.live import LiveFakeStages
from tests.unit.deployments.host.test_live_sessions import WallClock

NOW = 1_800_000_000.0


def said(url: str, code: int) -> dict[str, dict[str, str]]:
    result = CliRunner().invoke(app, ["doctor", "--url", url, "--json"], catch_exceptions=False)
    assert result.exit_code == code, result.output
    found = {one["name"]: one for one in json.loads(result.output)}
    assert all(one["advice"] for one in found.values() if one["level"] != "ok")
    return found


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(KEY_ENV, raising=False)
    with structlog.testing.capture_logs():
        yield


def test_a_service_that_is_well_has_nothing_to_do(tmp_path: Path) -> None:
    settings = SessionHostSettings.model_validate(
        {"encoder": {"prefer": "x264", "threads": 1, "live_preset": "ultrafast"}}
    )
    host, avatar = InProcessHost(tmp_path), small_avatar()
    host.live = InProcessLive(settings, LiveFakeStages(WallClock()), lambda _: avatar)  # type: ignore[arg-type]
    with serving(tmp_path, host) as served:
        found = said(f"http://127.0.0.1:{served.port}/", 0)
        wait_for(lambda: not list(host.live.sessions.ids))  # its end may still be under way, by the closed connection
    names = [
        "address",
        "clock",
        "tls",
        "keys",
        "graph",
        "short file",
        "videos' store",
        "ice servers",
        "live session",
        "ray's ports",
    ]
    assert list(found) == names and {one["level"] for one in found.values()} == {"ok"}
    assert found["short file"]["found"].startswith("15 pictures")
    assert found["live session"]["found"].startswith("first picture, 128x160")


def test_keys_that_are_missing_wrong_and_too_weak(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with keyed(tmp_path) as service:
        url = str(service.served.client.base_url)
        found = said(url, 1)
        assert found["keys"]["level"] == "missing" and KEY_ENV in found["keys"]["advice"]
        assert "short file" not in found, "nothing is asked for that would be refused"
        monkeypatch.setenv(KEY_ENV, "la_live_" + "x" * 40)
        assert "so is the key" in said(url, 1)["keys"]["found"]
        _, text = service.key("live")
        monkeypatch.setenv(KEY_ENV, text)
        service.served.host.live.failure = NoCapacityError(1, 1, "as many as one host takes")
        found = said(url, 0)
        assert found["keys"]["found"].endswith("accepted for live")
        assert found["short file"]["level"] == "optional" and "scope generate" in found["short file"]["found"]
        assert found["live session"]["level"] == "optional" and "later" in found["live session"]["advice"]
        assert text[8:] not in json.dumps(found)


def test_a_graph_that_waits_and_a_store_that_fails(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        url = f"http://127.0.0.1:{served.port}"
        served.host.is_ready = False
        found = said(url, 1)
        assert found["graph"]["level"] == "missing" and "serve status" in found["graph"]["advice"]
        served.host.is_ready = True
        served.host.failure = RuntimeError("a stage broke")
        found = said(url, 1)
        assert found["short file"]["level"] == "missing" and "internal_error" in found["short file"]["found"]
        assert found["live session"]["level"] == "missing", "the answer of this host is no SDP"


def test_nobody_and_somebody_else(tmp_path: Path) -> None:
    assert list(found := said("http://127.0.0.1:9", 1)) == ["address"] and "start it" in found["address"]["advice"]
    with pytest.raises(InvalidInputError, match="--url"):
        CliRunner().invoke(app, ["doctor", "--url", "faces.example.org"], catch_exceptions=False)
    (only,) = visited(lambda request: httpx.Response(200, text="<html>", headers={"content-type": "text/html"}))
    assert only.level == "missing" and "proxy" in only.advice


def visited(handle: Callable[[httpx.Request], httpx.Response], url: str = "http://faces.example.org") -> list[Finding]:
    with visiting(handle, url) as visit:
        return looked_at(visit)


@contextmanager
def visiting(
    handle: Callable[[httpx.Request], httpx.Response], url: str = "http://faces.example.org", now: float = NOW
) -> Iterator[Visit]:
    with httpx.Client(transport=httpx.MockTransport(handle)) as http:
        client = Client(url, http=http)
        yield Visit(url, str(httpx.URL(url).host), "", client, client, wall_clock=lambda: now)


def dated(seconds: float, certificate: dict[str, Any] | None = None) -> Callable[[httpx.Request], httpx.Response]:
    stream = SimpleNamespace(
        get_extra_info=lambda name: SimpleNamespace(getpeercert=lambda: certificate) if certificate else None
    )
    headers = {"date": formatdate(seconds, usegmt=True)}
    return lambda request: httpx.Response(200, headers=headers, extensions={"network_stream": stream})


@pytest.mark.parametrize(
    ("ahead_s", "level"), [(0, "ok"), (4, "ok"), (-4, "ok"), (20, "optional"), (-90, "missing"), (3600, "missing")]
)
def test_clocks_that_are_apart(ahead_s: float, level: str) -> None:
    with visiting(dated(NOW + ahead_s)) as visit:
        clock, tls = looks.clock(visit)
    assert (clock.level, tls.level) == (level, "missing"), "and keys travel in the clear"


@pytest.mark.parametrize(("days", "level"), [(3, "optional"), (60, "ok")])
def test_a_certificate_that_ends(days: int, level: str) -> None:
    ends = formatdate(NOW + days * 86400, usegmt=True)[5:]  # 15 Jan 2027 08:00:00 GMT
    day, month, year, time, zone = ends.split()
    with visiting(
        dated(NOW, {"notAfter": f"{month} {day} {time} {year} {zone}"}), "https://faces.example.org"
    ) as visit:
        tls = looks.clock(visit)[1]
    assert tls.level == level and f"{days} days" in tls.found


def test_a_service_that_everybody_may_use_and_open_ports_of_ray() -> None:
    page = {"data": [], "has_more": False}
    with visiting(lambda request: httpx.Response(200, json=page)) as visit:
        assert looks.keys(visit).level == "missing"
        ports = looks.ray_ports(visit, lambda host, port: (host, port) == ("faces.example.org", 8265))
        assert ports.level == "missing" and "8265" in ports.found and "6379" not in ports.found
        assert looks.ray_ports(visit, lambda host, port: False).level == "ok"


class Background:
    """STUN and TURN servers whose loop runs in a thread."""

    def __enter__(self) -> Background:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._open: list[Any] = []
        return self

    def server(self) -> IceServer:
        manager = ice_server()
        self._open.append(manager)
        return asyncio.run_coroutine_threadsafe(manager.__aenter__(), self._loop).result(30)

    def __exit__(self, *error: object) -> None:
        for manager in self._open:
            asyncio.run_coroutine_threadsafe(manager.__aexit__(None, None, None), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


def test_stun_and_turn_servers_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "ASK_S", 2.0)
    with Background() as servers:
        urls = [f"stun:127.0.0.1:{servers.server().port}", f"turn:127.0.0.1:{servers.server().port}?transport=udp"]
        dead = "turn:127.0.0.1:9?transport=udp"
        told = [
            {"urls": urls, "username": "u", "credential": "secret"},
            {"urls": [dead], "username": "u", "credential": "secret"},
        ]

        def handle(request: httpx.Request) -> httpx.Response:
            return httpx.Response(200, json={"ice_servers": told})

        with visiting(handle) as visit:
            servers_found = media.live(visit)[:-1]
    found = {one.name: one for one in servers_found}
    assert [found[url].level for url in urls] == ["ok", "ok"]
    assert found[urls[0]].found.endswith("203.0.113.5") and found[urls[1]].found.endswith("198.51.100.9")
    assert found[dead].level == "missing" and "credential" in found[dead].advice
    assert "secret" not in str(servers_found)
