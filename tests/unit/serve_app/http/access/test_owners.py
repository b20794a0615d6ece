"""Two customers and an operator: what one makes does not exist for the other, and the operator sees all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.http_server import InProcessHost, assert_problem, small_avatar, wait_for, wav
from tests.support.keys import Keyed, keyed

SDP = "v=0\r\n"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Keyed]:
    host = InProcessHost(tmp_path)
    host.register = lambda data, name: small_avatar(name, int(data))
    with keyed(tmp_path, host) as one:
        yield one


@pytest.fixture
def anna(service: Keyed) -> httpx.Client:
    return service.client()


@pytest.fixture
def berta(service: Keyed) -> httpx.Client:
    return service.client()


@pytest.fixture
def admin(service: Keyed) -> httpx.Client:
    return service.client("admin")


def registered(client: httpx.Client, shade: int, name: str = "") -> dict[str, Any]:
    answer = client.post("/avatars", files={"file": ("p.png", str(shade).encode())}, data={"name": name})
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def listed(client: httpx.Client) -> dict[str, str]:
    return {row["avatar_id"]: row["name"] for row in client.get("/avatars").json()["avatars"]}


def spoken(client: httpx.Client, **fields: str) -> httpx.Response:
    return client.post("/generate", files={"audio": wav(0.1)}, data=fields)


def offered(client: httpx.Client, **fields: str) -> httpx.Response:
    return client.post("/stream/webrtc/offer", json={"sdp": SDP, "drive": "push", **fields})


def test_another_owner_s_presenter_does_not_exist(
    service: Keyed, anna: httpx.Client, berta: httpx.Client, admin: httpx.Client
) -> None:
    made = registered(anna, 101, "Anna's")
    avatar_id = made["avatar_id"]
    default = service.served.host.default.avatar_id
    assert set(listed(anna)) == {default, avatar_id} == set(listed(admin)) and set(listed(berta)) == {default}
    for method, path in (("GET", ""), ("GET", "/preview.jpg"), ("DELETE", "")):
        answer = berta.request(method, f"/avatars/{avatar_id}{path}")
        unknown = berta.request(method, f"/avatars/{'0' * 32}{path}")
        found, other = assert_problem(answer, 404, "avatar_not_found"), assert_problem(unknown, 404, "avatar_not_found")
        same = {name: text.replace("0" * 32, avatar_id) for name, text in other.items() if isinstance(text, str)}
        assert {name: found[name] for name in ("title", "detail", "got", "allowed")} == {
            name: same[name] for name in ("title", "detail", "got", "allowed")
        }, "nothing tells whether it exists"
    assert_problem(spoken(berta, avatar_id=avatar_id), 404, "avatar_not_found", "avatar_id")
    assert_problem(offered(berta, avatar_id=avatar_id), 404, "avatar_not_found", "avatar_id")
    for client in (anna, admin):
        assert spoken(client, avatar_id=avatar_id).headers["x-avatar-id"] == avatar_id
        assert client.get(f"/avatars/{avatar_id}").json() == made
    assert admin.delete(f"/avatars/{avatar_id}").status_code == 204
    assert_problem(anna.get(f"/avatars/{avatar_id}"), 404, "avatar_not_found")


def test_the_same_picture_of_two_owners(service: Keyed, anna: httpx.Client, berta: httpx.Client) -> None:
    first, second = registered(anna, 102, "Anna's"), registered(berta, 102, "Berta's")
    avatar_id = first["avatar_id"]
    assert second["avatar_id"] == avatar_id and second["name"] == "Berta's"
    assert listed(anna)[avatar_id] == "Anna's" and listed(berta)[avatar_id] == "Berta's"
    assert registered(berta, 102)["name"] == "Berta's"
    assert anna.delete(f"/avatars/{avatar_id}").status_code == 204
    assert avatar_id not in listed(anna) and spoken(berta, avatar_id=avatar_id).status_code == 200
    assert_problem(anna.delete(f"/avatars/{avatar_id}"), 404, "avatar_not_found")
    assert berta.delete(f"/avatars/{avatar_id}").status_code == 204
    assert service.served.host.store.list() == [
        row for row in service.served.host.store.list() if row.avatar_id != avatar_id
    ]


def test_what_was_there_before_keys_is_for_all_and_the_operator_removes_it(
    service: Keyed, anna: httpx.Client, berta: httpx.Client, admin: httpx.Client
) -> None:
    shared = service.served.host.store.put(small_avatar("House", 103)).avatar_id
    assert listed(anna)[shared] == listed(berta)[shared] == "House"
    assert_problem(anna.delete(f"/avatars/{shared}"), 403, "avatar_shared", "avatar_id")
    assert registered(anna, 103, "mine too")["name"] == "mine too"
    assert listed(berta)[shared] == "House", "it stays everybody's"
    assert anna.delete(f"/avatars/{shared}").status_code == 204
    assert listed(anna)[shared] == "House"
    assert admin.delete(f"/avatars/{shared}").status_code == 204
    assert shared not in listed(berta)


def test_the_portrait_of_a_job_is_its_owner_s(anna: httpx.Client, berta: httpx.Client) -> None:
    answer = anna.post("/generate", files={"audio": wav(0.1), "portrait": b"104"})
    avatar_id = answer.headers["x-avatar-id"]
    assert avatar_id in listed(anna) and avatar_id not in listed(berta)


def test_a_presenter_that_could_not_be_stored_leaves_no_owner(tmp_path: Path) -> None:
    host = InProcessHost(tmp_path)
    host.register = lambda data, name: small_avatar(name, int(data))
    with keyed(tmp_path, host, max_avatars=2) as one:
        anna, berta = one.client(), one.client()
        registered(anna, 105)
        refused = berta.post("/avatars", files={"file": b"106"})
        assert_problem(refused, 507, "avatars_full")
        marks = [path for path in (tmp_path / "avatars" / "owners").rglob("*") if path.is_file()]
        assert len(marks) == 1


def test_results_and_progress(service: Keyed, anna: httpx.Client, berta: httpx.Client, admin: httpx.Client) -> None:
    made = anna.post("/api/generate", files={"audio": wav(0.1)}).json()
    assert len(made["id"]) == 64 and made["url"] == f"/results/{made['id']}"
    for client in (anna, admin):
        assert client.get(made["url"]).content[4:8] == b"ftyp"
        assert client.head(made["url"]).status_code == 200
    for other in (made["id"], made["id"][:32], made["id"][:-1] + "0", made["id"][:-16] + "f" * 16, "x"):
        if other != made["id"]:
            assert_problem(admin.get(f"/results/{other}"), 404, "result_not_found")
            assert_problem(anna.get(f"/results/{other}"), 404, "result_not_found")
        assert_problem(berta.get(f"/results/{other}"), 404, "result_not_found")


def test_two_owners_may_give_their_jobs_the_same_id(service: Keyed, anna: httpx.Client, berta: httpx.Client) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from tests.support.http_server import Gate

    service.served.host.stages.render_gate = gate = Gate()
    job = {"files": {"audio": wav(0.4)}, "headers": {"X-Request-Id": "my-job-number-1"}}
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: anna.post("/generate", **job))  # type: ignore[arg-type]
        wait_for(lambda: anna.get("/jobs/my-job-number-1").json()["state"] == "working")
        assert berta.get("/jobs/my-job-number-1").json()["state"] == "unknown"
        gate.set()
        answer = running.result()
    assert answer.status_code == 200 and answer.headers["x-request-id"] == "my-job-number-1"


def test_another_owner_s_session_does_not_exist(
    service: Keyed, anna: httpx.Client, berta: httpx.Client, admin: httpx.Client
) -> None:
    session = offered(anna).json()
    mine, path = session["session_id"], f"/stream/webrtc/{session['session_id']}"
    calls: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("GET", f"{path}/stats", {}), ("POST", f"{path}/interrupt", {}), ("GET", f"{path}/events", {}),
        ("POST", f"{path}/express", {"json": {"energy": 0}}),
        ("PATCH", path, {"json": {"candidates": []}}), ("POST", f"{path}/speak", {"files": {"audio": wav(0.1)}}),
        ("POST", f"/stream/whep/{mine}", {"content": SDP, "headers": {"Content-Type": "application/sdp"}}),
        ("DELETE", f"/stream/whep/{mine}/v1", {}), ("PATCH", f"/stream/whep/{mine}/v1", {"json": {"candidates": []}}),
        ("DELETE", path, {}),
    )  # fmt: skip
    for method, address, sent in calls:
        assert_problem(berta.request(method, address, **sent), 404, "session_not_found")
    assert [row["session_id"] for row in anna.get("/stream/webrtc/stats").json()["sessions"]] == [mine]
    assert berta.get("/stream/webrtc/stats").json()["sessions"] == []
    offered(berta)
    everything = admin.get("/stream/webrtc/stats").json()
    assert everything["active"] == 2 and everything["ended"] == {"deleted": 0}
    own = berta.get("/stream/webrtc/stats").json()
    assert own["active"] == 1 and own["ended"] == {}, "how others fare is the operator's"
    assert anna.get(f"{path}/stats").status_code == admin.get(f"{path}/stats").status_code == 200
    assert anna.delete(path).status_code == 200
    assert_problem(anna.get(f"{path}/stats"), 410, "session_ended")
    assert_problem(berta.get(f"{path}/stats"), 404, "session_not_found")


def test_a_session_id_cannot_be_made_one_s_own(anna: httpx.Client, berta: httpx.Client) -> None:
    """The mark of one's own session behind another's id names no session."""
    theirs, mine = offered(anna).json()["session_id"], offered(berta).json()["session_id"]
    for forged in (
        theirs[:32] + mine[32:],
        theirs[:32],
        theirs.upper(),
        theirs + mine[32:],
        f"{theirs}/",
        f"%20{theirs}",
    ):
        assert berta.get(f"/stream/webrtc/{forged}/stats").status_code == 404


def test_a_token_owns_what_its_key_owns(service: Keyed, anna: httpx.Client, berta: httpx.Client) -> None:
    made = registered(anna, 107)
    holder = service.showing(anna.post("/auth/token").json()["token"])
    assert made["avatar_id"] in listed(holder)
    session = offered(holder).json()["session_id"]
    assert anna.get(f"/stream/webrtc/{session}/stats").status_code == 200
    assert berta.get(f"/stream/webrtc/{session}/stats").status_code == 404
