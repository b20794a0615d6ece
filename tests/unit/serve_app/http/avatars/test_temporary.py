"""A kiosk: every job brings a stranger's portrait along, and nobody tidies up."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from pipeline.avatars.quota import IN_USE_S
from serve_app.http.api import create_api
from tests.support.http_server import InProcessHost, Served, api_settings, assert_problem, running, small_avatar, wav
from tests.support.in_process_jobs import InProcessJobs

TTL_S = 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@contextmanager
def kiosk(folder: Path, clock: Clock, ttl_s: float = TTL_S, **limits: Any) -> Iterator[Served]:
    """A service where a portrait is a number, and equal numbers are equal pictures."""
    host = InProcessHost(folder, wall_clock=clock)
    host.in_use._ttl_s = ttl_s or float("inf")
    host.register = lambda data, name: small_avatar(name, int(data))
    settings = api_settings(results=str(folder / "results"), temporary_avatar_ttl_s=ttl_s, **limits)
    jobs = InProcessJobs(folder, host, settings, clock)
    api = create_api(host, host.live, settings, wall_clock=clock, jobs=jobs)
    with running(api) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        yield Served(host, client, port, api, jobs)


def speak(one: Served, **parts: Any) -> httpx.Response:
    """A job; `portrait` is a number."""
    files: dict[str, Any] = {"audio": wav(0.1)}
    if "portrait" in parts:
        files["portrait"] = str(parts.pop("portrait")).encode()
    return one.client.post("/generate", files=files, data=parts)


def guest(one: Served, portrait: int) -> str:
    answer = speak(one, portrait=portrait)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-avatar-id"]


def registered(one: Served, portrait: int, name: str) -> dict[str, Any]:
    answer = one.client.post("/avatars", files={"file": str(portrait).encode()}, data={"name": name})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def listed(one: Served) -> dict[str, dict[str, Any]]:
    return {row["avatar_id"]: row for row in one.client.get("/avatars").json()["avatars"]}


def test_a_guest_is_listed_as_one_and_goes(tmp_path: Path, clock: Clock) -> None:
    with kiosk(tmp_path, clock) as one:
        avatar_id = guest(one, 100)
        row = listed(one)[avatar_id]
        assert row["temporary"] is True and row["expires_at"] == "2027-01-15T09:00:00Z"
        assert one.client.get(f"/avatars/{avatar_id}").json() == row
        assert [(found["temporary"], found["expires_at"]) for found in listed(one).values() if found != row] == [
            (False, None)
        ]
        clock.now += TTL_S + 1
        assert list(listed(one)) == [one.host.default.avatar_id]
        assert_problem(one.client.get(f"/avatars/{avatar_id}"), 404, "avatar_not_found", "avatar_id")
        assert_problem(speak(one, avatar_id=avatar_id), 404, "avatar_not_found", "avatar_id")
        assert guest(one, 100) == avatar_id


def test_use_by_id_renews_it(tmp_path: Path, clock: Clock) -> None:
    with kiosk(tmp_path, clock) as one:
        avatar_id = guest(one, 100)
        for _ in range(3):
            clock.now += 0.9 * TTL_S
            assert speak(one, avatar_id=avatar_id).status_code == 200
        assert listed(one)[avatar_id]["temporary"]


def test_registering_a_guest_keeps_it_and_no_job_undoes_that(tmp_path: Path, clock: Clock) -> None:
    with kiosk(tmp_path, clock) as one:
        avatar_id = guest(one, 100)
        found = registered(one, 100, "Anna")
        assert (found["avatar_id"], found["temporary"], found["expires_at"]) == (avatar_id, False, None)
        assert guest(one, 100) == avatar_id
        clock.now += 10 * TTL_S
        row = listed(one)[avatar_id]
        assert (row["name"], row["temporary"]) == ("Anna", False)


def test_never_by_time(tmp_path: Path, clock: Clock) -> None:
    with kiosk(tmp_path, clock, ttl_s=0) as one:
        avatar_id = guest(one, 100)
        clock.now += 1000 * TTL_S
        row = listed(one)[avatar_id]
        assert row["temporary"] is True and row["expires_at"] is None


def test_a_kiosk_runs_for_ever(tmp_path: Path, clock: Clock) -> None:
    with kiosk(tmp_path, clock, ttl_s=0, max_avatars=4) as one:
        anna = registered(one, 90 + 1, "Anna")["avatar_id"]
        guests = []
        for portrait in range(100, 108):
            guests.append(guest(one, portrait))
            clock.now += IN_USE_S
        assert set(listed(one)) == {one.host.default.avatar_id, anna, *guests[-2:]}


def test_the_longest_unused_goes_first_and_none_in_use(tmp_path: Path, clock: Clock) -> None:
    with kiosk(tmp_path, clock, max_avatars=3) as one:
        first, second = guest(one, 100), guest(one, 101)
        found = assert_problem(speak(one, portrait=102), 507, "avatars_full")
        assert found["code"] == "avatars_full" and {first, second} <= set(listed(one))
        clock.now += IN_USE_S + 1
        assert speak(one, avatar_id=first).status_code == 200
        third = registered(one, 102, "Carla")["avatar_id"]
        assert set(listed(one)) == {one.host.default.avatar_id, first, third}
        assert_problem(speak(one, portrait=103), 507, "avatars_full")
        assert_problem(one.client.post("/avatars", files={"file": b"103"}), 507, "avatars_full")


def test_room_in_bytes_is_made_too(tmp_path: Path, clock: Clock) -> None:
    with kiosk(tmp_path, clock, max_avatars_bytes=2**23) as one:
        shades = count(10)
        while sum(row.size_bytes for row in one.host.store.list()) < 2**23:
            one.host.store.put(small_avatar("", next(shades)), temporary=True)
            clock.now += 1
        oldest = min(row.used_at for row in one.host.store.list() if row.used_at)
        clock.now += IN_USE_S
        before = len(listed(one))
        last = guest(one, 200)
        assert last in listed(one) and len(listed(one)) == before
        assert oldest not in {row.used_at for row in one.host.store.list()}


def test_a_store_that_only_partly_helps_is_left_alone(tmp_path: Path, clock: Clock) -> None:
    """A limit that was lowered: no guest is removed for a 507 that comes anyway."""
    with kiosk(tmp_path, clock, max_avatars=10) as one:
        for portrait in (91, 92, 93):
            registered(one, portrait, "Anna")
        guest(one, 100)
        clock.now += IN_USE_S + 1
    with kiosk(tmp_path, clock, max_avatars=4) as one:
        assert_problem(speak(one, portrait=101), 507, "avatars_full")
        assert len(listed(one)) == 5


def test_openapi_says_so(tmp_path: Path, clock: Clock) -> None:
    with kiosk(tmp_path, clock) as one:
        told = one.client.get("/openapi.json").json()
    answer = told["components"]["schemas"]["AvatarAnswer"]["properties"]
    job = told["paths"]["/generate"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]["properties"]
    assert "temporary presenter" in job["portrait"]["description"]
    assert "goes when nobody uses it" in answer["temporary"]["description"]
    assert {"type": "null"} in answer["expires_at"]["anyOf"]
