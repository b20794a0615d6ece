"""The live API against clients that are clumsy, broken or hostile: real sessions behind a real server, stages are fake."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import structlog
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from benchmarks.live.in_process import InProcessLive
from deployments.config import SessionHostSettings
from deployments.host.live_avatars import LiveAvatars
from pipeline.live.contracts import EndReason
from tests.support.hostile_media import BAD_AUDIO
from tests.support.http_server import InProcessHost, Served, assert_problem, serving, small_avatar, wait_for, wav
from tests.support.live import LiveFakeStages
from tests.support.rtc import Client
from tests.unit.deployments.host.test_live_sessions import WallClock

OFFER = "/stream/webrtc/offer"
HIDDEN = "turn-s3cret"
SETTINGS = SessionHostSettings.model_validate(
    {
        # nobody ever connects: sessions wait for their clients as long as a test may take
        "live": {"max_sessions": 5, "connect_timeout_s": 120.0, "connect_grace_s": 120.0, "max_queued_speech_s": 5.0},
        "rtc": {"max_viewers": 1},
        "encoder": {"prefer": "x264", "threads": 1, "live_preset": "ultrafast"},
    }
)


async def _made_offer() -> str:
    client = Client()
    client.channel()
    sdp = await client.offer()
    await client.close()
    return sdp


@pytest.fixture(scope="module")
def sdp() -> str:
    """What a client offers: video, audio, data; nobody will be there to connect."""
    return asyncio.run(_made_offer())


@contextmanager
def serving_live(folder: Path, settings: SessionHostSettings) -> Iterator[Served]:
    host = InProcessHost(folder)
    avatar = small_avatar()
    host.live = InProcessLive(settings, LiveFakeStages(WallClock()), lambda _: avatar)  # type: ignore[arg-type]
    ice = {"ice_servers": [{"urls": ["turn:turn.example:3478"], "username": "u", "credential": HIDDEN}]}
    with serving(folder, host, cors_origins=("https://news.example",), rtc=ice) as one:
        yield one


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving_live(tmp_path_factory.mktemp("hostile"), SETTINGS) as one:
        yield one


@pytest.fixture
def served(one_server: Served) -> Iterator[Served]:
    """After every test nothing is left."""
    yield one_server
    sessions = one_server.host.live.sessions
    for session_id in list(sessions.ids):
        one_server.client.delete(f"/stream/webrtc/{session_id}")
    wait_for(lambda: not sessions.ids and sessions.headroom.active == 0)


def begin(served: Served, sdp: str, drive: str = "push") -> str:
    answer = served.client.post(OFFER, json={"sdp": sdp, "drive": drive})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["session_id"])


def audio_socket(served: Served, session: str) -> ClientConnection:
    return connect(f"ws://127.0.0.1:{served.port}/stream/webrtc/{session}/audio", open_timeout=60)


def refusal(one: ClientConnection) -> tuple[str, int]:
    """The code that was sent, and the close code."""
    code = json.loads(one.recv(60))["code"]
    with pytest.raises(ConnectionClosed) as caught:
        one.recv(60)
    assert caught.value.rcvd is not None
    return code, caught.value.rcvd.code


def section(sdp: str, *kinds: str) -> str:
    """The offer with these sections only."""
    head, *sections = sdp.split("m=")
    return head + "".join("m=" + one for one in sections if one.startswith(kinds))


BROKEN: dict[str, Any] = {
    "cut in half": lambda sdp: sdp[: len(sdp) // 2],
    "a lone surrogate": lambda sdp: sdp.replace("a=mid:0", "a=mid:\ud800"),
    "a name with a zero byte": lambda sdp: sdp.replace("a=mid:0", "a=mid:\0x"),
    "names twice": lambda sdp: sdp.replace("a=mid:1", "a=mid:0").replace("a=mid:2", "a=mid:0"),
    "a bundle whose leader is missing": lambda sdp: sdp.replace("BUNDLE 0 1 2", "BUNDLE 7 1 2"),
    "no names": lambda sdp: sdp.replace("a=mid:", "a=dim:"),
    "two data sections": lambda sdp: sdp + section(sdp, "application")[section(sdp, "application").index("m=") :],
    "no fingerprint": lambda sdp: sdp.replace("a=fingerprint", "a=thumbprint"),
    "no rtcp-mux": lambda sdp: sdp.replace("a=rtcp-mux", "a=rtcp-mix"),
    "thousands of sections": lambda sdp: sdp + "m=video 9 X 1\r\n" * 3000,
    "junk": lambda sdp: "v=0\r\n" + "\x01\x02" * 500,
    "longer than any": lambda sdp: sdp + "a=x\r\n" * 15_000,
}
NO_CODEC: dict[str, Any] = {
    "VP8 only": lambda sdp: sdp.replace("H264/90000", "VP8/90000"),
    "audio only": lambda sdp: section(sdp, "audio"),
    "data only": lambda sdp: section(sdp, "application"),
    "a client that only sends": lambda sdp: sdp.replace("a=recvonly", "a=sendonly"),
}
ODD: dict[str, Any] = {
    "junk candidates": lambda sdp: sdp + "a=candidate:1 x udp 5 127.0.0.1 5000 typ host\r\n",
    "a format without rtpmap": lambda sdp: sdp.replace("a=mid:0", "a=mid:0\r\na=fmtp:97 a=b\r\na=fmtp:99 x=y"),
    "packetization-mode 0": lambda sdp: sdp.replace("packetization-mode=1", "packetization-mode=0"),
    "no bundle": lambda sdp: sdp.replace("a=group:BUNDLE", "a=group:LS"),
    "a bundle of nobody": lambda sdp: sdp.replace("BUNDLE 0 1 2", "BUNDLE 7 8 9"),
    "an unknown fingerprint": lambda sdp: sdp.replace("sha-256", "md5"),
    "a flood of candidates": lambda sdp: sdp + "a=candidate:1 1 udp 5 192.0.2.1 50000 typ host\r\n" * 800,
    "candidates that reach nobody": lambda sdp: (
        sdp
        + "a=candidate:1 1 udp 5 127.0.0.1 99999 typ host\r\na=candidate:2 1 udp 5 127.0.0.1 0 typ host\r\n"
        + "a=candidate:3 1 udp 5 224.0.0.1 5000 typ host\r\na=candidate:4 1 udp 5 0.0.0.0 5000 typ host\r\n"
    ),
}


def test_offers_of_every_kind_of_wrongness_are_refused_and_leave_nothing(served: Served, sdp: str) -> None:
    for name, change in (BROKEN | NO_CODEC).items():
        body = json.dumps({"sdp": change(sdp)})
        answer = served.client.post(OFFER, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == (406 if name in NO_CODEC else 422), (name, answer.text[:300])
        assert_problem(answer, answer.status_code, None, "sdp")
        assert served.host.live.sessions.headroom.active == 0, name


def test_odd_offers_are_answered_and_end_cleanly(served: Served, sdp: str) -> None:
    for change in ODD.values():
        assert served.client.delete(f"/stream/webrtc/{begin(served, change(sdp))}").status_code == 200


WORDS = (
    "0", "-1", "65536", "99999999999999999999", "tcp", "a=", "m=audio 9 UDP/TLS/RTP/SAVPF 111", "a=mid:0", "a=setup:passive",
    "a=sendrecv", "a=inactive", "\u00e9", "\0", "a=fmtp:97 apt=1", "a=ssrc-group:FID 1 2", "a=sctp-port:0",
    "a=max-message-size:-5", "a=rtcp-fb:* nack", "c=IN IP6 ::", "a=rid:1 send",
)  # fmt: skip


def mutated(sdp: str, draw: random.Random) -> str:
    """The offer with up to four lines left out, put in, doubled, swapped or changed."""
    lines = sdp.split("\r\n")
    for _ in range(draw.randint(1, 4)):
        at, other = draw.randrange(len(lines)), draw.randrange(len(lines))
        match draw.randrange(5):
            case 0:
                del lines[at]
            case 1:
                lines.insert(at, draw.choice(WORDS))
            case 2:
                lines.insert(other, lines[at])
            case 3:
                lines[at], lines[other] = lines[other], lines[at]
            case _:
                parts = lines[at].split(" ")
                parts[draw.randrange(len(parts))] = draw.choice(WORDS)
                lines[at] = " ".join(parts)
    return "\r\n".join(lines)


def test_garbled_offers_are_answered_or_refused_and_nothing_breaks_behind(
    served: Served, sdp: str, caplog: pytest.LogCaptureFixture
) -> None:
    draw, seen = random.Random(3), set()
    for _ in range(100):
        answer = served.client.post(OFFER, json={"sdp": mutated(sdp, draw), "drive": draw.choice(["mic", "push"])})
        seen.add(answer.status_code)
        if answer.status_code == 200:
            assert served.client.delete(answer.headers["location"]).status_code == 200
        else:
            assert_problem(answer, answer.status_code, None, "sdp")
            assert "object has no" not in answer.text, "a fault of the library is no answer"
    assert {200, 422} <= seen <= {200, 406, 422}
    gc.collect()
    assert not [one.getMessage() for one in caplog.records if one.name == "asyncio"], "errors that nobody was told of"


def test_twenty_offers_at_once_give_five_sessions_and_fifteen_refusals(served: Served, sdp: str) -> None:
    before = served.client.get("/stream/webrtc/stats").json()["refused"]
    url = f"http://127.0.0.1:{served.port}{OFFER}"
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: httpx.post(url, json={"sdp": sdp, "drive": "push"}, timeout=60), range(20)))
    begun = [one for one in answers if one.status_code == 200]
    refused = [one for one in answers if one.status_code != 200]
    assert (len(begun), len(refused)) == (5, 15)
    assert len({one.json()["session_id"] for one in begun}) == 5
    for one in refused:
        assert_problem(one, 503, "no_capacity")
        assert int(one.headers["retry-after"]) > 0
    stats = served.client.get("/stream/webrtc/stats").json()
    assert (stats["active"], stats["capacity"], stats["refused"] - before) == (5, 5, 15)


def test_what_a_client_says_in_secret_is_in_no_log(served: Served, sdp: str) -> None:
    secrets = [line.partition(":")[2] for line in sdp.splitlines() if line.startswith(("a=ice-pwd", "a=fingerprint"))]
    with structlog.testing.capture_logs() as logs:
        session = begin(served, sdp)
        served.client.post(OFFER, json={"sdp": BROKEN["names twice"](sdp)})
        served.client.get("/stream/webrtc/ice-servers")
        served.client.post(f"/stream/webrtc/{session}/speak", content=wav(), headers={"Content-Type": "audio/wav"})
    assert any(one["event"] == "session_begun" for one in logs) and secrets
    assert not [word for word in (HIDDEN, "RIFF", "v=0", *secrets) if word in repr(logs)]


def test_a_client_that_hangs_up_while_it_offers_leaves_no_session(served: Served, sdp: str) -> None:
    body = json.dumps({"sdp": sdp}).encode()
    head = f"POST {OFFER} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    sessions = served.host.live.sessions
    avatars, asked = sessions._avatars, []

    def slow(avatar_id: str | None) -> Any:
        asked.append(avatar_id)
        return wait_for(lambda: gone) or avatars._presenter(avatar_id)

    gone: list[bool] = []
    sessions._avatars = LiveAvatars(slow, "bt709")
    try:
        with socket.create_connection(("127.0.0.1", served.port)) as one:
            one.sendall(head.encode() + body)
            wait_for(lambda: asked)
            assert sessions.headroom.active == 1
        wait_for(lambda: sessions.headroom.active == 0)  # while the avatar is still being read
    finally:
        gone.append(True)
        sessions._avatars = avatars
    assert not sessions.ids


def test_candidates_in_floods_and_nonsense_do_no_harm(served: Served, sdp: str) -> None:
    session = begin(served, sdp)
    url = f"/stream/webrtc/{session}"
    line = "candidate:1 1 udp 2130706431 192.0.2.1 {} typ host"

    def patch(*lines: str, **more: Any) -> httpx.Response:
        each = {"sdpMid": "0", "sdpMLineIndex": 0} | more
        return served.client.patch(url, json={"candidates": [{"candidate": one} | each for one in lines]})

    assert patch(*(line.format(port) for port in (0, -1, 70_000, "x"))).status_code == 204  # of no use: left out
    for _ in range(3):
        assert patch(*(line.format(5000 + number) for number in range(64))).status_code == 204
    assert_problem(patch(*[line.format(1)] * 65), 422, "invalid_input", "candidates")
    assert_problem(patch(line.format(1), usernameFragment="other"), 422, "ice_restart", "candidates")
    for _ in range(2):
        assert served.client.patch(url, json={"candidates": []}).status_code == 204
    assert served.client.delete(url).status_code == 200
    assert_problem(patch(line.format(5000)), 410, "session_ended")


def test_many_ends_and_calls_at_once(served: Served, sdp: str) -> None:
    url = f"http://127.0.0.1:{served.port}/stream/webrtc/{begin(served, sdp)}"
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("DELETE", "", {}),
        ("POST", "/interrupt", {}),
        ("GET", "/stats", {}),
    ]
    calls += [("POST", "/speak", {"files": {"audio": wav()}})]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda one: httpx.request(one[0], url + one[1], timeout=60, **one[2]), calls * 3))
    assert {one.status_code for one in answers} <= {200, 202, 410}
    assert any(one.status_code == 200 and one.request.method == "DELETE" for one in answers)
    for one in answers:
        if one.status_code == 410:
            assert_problem(one, 410, "session_ended")


def test_speech_that_is_none_is_refused_and_the_session_lives_on(served: Served, sdp: str) -> None:
    session = begin(served, sdp)
    url = f"/stream/webrtc/{session}/speak"
    for name in list(BAD_AUDIO)[:20]:
        answer = served.client.post(url, files={"audio": BAD_AUDIO[name][0]})
        assert answer.status_code in (413, 422), (name, answer.text[:200])
        assert_problem(answer, answer.status_code)
    assert served.client.post(url, files={"audio": wav(4.0)}).status_code == 202
    assert_problem(served.client.post(url, files={"audio": wav(4.0)}), 409, "queue_full")
    assert served.client.get(f"/stream/webrtc/{session}/stats").status_code == 200


def test_sockets_that_misbehave(served: Served, sdp: str) -> None:
    session = begin(served, sdp)
    with audio_socket(served, session) as one:
        for size in (0, 1, 0, 3, 1, 7, 640):
            one.send(bytes(size))
        one.send(bytes(32))
        wait_for(lambda: bool(served.host.live.sessions._entries[session].audio_token))
        with audio_socket(served, session) as second:
            assert refusal(second) == ("audio_in_use", 1008)
        one.socket.shutdown(socket.SHUT_RDWR)  # no closing handshake
    for text in ("", "null", '{"type": null}', "x" * 100_000):
        wait_for(lambda: not served.host.live.sessions._entries[session].audio_token)
        with audio_socket(served, session) as one:
            one.send(text)
            assert refusal(one) == ("invalid_input", 1008)
    with audio_socket(served, begin(served, sdp, "mic")) as one:
        assert refusal(one) == ("wrong_drive", 1008)


def test_a_silent_socket_is_told_that_its_session_has_ended(served: Served, sdp: str) -> None:
    session = begin(served, sdp)
    with audio_socket(served, session) as one:
        wait_for(lambda: bool(served.host.live.sessions._entries[session].audio_token))
        assert served.client.delete(f"/stream/webrtc/{session}").status_code == 200
        assert refusal(one) == ("session_ended", 4404)
    with audio_socket(served, session) as late:
        assert refusal(late) == ("session_ended", 4404)


def test_a_flood_of_speech_is_refused_when_the_queue_is_full(served: Served, sdp: str) -> None:
    session = begin(served, sdp)
    second = np.random.default_rng(1).bytes(32_000)  # noise: silence would be compressed to nothing
    with audio_socket(served, session) as one:
        with pytest.raises(ConnectionClosed):
            for _ in range(10_000):  # 320 MB
                one.send(second)
        assert refusal(one) == ("queue_full", 1008)
    stats = served.client.get(f"/stream/webrtc/{session}/stats").json()
    assert stats["state"] == "connecting" and stats["queue_depths"]["speech_ms"] <= 5000


def test_listeners_to_a_quiet_session(served: Served, sdp: str) -> None:
    session = begin(served, sdp)
    url = f"/stream/webrtc/{session}/events"
    with served.client.stream("GET", url, headers={"Last-Event-ID": "9" * 15}) as answer:  # beyond the newest
        lines = answer.iter_lines()
        assert next(lines).startswith("retry:")  # at once, although nothing has happened
        httpx.delete(f"http://127.0.0.1:{served.port}/stream/webrtc/{session}", timeout=60)
        assert "event: ended" in list(lines)
    assert_problem(served.client.get(url), 410, "session_ended")
    assert served.client.get(url).json()["reason"] == "deleted"
    assert_problem(served.client.get(url, headers={"Last-Event-ID": "-1"}), 422, None, "Last-Event-ID")


def test_viewers_over_the_limit_and_of_what_is_no_session(served: Served, sdp: str) -> None:
    session = begin(served, sdp)
    kind = {"Content-Type": "application/sdp"}
    first = served.client.post(f"/stream/whep/{session}", content=sdp, headers=kind)
    assert first.status_code == 201
    full = served.client.post(f"/stream/whep/{session}", content=sdp, headers=kind)
    assert_problem(full, 503, "too_many_viewers")
    assert_problem(served.client.post(first.headers["location"], content=sdp, headers=kind), 405)
    viewer = first.headers["location"].rpartition("/")[2]
    of_viewer = served.client.post(f"/stream/whep/{viewer}", content=sdp, headers=kind)
    assert_problem(of_viewer, 404, "session_not_found")
    plain = served.client.post(f"/stream/whep/{session}", content=sdp, headers={"Content-Type": "text/plain"})
    assert_problem(plain, 415, "unsupported_content_type", "Content-Type")
    served.client.delete(first.headers["location"])
    for name in ("cut in half", "no fingerprint", "junk"):
        broken = served.client.post(f"/stream/whep/{session}", content=BROKEN[name](sdp).encode(), headers=kind)
        assert_problem(broken, 400, "body_malformed", "body")
    bad = served.client.post(f"/stream/whep/{session}", content=NO_CODEC["VP8 only"](sdp), headers=kind)
    assert_problem(bad, 406, "no_common_codec", "sdp")
    assert len(served.host.live.sessions._entries[session].viewers) == 0


def test_addresses_and_methods_that_do_not_exist(served: Served) -> None:
    for path in ("..%2f..%2fetc", "%00", "x" * 4000, "%0d%0aSet-Cookie:%20a=b", "%ed%a0%80"):
        for method, url in (("GET", f"/stream/webrtc/{path}/stats"), ("DELETE", f"/stream/webrtc/{path}")):
            answer = served.client.request(method, url)
            assert_problem(answer, 404 if answer.status_code == 404 else 405)
            assert "set-cookie" not in answer.headers
    for method, url in (
        ("PUT", OFFER),
        ("GET", OFFER),
        ("DELETE", "/stream/webrtc/x/stats"),
        ("PUT", "/stream/whep/x"),
    ):
        assert_problem(served.client.request(method, url), 405, "method_not_allowed")
    asked = served.client.get("/stream/webrtc/stats", headers={"Origin": "https://evil.example", "Cookie": "a=b"})
    assert (
        "access-control-allow-origin" not in asked.headers and "access-control-allow-credentials" not in asked.headers
    )


def test_a_session_that_cannot_be_freed_whole_gives_its_place_back_all_the_same(served: Served, sdp: str) -> None:
    session, freed = begin(served, sdp), []
    entry = served.host.live.sessions._entries[session]
    close = entry.peer.close

    async def broken() -> None:
        await close()
        raise TimeoutError

    entry.peer.close, stock = broken, entry.hub.close

    async def counted() -> None:
        freed.append(True)
        await stock()

    entry.hub.close = counted
    assert_problem(served.client.delete(f"/stream/webrtc/{session}"), 500, "internal_error")
    assert freed and served.host.live.sessions.headroom.active == 0
    assert_problem(served.client.delete(f"/stream/webrtc/{session}"), 410, "session_ended")


def test_while_a_session_is_being_freed_it_is_over(served: Served, sdp: str) -> None:
    session = begin(served, sdp)
    entry = served.host.live.sessions._entries[session]
    entry.session.end(EndReason.IDLE_TTL)  # as if its task had just begun to free it
    kind = {"Content-Type": "application/sdp"}
    assert_problem(served.client.post(f"/stream/whep/{session}", content=sdp, headers=kind), 410, "session_ended")
    said = served.client.post(f"/stream/webrtc/{session}/speak", files={"audio": wav()})
    assert_problem(said, 410, "session_ended")


def test_a_client_that_never_connects_gives_its_place_back(tmp_path: Path, sdp: str) -> None:
    impatient = SETTINGS.live.model_copy(update={"connect_timeout_s": 0.5})
    with serving_live(tmp_path, SETTINGS.model_copy(update={"live": impatient})) as served:
        begin(served, sdp)
        wait_for(lambda: served.host.live.sessions.ended["connect_timeout"] == 1)
        wait_for(lambda: served.host.live.sessions.headroom.active == 0)
