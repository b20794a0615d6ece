"""`/v1/videos` with keys: whose videos, presenters and portraits they are, and speech by its address."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.http_server import InProcessHost, assert_problem, small_avatar, wait_for, wav
from tests.support.keys import Keyed, keyed


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Keyed]:
    host = InProcessHost(tmp_path)
    host.register = lambda data, name: small_avatar(name, int(data))
    with keyed(tmp_path, host) as one:
        yield one


def made(client: httpx.Client, **fields: str) -> httpx.Response:
    files: dict[str, bytes] = {"audio": wav(0.1)}
    if "portrait" in fields:
        files["portrait"] = fields.pop("portrait").encode()
    return client.post("/v1/videos", files=files, data=fields)


def test_videos_belong_to_their_key(service: Keyed) -> None:
    anna, berta, admin = service.client(), service.client(), service.client("admin")
    answer = made(anna, portrait="101")
    assert answer.status_code == 202, answer.text
    path = answer.headers["location"]
    wait_for(lambda: anna.get(path).json()["status"] == "completed")
    for method, address in (("GET", path), ("GET", f"{path}/content"), ("POST", f"{path}/cancel"), ("DELETE", path)):
        assert_problem(berta.request(method, address), 404, "video_not_found")
    assert berta.get("/v1/videos").json()["data"] == []
    assert len(anna.get("/v1/videos").json()["data"]) == len(admin.get("/v1/videos").json()["data"]) == 1
    assert anna.get(f"{path}/content").content[4:8] == b"ftyp"
    drawn = {row["avatar_id"] for row in anna.get("/avatars").json()["avatars"] if row["temporary"]}
    assert len(drawn) == 1, "the portrait is its owner's"
    assert not drawn & {row["avatar_id"] for row in berta.get("/avatars").json()["avatars"]}
    assert_problem(made(berta, avatar_id=drawn.pop()), 404, "avatar_not_found", "avatar_id")
    assert anna.delete(path).status_code == 200


def test_a_key_without_the_scope_makes_none(service: Keyed) -> None:
    assert_problem(made(service.client("live", "avatars")), 403, "scope_missing")
    assert_problem(made(service.served.client), 401, "key_missing")


def test_two_owners_may_use_the_same_idempotency_key(service: Keyed) -> None:
    anna, berta = service.client(), service.client()
    headers = {"Idempotency-Key": "the-same-key-1"}
    ids = [
        client.post("/v1/videos", files={"audio": wav(0.1)}, headers=headers).json()["id"]
        for client in (anna, berta, anna)
    ]
    assert ids[0] == ids[2] != ids[1]


def test_speech_by_its_address_is_fetched_before_it_is_accepted(service: Keyed) -> None:
    anna = service.client()
    refused = anna.post("/v1/videos", json={"audio_url": "http://169.254.169.254/speech.wav"})
    assert_problem(refused, 422, "url_refused", "audio_url")
    assert anna.get("/v1/videos").json()["data"] == []
