"""Floods: of requests, offers, jobs, sessions, presenters and uploads, by one key and by strangers."""

from __future__ import annotations

import asyncio
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from serve_app.access.caller import Caller, anybody
from serve_app.access.keys import SCOPES
from serve_app.access.settings import QuotaSettings
from serve_app.config.settings import AppConfig
from serve_app.http.access.rates import Rates
from serve_app.http.capacity import UploadGate
from serve_app.http.problems.errors import BusyError, QuotaExceededError
from tests.support.http_server import Gate, InProcessHost, assert_problem, head_of, small_avatar, wait_for, wav
from tests.support.keys import keyed

SDP = "v=0\r\n"
ANNA = Caller("k0000000000aa", frozenset(SCOPES), "k0000000000aa")
BERTA = Caller("k0000000000bb", frozenset(SCOPES), "k0000000000bb")


def test_requests_of_a_key_are_counted_and_the_answer_says_how_many_are_left(tmp_path: Path) -> None:
    with keyed(tmp_path, requests_per_minute=5) as one:
        anna, berta = one.client(), one.client()
        answers = [anna.get("/avatars") for _ in range(8)]
        assert [answer.status_code for answer in answers] == [200] * 5 + [429] * 3
        left = [re.fullmatch(r'"requests";r=(\d+);t=(\d+)', answer.headers["ratelimit"]) for answer in answers[:5]]
        assert [int(found[1]) for found in left if found] == [4, 3, 2, 1, 0]
        assert all(1 <= int(found[2]) <= 60 for found in left if found)
        assert answers[0].headers["ratelimit-policy"] == '"requests";q=5;w=60'
        found = assert_problem(answers[-1], 429, "quota_exceeded")
        assert found["violated-policies"] == ["requests"]
        assert int(answers[-1].headers["retry-after"]) == found["retry_after_s"] >= 1
        assert berta.get("/avatars").status_code == 200, "each key has its own"
        assert one.served.client.get("/healthz").status_code == 200
        assert "ratelimit" not in one.served.client.get("/healthz").headers
        token = berta.post("/auth/token").json()["token"]
        shared = [one.showing(token).get("/avatars").status_code for _ in range(5)]
        assert shared == [200] * 3 + [429] * 2, "a token counts as its key"


def test_offers_of_a_key(tmp_path: Path) -> None:
    with keyed(tmp_path, offers_per_minute=2) as one:
        anna = one.client()
        offers = [anna.post("/stream/webrtc/offer", json={"sdp": SDP}) for _ in range(4)]
        assert [answer.status_code for answer in offers] == [200, 200, 429, 429]
        assert '"offers";r=0' in offers[1].headers["ratelimit"]
        assert assert_problem(offers[2], 429, "quota_exceeded")["violated-policies"] == ["offers"]
        viewed = anna.post(f"/stream/whep/{offers[0].json()['session_id']}", content=SDP)
        assert viewed.status_code == 429, "a viewer is an offer too"
        assert anna.get("/stream/webrtc/stats").json()["active"] == 2


def test_offers_of_strangers_are_counted_by_address_but_not_on_loopback() -> None:
    async def let_in(address: str, path: str = "/stream/webrtc/offer", times: int = 5) -> int:
        passed = 0
        for _ in range(times):
            try:
                await rates.count(anybody(address), "POST", path)
                passed += 1
            except QuotaExceededError:
                continue
        return passed

    async def all_of_them() -> list[int]:
        return [
            await let_in("203.0.113.7"),
            await let_in("203.0.113.8"),
            await let_in("2001:db8::1"),
            await let_in("127.0.0.1"),
            await let_in("::1"),
            await let_in("unknown"),
            await let_in("203.0.113.7", "/generate"),
            await let_in("203.0.113.7", f"/stream/whep/{'0' * 32}"),
        ]

    rates = Rates(QuotaSettings(offers_per_minute=3))
    assert asyncio.run(all_of_them()) == [3, 3, 3, 5, 5, 3, 5, 0]


def test_jobs_of_a_key_at_once(tmp_path: Path) -> None:
    with keyed(tmp_path, jobs_at_once=2) as one, ThreadPoolExecutor(4) as pool:
        anna, berta = one.client(), one.client()
        one.served.host.stages.render_gate = gate = Gate()
        running = [pool.submit(anna.post, "/generate", files={"audio": wav(0.2)}) for _ in range(2)]
        wait_for(lambda: len(one.served.host.jobs) == 2)
        found = assert_problem(anna.post("/generate", files={"audio": wav(0.2)}), 429, "quota_exceeded")
        assert found["violated-policies"] == ["jobs"]
        other = pool.submit(berta.post, "/generate", files={"audio": wav(0.2)})
        wait_for(lambda: len(one.served.host.jobs) == 3)
        gate.set()
        assert [one.result().status_code for one in (*running, other)] == [200] * 3
        assert anna.post("/generate", files={"audio": wav(0.1)}).status_code == 200, "the places are free again"
        broken = anna.post("/generate", files={"audio": b"x"})
        assert broken.status_code == 422
        assert [anna.post("/generate", files={"audio": wav(0.1)}).status_code for _ in range(3)] == [200] * 3


def test_jobs_of_a_key_on_other_ingress_replicas_count_too(tmp_path: Path) -> None:
    from deployments.host.jobs import JobProgress
    from serve_app.access.owned_ids import owned_id

    with keyed(tmp_path, jobs_at_once=2) as one:
        key, text = one.key()
        anna = one.showing(text)
        jobs = one.served.host.jobs
        for name in ("elsewhere-1", "elsewhere-2"):
            jobs[owned_id(name, key.key_id)] = JobProgress(0, 10)
        assert_problem(anna.post("/generate", files={"audio": wav(0.1)}), 429, "quota_exceeded")
        jobs.popitem()
        assert anna.post("/generate", files={"audio": wav(0.1)}).status_code == 200


def test_videos_of_a_key_that_wait(tmp_path: Path) -> None:
    with keyed(tmp_path, videos_waiting=2) as one:
        one.served.jobs.resting = True
        anna, berta, admin = one.client(), one.client(), one.client("admin")
        answers = [anna.post("/v1/videos", files={"audio": wav(0.1)}) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [202, 202, 429]
        found = assert_problem(answers[2], 429, "quota_exceeded")
        assert found["violated-policies"] == ["videos_waiting"] and int(answers[2].headers["retry-after"]) > 0
        assert len(one.served.api.state.services.uploads.there()) == 2, "what was refused is not kept"
        assert berta.post("/v1/videos", files={"audio": wav(0.1)}).status_code == 202
        path = answers[0].headers["location"]
        assert anna.post(f"{path}/cancel").status_code == 200
        assert anna.post("/v1/videos", files={"audio": wav(0.1)}).status_code == 202
        assert_problem(anna.post(f"{path}/retry"), 429, "quota_exceeded")
        assert admin.post(f"{path}/retry").status_code == 202, "an operator's own quota is another one"


def test_sessions_of_a_key_at_once(tmp_path: Path) -> None:
    with keyed(tmp_path, sessions_at_once=2) as one:
        one.served.host.live.capacity = 100
        anna, berta = one.client(), one.client()
        with ThreadPoolExecutor(8) as pool:
            tries = [pool.submit(anna.post, "/stream/webrtc/offer", json={"sdp": SDP}) for _ in range(12)]
            answers = [one.result() for one in tries]
        let_in = [answer for answer in answers if answer.status_code == 200]
        assert 1 <= len(let_in) <= 2 and all(answer.status_code in (200, 429) for answer in answers)
        assert anna.get("/stream/webrtc/stats").json()["active"] == len(let_in)
        assert berta.post("/stream/webrtc/offer", json={"sdp": SDP}).status_code == 200
        anna.delete(let_in[0].headers["location"])
        assert anna.post("/stream/webrtc/offer", json={"sdp": SDP}).status_code == 200


@pytest.mark.parametrize("bound", [{"max_own_avatars": 2}, {"max_own_avatars_bytes": 1}])
def test_presenters_of_a_key(tmp_path: Path, bound: dict[str, int]) -> None:
    host = InProcessHost(tmp_path)
    host.register = lambda data, name: small_avatar(name, int(data))
    with keyed(tmp_path, host, **bound) as one:
        anna, berta = one.client(), one.client()
        answers = [anna.post("/avatars", files={"file": str(110 + n).encode()}) for n in range(4)]
        most = bound.get("max_own_avatars", 1)
        assert [answer.status_code for answer in answers] == [201] * most + [507] * (4 - most)
        assert_problem(answers[-1], 507, "avatars_full")
        assert_problem(anna.post("/generate", files={"audio": wav(0.1), "portrait": b"115"}), 507, "avatars_full")
        assert berta.post("/avatars", files={"file": b"120"}).status_code == 201
        assert anna.delete(answers[0].headers["location"]).status_code == 204
        assert anna.post("/avatars", files={"file": b"116"}).status_code == 201


def test_uploads_at_once() -> None:
    gate = UploadGate(4, 2, 5.0)
    with ExitStack() as stack:
        for caller in (ANNA, ANNA, BERTA):
            stack.enter_context(gate.place(caller))
        with pytest.raises(QuotaExceededError), gate.place(ANNA):
            pass
        stack.enter_context(gate.place(anybody("127.0.0.1")))
        with pytest.raises(BusyError), gate.place(BERTA):
            pass
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(gate.place(anybody("127.0.0.1")))
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(gate.place(anybody("203.0.113.7")))
        with pytest.raises(QuotaExceededError), gate.place(anybody("203.0.113.7")):
            pass


def test_slow_uploads_of_one_key_leave_room_for_others(tmp_path: Path) -> None:
    with keyed(tmp_path, max_uploads=3, max_uploads_per_client=2) as one, ExitStack() as stack:
        _, text = one.key()
        anna, berta = one.showing(text), one.client()
        slow = [stack.enter_context(socket.create_connection(("127.0.0.1", one.served.port))) for _ in range(2)]
        for connection in slow:
            connection.sendall(
                head_of(1000).replace(b"\r\n\r\n", f"\r\nAuthorization: Bearer {text}\r\n\r\n".encode(), 1)
            )
        uploads = one.served.api.state.services.intake
        wait_for(lambda: uploads.coming == 2)
        found = assert_problem(anna.post("/generate", files={"audio": wav(0.1)}), 429, "quota_exceeded")
        assert found["violated-policies"] == ["uploads"]
        assert berta.post("/generate", files={"audio": wav(0.1)}).status_code == 200
        for connection in slow:
            connection.close()
        wait_for(lambda: uploads.coming == 0)
        assert anna.post("/generate", files={"audio": wav(0.1)}).status_code == 200


def test_an_upload_that_trickles_is_ended(tmp_path: Path) -> None:
    """A byte now and then is no pause, and would hold its place for ten minutes."""
    settings = {"upload_idle_s": 1.0, "upload_min_bytes_per_s": 1e6}
    with keyed(tmp_path, **settings) as one, socket.create_connection(("127.0.0.1", one.served.port)) as raw:
        _, text = one.key()
        raw.sendall(head_of(100_000).replace(b"\r\n\r\n", f"\r\nAuthorization: Bearer {text}\r\n\r\n".encode(), 1))
        raw.sendall(b'--b\r\nContent-Disposition: form-data; name="audio"; filename="a.wav"\r\n\r\n')
        raw.settimeout(0.2)
        answer = b""
        for _ in range(100):
            try:
                raw.sendall(b"-")
                answer += raw.recv(4096)
                break
            except TimeoutError:
                continue
        assert b" 408 " in answer.splitlines()[0]


def test_settings_that_cannot_work() -> None:
    with pytest.raises(ValueError, match="counters"):
        QuotaSettings(counters="redis://x")
    assert AppConfig().ingress().quotas == QuotaSettings()
