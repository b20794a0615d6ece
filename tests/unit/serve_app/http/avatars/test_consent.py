"""Statements of consent: kept with the presenter, shown to whoever made it, gone with it, insisted on where that is wanted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import structlog

from deployments.host.avatar_consents import AvatarConsents, Consent
from pipeline.store_error import StoreUnreachableError
from tests.support.http_server import InProcessHost, Served, assert_problem, serving, small_avatar, wav
from tests.support.keys import Keyed, keyed

ANNA = "Anna Example agreed on 3 May 2026 to be animated in our news."
NOON = 1_800_000_000.0


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with structlog.testing.capture_logs():
        yield


def host_of(folder: Path) -> InProcessHost:
    host = InProcessHost(folder, wall_clock=lambda: NOON)
    host.register = lambda data, name: small_avatar(name or "A", shade=data[0])
    return host


def register(client: httpx.Client, shade: int = 99, **fields: str) -> httpx.Response:
    return client.post("/avatars", files={"file": ("face.jpg", bytes([shade]))}, data=fields)


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path, host_of(tmp_path), needed=True) as one:
        yield one


def test_a_face_is_registered_with_a_statement_only(served: Served) -> None:
    for fields in ({}, {"consent": ""}, {"consent": "   "}):
        assert_problem(register(served.client, **fields), 422, "missing_field", "consent")
    assert served.host.registered == [], "the picture was not even looked at"
    avatar_id = register(served.client, consent=ANNA).json()["avatar_id"]
    kept = served.client.get(f"/avatars/{avatar_id}/consent").json()["consents"]
    assert kept == [{"statement": ANNA, "given_at": "2027-01-15T08:00:00Z"}]
    assert served.client.delete(f"/avatars/{avatar_id}").status_code == 204
    assert_problem(served.client.get(f"/avatars/{avatar_id}/consent"), 404, "avatar_not_found")
    assert not list((served.host.store.root / "consents").rglob("*.json")), "nothing is left of it"


def test_a_job_brings_no_face_of_its_own(served: Served) -> None:
    audio = {"audio": ("speech.wav", wav(), "audio/wav")}
    url = {"portrait_url": "https://faces.example/a.jpg"}
    for path in ("/generate", "/api/generate", "/v1/videos"):
        came = served.client.post(path, files=audio | {"portrait": ("face.jpg", b"x")})
        named = served.client.post(path, files=audio, data=url)
        for answer, name in ((came, "portrait"), (named, "portrait_url")):
            assert "POST /avatars" in assert_problem(answer, 422, "invalid_input", name)["allowed"]
    avatar_id = register(served.client, consent=ANNA).json()["avatar_id"]
    assert served.client.post("/generate", files=audio, data={"avatar_id": avatar_id}).is_success


def test_without_the_setting_a_statement_is_kept_all_the_same(tmp_path: Path) -> None:
    with serving(tmp_path, host_of(tmp_path)) as served:
        with_one, without = (
            register(served.client, shade, **fields) for shade, fields in ((1, {"consent": ANNA}), (2, {}))
        )
        found = [
            served.client.get(f"/avatars/{one.json()['avatar_id']}/consent").json()["consents"]
            for one in (with_one, without)
        ]
    assert [len(one) for one in found] == [1, 0]


def test_each_owner_has_a_statement_of_its_own(tmp_path: Path) -> None:
    with keyed(tmp_path, host_of(tmp_path), needed=True) as service:
        _owners(service)


def _owners(service: Keyed) -> None:
    first, second, stranger, admin = (
        service.client(*scopes) for scopes in (("avatars",), ("avatars",), ("live",), ("admin",))
    )
    avatar_id = register(first, consent=ANNA).json()["avatar_id"]
    path = f"/avatars/{avatar_id}/consent"
    assert_problem(second.get(path), 404, "avatar_not_found")
    assert register(second, consent="Anna, for the weather, too.").json()["avatar_id"] == avatar_id
    assert [one["statement"] for one in first.get(path).json()["consents"]] == [ANNA]
    assert_problem(stranger.get(path), 404, "avatar_not_found")
    assert len(admin.get(path).json()["consents"]) == 2
    assert first.delete(f"/avatars/{avatar_id}").status_code == 204
    assert [one["statement"] for one in admin.get(path).json()["consents"]] == ["Anna, for the weather, too."]


def test_statements_at_a_place_that_all_nodes_reach() -> None:
    now = [NOON]
    one, other = (AvatarConsents("memory://consent-test", lambda: now[0]) for _ in range(2))
    one.keep("a" * 32, "k1", ANNA)
    now[0] += 60
    one.keep("a" * 32, "", "everybody's")
    assert other.of("a" * 32, None) == (Consent(ANNA, NOON), Consent("everybody's", NOON + 60))
    assert other.of("a" * 32, "k1") == (Consent(ANNA, NOON),) and other.of("b" * 32, None) == ()
    other.drop("a" * 32, "k1")
    other.drop("a" * 32, "k1")
    assert [found.statement for found in one.of("a" * 32, None)] == ["everybody's"]
    other.drop("a" * 32, None)
    assert one.of("a" * 32, None) == ()


def test_a_place_that_takes_nothing_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnreachableError):
        AvatarConsents(str(tmp_path / "file")).keep("a" * 32, "k1", ANNA)
