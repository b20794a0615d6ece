"""Routes of messages and their secrets, `webhook_url` on create, and the command line over them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner

from serve_app.cli.app import app
from serve_app.cli.remote import URL_ENV
from tests.support.http_server import Served, assert_problem, serving, wait_for, wav
from tests.support.keys import keyed
from tests.support.manual_clock import ManualClock
from tests.support.webhook_receiver import Receiver, receiving, send_due

URL = "/v1/videos"
SECRET = "/v1/webhooks/secret"  # noqa: S105  # an address


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as one:
        yield one


@pytest.fixture
def served(tmp_path: Path, receiver: Receiver) -> Iterator[Served]:
    with serving(tmp_path, ports=(receiver.port,)) as one, structlog.testing.capture_logs():
        yield one


def made(served: Served, **fields: str) -> str:
    answer = served.client.post(URL, files={"audio": wav(0.1)}, data=fields)
    assert answer.status_code == 202, answer.text
    path = f"{URL}/{answer.json()['id']}"
    wait_for(lambda: served.client.get(path).json()["status"] == "completed")
    return path


def test_a_video_tells_its_end_and_can_tell_it_again(
    served: Served, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made(served, webhook_url=receiver.url)
    assert served.client.get(path).json()["webhook_url"] == receiver.url
    [waiting] = served.client.get(f"{path}/webhooks").json()["data"]
    assert (waiting["state"], waiting["attempts"], waiting["type"]) == ("waiting", [], "video.completed")
    receiver.answers.append((500, {}))
    sender = receiver.sender(served.jobs.store, ManualClock(1e9))
    send_due(sender)
    [failed] = served.client.get(f"{path}/webhooks").json()["data"]
    assert [(one["status"], one["note"]) for one in failed["attempts"]] == [(500, "answered 500")]
    assert failed["next_attempt_at"] > failed["created_at"]
    monkeypatch.setenv(URL_ENV, str(served.client.base_url))
    said = CliRunner().invoke(app, ["jobs", "webhooks", path.rpartition("/")[2], "--replay"], catch_exceptions=False)
    assert [line.split("\t")[2:6:2] for line in said.output.splitlines()] == [["tried", "500"], ["waiting", ""]]
    send_due(sender)
    again = served.client.post(f"{path}/webhooks/replay")
    assert again.status_code == 202 and again.json()["state"] == "waiting" and again.json()["id"] == failed["id"]
    send_due(sender)
    [done] = served.client.get(f"{path}/webhooks").json()["data"]
    assert [one["status"] for one in done["attempts"]] == [500, 200, 200] and done["next_attempt_at"] is None
    assert [headers["webhook-id"] for headers, _ in receiver.came] == [failed["id"]] * 3


def test_the_application_sends_for_as_long_as_it_runs(tmp_path: Path, receiver: Receiver) -> None:
    async def resolve(name: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async def go(one: Served) -> None:
        async with one.api.router.lifespan_context(one.api):
            await asyncio.to_thread(wait_for, lambda: receiver.came)

    with serving(tmp_path, resolve=resolve, ports=(receiver.port,), networks=("127.0.0.1/32",)) as one:
        made(one, webhook_url=receiver.url)
        assert receiver.came == []
        asyncio.run(go(one))


def test_without_an_address_there_is_nothing_to_send(served: Served) -> None:
    path = made(served)
    assert served.client.get(path).json()["webhook_url"] is None
    assert served.client.get(f"{path}/webhooks").json() == {"object": "list", "data": []}
    assert_problem(served.client.post(f"{path}/webhooks/replay"), 409, "video_state", "id")
    assert_problem(served.client.get(f"{URL}/video_none/webhooks"), 404, "video_not_found", "id")


@pytest.mark.parametrize(
    "url", ["ftp://example.com/", "http://example.com:22/", "http://u:p@example.com/", "http://127.1/"]
)
def test_an_address_that_cannot_be_reached_is_refused_at_once(served: Served, url: str) -> None:
    answer = served.client.post(URL, files={"audio": wav(0.1)}, data={"webhook_url": url})
    assert_problem(answer, 422, "url_refused", "webhook_url")
    assert served.client.get(URL).json()["data"] == []


def test_a_secret_is_made_once_and_rotated(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    first = served.client.get(SECRET)
    assert first.headers["cache-control"] == "no-store" and first.json()["data"][0]["secret"].startswith("whsec_")
    assert served.client.get(SECRET).json() == first.json()
    both = served.client.post(f"{SECRET}/rotate", params={"overlap_s": "60"}).json()["data"]
    assert both[1]["secret"] == first.json()["data"][0]["secret"] and both[0]["expires_at"] is None
    assert 55 <= both[1]["expires_at"] - both[0]["created_at"] <= 65
    for wrong in ("-1", "soon", str(31 * 24 * 3600)):
        assert_problem(
            served.client.post(f"{SECRET}/rotate", params={"overlap_s": wrong}), 422, "invalid_input", "overlap_s"
        )
    monkeypatch.setenv(URL_ENV, str(served.client.base_url))
    ran = CliRunner().invoke(app, ["jobs", "secret", "--rotate", "--hours", "0", "--json"], catch_exceptions=False)
    [only] = json.loads(ran.output)["data"]
    assert only["secret"] not in {one["secret"] for one in both}


def test_secrets_and_messages_belong_to_keys_and_are_no_business_of_tokens(tmp_path: Path) -> None:
    with keyed(tmp_path) as service:
        anna, berta = service.client(), service.client()
        assert anna.get(SECRET).json()["data"][0]["secret"] != berta.get(SECRET).json()["data"][0]["secret"]
        token = service.showing(anna.post("/auth/token").json()["token"])
        assert_problem(token.get(SECRET), 401, "key_missing")
        assert_problem(token.post(f"{SECRET}/rotate"), 401, "key_missing")
        assert_problem(service.client("live").get(SECRET), 403, "scope_missing")
        service.served.jobs.resting = True
        url = "https://hooks.example/"
        video = anna.post(URL, files={"audio": wav(0.1)}, data={"webhook_url": url}).json()["id"]
        anna.post(f"{URL}/{video}/cancel")
        assert len(anna.get(f"{URL}/{video}/webhooks").json()["data"]) == 1
        for method, path in (("GET", ""), ("POST", "/replay")):
            assert_problem(berta.request(method, f"{URL}/{video}/webhooks{path}"), 404, "video_not_found")
