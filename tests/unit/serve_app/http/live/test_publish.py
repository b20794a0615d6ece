"""Publishing over HTTP: routes and fields against a fake host, and once a real session at a real ingest."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from benchmarks.live.in_process import InProcessLive
from deployments.config import SessionHostSettings
from kernels.errors import LiveAnchorError
from pipeline.publish.errors import IngestRefusedError, TooManyPublicationsError
from pipeline.publish.target import PublishTarget
from serve_app.config.settings import AppConfig
from tests.support.http_server import InProcessHost, Served, assert_problem, serving, small_avatar
from tests.support.live import LiveFakeStages
from tests.support.rtc import ENCODER, Client, until
from tests.support.whip_ingest import whip_ingest
from tests.unit.deployments.host.test_live_sessions import WallClock
from tests.unit.serve_app.http.live.test_routes import OFFER, offer

URL = "https://ingest.example/live/secret-path"
PUBLISH = {"publish": {"hosts": ["ingest.example"], "max_publications": 2}}


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("publish"), **PUBLISH) as one:
        yield one


@pytest.fixture
def served(one_server: Served) -> Served:
    one_server.host.live.reset()
    return one_server


def test_a_session_is_published_listed_and_withdrawn(served: Served) -> None:
    path = f"/stream/webrtc/{offer(served)}/publish"
    begun = served.client.post(path, json={"url": URL, "token": "stream-key"})
    assert begun.status_code == 201 and begun.headers["location"] == f"{path}/p0"
    assert begun.json() == {
        "id": "p0", "target": "https://ingest.example/...", "state": "live", "attempts": 1, "error": "",
        "live_s": 0.5, "fps_out": 0.0, "bitrate": 0, "packets_lost": 0,
    }  # fmt: skip
    listed = served.client.get(path)
    assert listed.json() == {"publications": [begun.json()]}
    assert "secret-path" not in listed.text + begun.text and "stream-key" not in listed.text + begun.text
    assert served.client.delete(f"{path}/p0").status_code == 200
    assert served.client.delete(f"{path}/p0").status_code == 200, "no error where it is gone"
    assert served.client.get(path).json() == {"publications": []}


def test_an_offer_names_ingests(served: Served) -> None:
    session_id = offer(served, publish=[{"url": URL, "token": "stream-key"}, {"url": URL}])
    found = served.host.live.sessions[session_id].offer
    assert found.publish == (PublishTarget(URL, "stream-key"), PublishTarget(URL))
    assert "stream-key" not in repr(found) and "secret-path" not in repr(found)


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({}, "missing_field", "url"),
    ({"url": ""}, "missing_field", "url"),
    ({"url": 5}, "invalid_input", "url"),
    ({"url": "rtmp://ingest.example/a"}, "url_refused", "url"),
    ({"url": "https://other.example/a"}, "url_refused", "url"),
    ({"url": "https://ingest.example:22/a"}, "url_refused", "url"),
    ({"url": URL, "token": 7}, "invalid_input", "token"),
    ({"url": URL, "token": "two words"}, "invalid_input", "token"),
    ({"url": URL, "key": "x"}, "unknown_field", "key"),
]


@pytest.mark.parametrize(("target", "code", "field"), BAD)
def test_a_bad_target_is_refused_by_field(served: Served, target: dict[str, Any], code: str, field: str) -> None:
    path = f"/stream/webrtc/{offer(served)}/publish"
    assert_problem(served.client.post(path, json=target), 422, code, field)
    listed = OFFER | {"publish": [{"url": URL}, target]}
    assert_problem(served.client.post("/stream/webrtc/offer", json=listed), 422, code, f"publish[1].{field}")


@pytest.mark.parametrize("value", ["https://ingest.example/", [URL], [{"url": URL}] * 3])
def test_a_bad_list_is_refused(served: Served, value: object) -> None:
    found = assert_problem(served.client.post("/stream/webrtc/offer", json=OFFER | {"publish": value}), 422)
    assert found["field"].startswith("publish") and found["allowed"]


def test_what_the_host_says_is_passed_on(served: Served) -> None:
    path = f"/stream/webrtc/{offer(served)}/publish"
    failures: list[tuple[LiveAnchorError, int, str | None]] = [
        (IngestRefusedError("token", "one that the ingest answers with 401", "the right one"), 422, "token"),
        (TooManyPublicationsError(2), 409, None),
    ]
    for failure, status, field in failures:
        served.host.live.publish_failure = failure
        assert_problem(served.client.post(path, json={"url": URL}), status, failure.code, field)
    assert_problem(served.client.post(path, content=b"v=0", headers={"Content-Type": "application/sdp"}), 415)
    for method in ("GET", "POST"):
        answer = served.client.request(method, "/stream/webrtc/nobody/publish", json={"url": URL})
        assert_problem(answer, 404, "session_not_found")


def test_the_settings_reach_the_host_and_the_ingress() -> None:
    config = AppConfig.model_validate(PUBLISH)
    assert config.session_host().publish == config.ingress().publish == config.publish
    assert config.publish.hosts == ("ingest.example",) and config.publish.ports == config.fetch.ports


def test_a_real_session_is_seen_at_its_ingest(tmp_path: Path) -> None:
    async def body() -> None:
        async with whip_ingest() as ingest:
            settings = SessionHostSettings(encoder=ENCODER, publish=ingest.settings)
            host = InProcessHost(tmp_path)
            avatar = small_avatar()
            host.live = InProcessLive(settings, LiveFakeStages(WallClock()), lambda _: avatar)  # type: ignore[arg-type]
            loop, client = asyncio.get_running_loop(), Client()

            def talk(sdp: str) -> httpx.Response:
                return served.client.post(
                    "/stream/webrtc/offer", json={"sdp": sdp, "drive": "push", "publish": [{"url": ingest.url}]}
                )

            with serving(tmp_path, host, publish=ingest.settings) as served:
                answer = (await loop.run_in_executor(None, talk, await client.offer())).json()
                await client.accept(answer["sdp"])
                await until(lambda: len(ingest.pictures) > 10 and len(ingest.sound) > 10)
                shape = np.shape(ingest.pictures[-1].to_ndarray())
                assert shape == (answer["height"] * 3 // 2, answer["width"])
                path = f"/stream/webrtc/{answer['session_id']}"
                (one,) = (await loop.run_in_executor(None, served.client.get, f"{path}/publish")).json()["publications"]
                assert one["state"] == "live" and one["fps_out"] > 0
                await loop.run_in_executor(None, served.client.delete, path)
                assert ingest.deleted == ["/app/session/1"], "with the session its publications end"
            await client.close()

    asyncio.run(body())
