"""`POST /v1/forget` and `liveanchor forget`: all of a key, all that shows a face, nothing of others, and what could not go."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from typer.testing import CliRunner

from deployments.host.avatar_commands import Left
from kernels.errors import InvalidInputError
from pipeline.bounded_cache import BoundedCache
from pipeline.store_error import StoreUnreachableError
from serve_app.cli.app import app
from serve_app.cli.remote import KEY_ENV, URL_ENV
from tests.support.http_server import Gate, InProcessHost, assert_problem, small_avatar, wait_for, wav
from tests.support.keys import Keyed, keyed

URL = "/v1/forget"


class Customer:
    """A key and what was made with it."""

    def __init__(self, service: Keyed, name: str) -> None:
        self.key, text = service.keys.create(name, ("generate", "live", "avatars"))
        self.client = service.showing(text)

    def register(self, shade: int, consent: str = "") -> str:
        files = {"file": ("p.png", str(shade).encode())}
        answer = self.client.post("/avatars", files=files, data={"consent": consent} if consent else {})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["avatar_id"])

    def video(self, **fields: str) -> str:
        hook = {"webhook_url": "https://hooks.example.com/ended"}
        answer = self.client.post("/v1/videos", files={"audio": wav(0.1)}, data=fields | hook)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def made_video(self, **fields: str) -> str:
        video_id = self.video(**fields)
        wait_for(lambda: self.client.get(f"/v1/videos/{video_id}").json()["status"] == "completed")
        return video_id

    def result(self, **fields: str) -> str:
        answer = self.client.post("/api/generate", files={"audio": wav(0.1)}, data=fields)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["id"])

    def session(self, **fields: str) -> str:
        answer = self.client.post("/stream/webrtc/offer", json={"sdp": "v=0\r\n", "drive": "push", **fields})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["session_id"])


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Keyed]:
    host = InProcessHost(tmp_path)
    host.register = lambda data, name: small_avatar(name, int(data))
    public = lambda name: ["93.184.216.34"]  # noqa: E731  # a name that is looked up nowhere
    with keyed(tmp_path, host, resolve=public, beat_s=0.2, lease_s=5.0) as one:
        yield one


@pytest.fixture
def admin(service: Keyed) -> httpx.Client:
    return service.client("admin")


def forgotten(admin: httpx.Client, **body: Any) -> dict[str, Any]:
    answer = admin.post(URL, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def traces(folder: Path, *words: str) -> list[str]:
    """Files whose name, or the text or bytes in them, hold one of the words; the key file says which keys there were."""
    files = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("keys.json")]
    return [
        str(path.relative_to(folder))
        for path in files
        if any(word in str(path) or word.encode() in path.read_bytes() for word in words)
    ]


def test_all_of_a_key_goes_and_nothing_of_another(service: Keyed, admin: httpx.Client, tmp_path: Path) -> None:
    anna, berta = Customer(service, "Anna's"), Customer(service, "Berta's")
    own, both = anna.register(101, "Anna agreed."), anna.register(102, "Anna agreed, too.")
    assert berta.register(102, "Berta agreed.") == both
    video, kept = anna.made_video(avatar_id=own), berta.made_video(avatar_id=both)
    result, others = anna.result(avatar_id=both), berta.result(avatar_id=both)
    session, open_still = anna.session(avatar_id=own), berta.session(avatar_id=both)
    anna.client.get("/v1/webhooks/secret")
    would = forgotten(admin, key="Anna's", dry_run=True)
    assert would["complete"] and would["dry_run"] and would["key"] == anna.key.key_id
    assert anna.client.get(f"/v1/videos/{video}").status_code == 200 and session in service.served.host.live.sessions

    found = forgotten(admin, key="Anna's")
    for name in ("live_sessions", "videos", "presenters", "kept_presenters", "messages", "consents"):
        assert found[name] == would[name], name
    assert (found["live_sessions"], found["videos"], found["messages"]) == ([session], [video], 1)
    assert (found["presenters"], found["kept_presenters"], found["consents"]) == ([own], [both], 2)
    assert (found["results"], found["secrets"], found["left"], found["complete"]) == ([result], 1, [], True)
    assert found["cleared"] == ["node here"] and service.served.host.dropped == [own]
    assert anna.client.get("/v1/videos").json()["data"] == []
    assert_problem(anna.client.get(f"/results/{result}"), 404, "result_not_found")
    assert list(service.served.host.live.sessions) == [open_still]
    assert traces(tmp_path / "avatars", anna.key.key_id, own, "Anna agreed") == []

    assert berta.client.get(f"/v1/videos/{kept}/content").status_code == 200
    assert berta.client.get(f"/results/{others}").status_code == 200
    assert berta.client.get(f"/avatars/{both}/consent").json()["consents"][0]["statement"] == "Berta agreed."
    again = forgotten(admin, key=anna.key.key_id)
    assert again["complete"] and not any(again[name] for name in ("videos", "results", "presenters", "consents"))


def test_all_that_shows_a_face_goes_whosever_it_is(service: Keyed, admin: httpx.Client, tmp_path: Path) -> None:
    anna, berta = Customer(service, "Anna's"), Customer(service, "Berta's")
    face = anna.register(101, "One agreed.")
    assert berta.register(101) == face
    other = berta.register(103)
    gone = [anna.made_video(avatar_id=face), berta.made_video(avatar_id=face)]
    stays = berta.made_video(avatar_id=other)
    results = [anna.result(avatar_id=face), berta.result(avatar_id=face)]
    session = berta.session(avatar_id=face)
    mapped: BoundedCache[tuple[str, int], bytes] = BoundedCache(100, len)
    for one in (face, other):
        mapped.get_or_build((one, 25), lambda: b"picture")
    found = forgotten(admin, avatar_id=face)
    assert sorted(found["videos"]) == sorted(gone) and sorted(found["results"]) == sorted(results)
    assert (found["live_sessions"], found["presenters"], found["consents"]) == ([session], [face], 1)
    assert mapped.keys() == [(other, 25)], "what processes keep in memory goes, too"
    assert [one["id"] for one in berta.client.get("/v1/videos").json()["data"]] == [stays]
    assert traces(tmp_path / "avatars", face) == [] and traces(tmp_path / "uploads", *gone) == []
    assert {one["avatar_id"] for one in berta.client.get("/avatars").json()["avatars"]} >= {other}
    assert forgotten(admin, avatar_id=face)["complete"]


def test_work_that_goes_on_is_stopped_first(service: Keyed, admin: httpx.Client, tmp_path: Path) -> None:
    anna, host = Customer(service, "Anna's"), service.served.host
    host.stages.render_gate = gate = Gate()
    video = anna.video()
    wait_for(lambda: video in host.jobs)
    found = forgotten(admin, key=anna.key.key_id)
    assert found["videos"] == found["uploads"] == [video] and found["complete"], found
    assert not host.jobs and host.ended["cancelled"] == 1
    gate.set()
    assert traces(tmp_path / "uploads", video) == [] and list((tmp_path / "results").glob("*.mp4")) == []


def test_what_cannot_go_is_named_and_keeps_nothing_else(
    service: Keyed, admin: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna, results = Customer(service, "Anna's"), service.served.api.state.services.results
    face, video = anna.register(101), anna.made_video()
    away = threading.Event()
    discard = results.discard

    def refuse(result_id: str) -> None:
        if not away.is_set():
            raise StoreUnreachableError("s3://results", "is away")
        discard(result_id)

    monkeypatch.setattr(results, "discard", refuse)
    service.served.host.copies_left = (Left("copies", "node 10.0.0.9", "is away"),)
    found = forgotten(admin, key=anna.key.key_id)
    left = {(one["kind"], one["name"]) for one in found["left"]}
    assert not found["complete"] and ("video", video) in left and ("copies", "node 10.0.0.9") in left
    assert found["presenters"] == [face] and found["videos"] == []
    away.set()
    service.served.host.copies_left = ()
    again = forgotten(admin, key=anna.key.key_id)
    assert again["complete"] and again["videos"] == [video]


def test_what_is_no_subject_is_refused_and_who_is_no_admin(service: Keyed, admin: httpx.Client) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({}, "key"),
        ({"key": "nobody's"}, "key"),
        ({"key": 7}, "key"),
        ({"key": "k0123456789ab", "avatar_id": "0" * 32}, "key"),
        ({"avatar_id": "../etc"}, "avatar_id"),
        ({"key": "k0123456789ab", "dry_run": "yes"}, "dry_run"),
        ({"key": "k0123456789ab", "now": True}, "now"),
    ]
    for wrong, field in refused:
        assert_problem(admin.post(URL, json=wrong), 422, field=field)
    anna = Customer(service, "Anna's")
    body = {"key": anna.key.key_id}
    assert_problem(anna.client.post(URL, json=body), 403, "scope_missing")
    assert_problem(service.served.client.post(URL, json=body), 401, "key_missing")
    keys = [Customer(service, "twice").key.key_id for _ in range(2)]
    got = assert_problem(admin.post(URL, json={"key": "twice"}), 422, "invalid_input", "key")["got"]
    assert all(one in got for one in keys)


def test_the_command_reports_and_says_by_its_exit_code_whether_something_is_left(
    service: Keyed, monkeypatch: pytest.MonkeyPatch
) -> None:
    anna, (_, text) = Customer(service, "Anna's"), service.key("admin")
    monkeypatch.setenv(URL_ENV, str(service.served.client.base_url))
    monkeypatch.setenv(KEY_ENV, text)
    face = anna.register(101, "Anna agreed.")

    def said(*arguments: str, code: int = 0) -> str:
        with structlog.testing.capture_logs():
            result = CliRunner().invoke(app, ["forget", *arguments], catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result.output

    assert f"presenter\t{face}" in said("--key", "Anna's", "--dry-run")
    service.served.host.copies_left = (Left("copies", "node 10.0.0.9", "is away"),)
    assert "LEFT copies\tnode 10.0.0.9: is away" in said("--key", "Anna's", code=1)
    service.served.host.copies_left = ()
    assert json.loads(said("--avatar", face, "--json"))["complete"]
    assert "nothing is there" in said("--key", anna.key.key_id)
    for wrong in ((), ("--key", "a", "--avatar", face), ("--avatar", "x"), ("--key", "nobody's")):
        with pytest.raises(InvalidInputError):
            CliRunner().invoke(app, ["forget", *wrong], catch_exceptions=False)
