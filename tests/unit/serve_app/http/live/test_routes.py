"""Live sessions over HTTP, against a fake host and a real server."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from fastapi.routing import APIWebSocketRoute
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from deployments.host.live_calls import NumberedEvent
from deployments.host.live_errors import SessionLostError
from kernels.errors import InvalidInputError
from pipeline.media.pcm_reader import PcmReader
from pipeline.webrtc.turn_credentials import turn_credentials
from serve_app.config.settings import AppConfig
from serve_app.http.live.events import event_stream, live_event_routes
from serve_app.http.live.fields import MAX_SIGNALLING_BYTES
from serve_app.http.live.routes import live_routes
from serve_app.http.live.socket import MAX_MESSAGE_BYTES
from serve_app.http.live.speech import live_speech_routes
from serve_app.http.live.whep import whep_routes
from tests.support.http_server import Served, assert_problem, serving, wait_for, wav

OFFER = {"sdp": "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\n", "type": "offer"}
ICE = {"rtc": {"ice_servers": [{"urls": ["turn:turn.example:3478"], "username": "u", "credential": "s3cret"}]}}


@pytest.fixture(scope="module")
def one_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("live"), cors_origins=("https://news.example",), **ICE) as one:
        yield one


@pytest.fixture
def served(one_server: Served) -> Served:
    one_server.host.live.reset()
    return one_server


def served_url(served: Served, path: str) -> str:
    return f"http://127.0.0.1:{served.port}{path}"


def offer(served: Served, **fields: Any) -> str:
    answer = served.client.post("/stream/webrtc/offer", json=OFFER | fields)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["session_id"])


def test_an_offer_is_answered_with_everything_that_a_client_needs(served: Served) -> None:
    answer = served.client.post("/stream/webrtc/offer", json=OFFER | {"fps": 50, "drive": "push", "echo": False})
    found = answer.json()
    assert found.pop("session_id") == answer.headers["location"].rpartition("/")[2]
    assert found == {
        "sdp": "v=0 answer", "type": "answer", "avatar_id": "ab" * 16, "fps": 50, "width": 512, "height": 512,
        "drive": "push", "listen": False, "echo": False, "audio_url": f"{answer.headers['location']}/audio",
    }  # fmt: skip
    (session,) = served.host.live.sessions.values()
    assert session.offer.seed == 0 and session.offer.avatar_id is None


def test_a_session_that_speaks_what_is_pushed_may_listen(served: Served) -> None:
    answer = served.client.post("/stream/webrtc/offer", json=OFFER | {"drive": "push", "listen": True})
    assert answer.json()["listen"] is True
    (session,) = served.host.live.sessions.values()
    assert session.offer.listens


def test_a_conversation_listens_without_being_told_to(served: Served) -> None:
    answer = served.client.post("/stream/webrtc/offer", json=OFFER | {"drive": "talk"}).json()
    assert answer["drive"] == "talk" and answer["listen"] is True
    assert answer["audio_url"] == f"/stream/webrtc/{answer['session_id']}/audio"
    (session,) = served.host.live.sessions.values()
    assert session.offer.listens


@pytest.mark.parametrize(
    ("change", "status", "code", "field"),
    [
        ({"sdp": ""}, 422, "missing_field", "sdp"),
        ({"sdp": "hello"}, 422, "invalid_input", "sdp"),
        ({"sdp": 5}, 422, "invalid_input", "sdp"),
        ({"type": "answer"}, 422, "invalid_input", "type"),
        ({"fps": 30}, 422, "invalid_input", "fps"),
        ({"drive": "text"}, 422, "invalid_input", "drive"),
        ({"echo": "perhaps"}, 422, "invalid_input", "echo"),
        ({"listen": "perhaps", "drive": "push"}, 422, "invalid_input", "listen"),
        ({"listen": True}, 422, "invalid_input", "listen"),
        ({"listen": True, "drive": "mic"}, 422, "invalid_input", "listen"),
        ({"listen": False, "drive": "talk"}, 422, "invalid_input", "listen"),
        ({"avatar_id": "../../etc"}, 422, None, "avatar_id"),
        ({"seed": -1}, 422, "invalid_input", "seed"),
        ({"colour": "red"}, 422, "unknown_field", "colour"),
        ({"sdp": "v=0" + "x" * MAX_SIGNALLING_BYTES}, 413, "body_too_large", "body"),
    ],
)
def test_a_bad_offer_is_refused_by_field(
    served: Served, change: dict[str, Any], status: int, code: str | None, field: str
) -> None:
    assert_problem(served.client.post("/stream/webrtc/offer", json=OFFER | change), status, code, field)
    assert not served.host.live.sessions


def test_an_offer_that_is_no_json_is_refused(served: Served) -> None:
    post = served.client.post
    assert_problem(post("/stream/webrtc/offer", content=b"v=0", headers={"Content-Type": "application/sdp"}), 415)
    assert_problem(post("/stream/webrtc/offer", content=b"{", headers={"Content-Type": "application/json"}), 400)


def test_no_route_overlooks_a_field_in_the_address(served: Served) -> None:
    asked: set[tuple[str, str, str]] = set()
    for path, methods in served.client.get("/openapi.json").json()["paths"].items():
        url = re.sub(r"\{\w+\}", "nobody", path)
        for method, told in methods.items():
            content = told.get("requestBody", {}).get("content", {})
            for field in {name for one in content.values() for name in one["schema"].get("properties", {})}:
                asked.add((method, path, field))
                answer = served.client.request(method, url, params={field: "1", "via": "menu"})
                assert_problem(answer, 422, "misplaced_field", field)
            if content:  # a name that is no field is left to proxies
                other = served.client.request(method, url, params={"via": "menu"})
                assert_problem(other, 415, "unsupported_content_type")
    assert {path for _, path, _ in asked} == {
        "/generate", "/api/generate", "/v1/videos", "/v1/forget", "/avatars", "/stream/webrtc/offer", "/stream/webrtc/{session_id}",
        "/stream/webrtc/{session_id}/speak", "/stream/whep/{session_id}/{viewer_id}", "/stream/webrtc/{session_id}/publish",
        "/stream/webrtc/{session_id}/express", "/stream/livekit",
    }  # fmt: skip
    assert len(asked) == 2 * 16 + 20 + 3 + 3 + 14 + 1 + 2 + 1 + 2 + 6 + 5


def test_twenty_offers_at_once_give_as_many_sessions_as_there_is_room(served: Served) -> None:
    served.host.live.capacity = 5
    with ThreadPoolExecutor(20) as pool:
        answers = list(
            pool.map(
                lambda _: httpx.post(served_url(served, "/stream/webrtc/offer"), json=OFFER, timeout=60), range(20)
            )
        )
    refused = [one for one in answers if one.status_code != 200]
    assert len(refused) == 15
    for one in refused:
        assert assert_problem(one, 503, "no_capacity")["retry_after_s"] == int(one.headers["retry-after"])
    stats = served.client.get("/stream/webrtc/stats").json()
    assert (stats["active"], stats["capacity"], stats["refused"], len(stats["sessions"])) == (5, 5, 15, 5)
    assert stats["first_frame_ms"] == {"p50": 50.0, "p95": 59.0, "n": 2}


def test_the_list_of_all_sessions_may_keep_their_ids_to_itself(tmp_path: Path) -> None:
    with serving(tmp_path, stats_ids=False) as closed:
        session = offer(closed, drive="push")
        [row] = closed.client.get("/stream/webrtc/stats").json()["sessions"]
        assert row["session_id"] == session[:8] and session not in json.dumps(row)
        for method, path in (("DELETE", ""), ("POST", "/interrupt"), ("GET", "/stats"), ("GET", "/events")):
            answer = closed.client.request(method, f"/stream/webrtc/{row['session_id']}{path}")
            assert_problem(answer, 404, "session_not_found")
        assert closed.client.get(f"/stream/webrtc/{session}/stats").json()["session_id"] == session
        assert session in closed.host.live.sessions
    assert AppConfig().ingress().live.stats_ids, "a client finds its session there by default"


def test_statistics_interruption_and_the_end(served: Served) -> None:
    session = offer(served, drive="push")
    assert served.client.get(f"/stream/webrtc/{session}/stats").json()["state"] == "idle"
    answer = served.client.post(f"/stream/webrtc/{session}/interrupt").json()
    assert answer == {"epoch": 1, "position_s": 1.25, "utterance_id": "u1"}
    assert served.client.delete(f"/stream/webrtc/{session}").status_code == 200
    assert_problem(served.client.delete(f"/stream/webrtc/{session}"), 410, "session_ended")
    assert_problem(served.client.get(f"/stream/webrtc/{session}/stats"), 410, "session_ended")
    assert_problem(served.client.post("/stream/webrtc/nobody/interrupt"), 404, "session_not_found")
    served.host.live.failure = SessionLostError("x")
    assert_problem(served.client.post("/stream/webrtc/offer", json=OFFER), 404, "session_lost")


def test_candidates_come_as_json_or_as_a_fragment(served: Served) -> None:
    session = offer(served)
    line = "candidate:1 1 udp 2130706431 192.0.2.1 50000 typ host"
    patch = served.client.patch
    one = {"candidate": line, "sdp_mid": "0", "sdp_mline_index": 0}
    assert patch(f"/stream/webrtc/{session}", json={"candidates": [one]}).status_code == 204
    fragment = f"a=ice-ufrag:x\r\na=mid:1\r\na={line}\r\na=end-of-candidates\r\n"
    headers = {"Content-Type": "application/trickle-ice-sdpfrag"}
    assert patch(f"/stream/webrtc/{session}", content=fragment, headers=headers).status_code == 204
    assert served.host.live.sessions[session].candidates == [
        {"candidate": line, "sdpMid": "0", "sdpMLineIndex": 0, "usernameFragment": None},
        {"candidate": line, "sdpMid": "1", "sdpMLineIndex": None, "usernameFragment": "x"},
    ]
    for bad in ({}, {"candidates": 5}, {"candidates": [{"x": 1}]}, {"candidates": [one | {"port": 1}]}):
        assert_problem(patch(f"/stream/webrtc/{session}", json=bad), 422, None, "candidates")
    assert_problem(patch(f"/stream/webrtc/{session}", content=b"hello", headers=headers), 400, "body_malformed")
    assert_problem(patch(f"/stream/webrtc/{session}", content=b"x", headers={"Content-Type": "text/plain"}), 415)
    assert_problem(patch("/stream/webrtc/nobody", json={"candidates": []}), 404, "session_not_found")


def test_an_audio_file_is_spoken_as_a_form_or_as_the_body(served: Served) -> None:
    session = offer(served, drive="push")
    url = f"/stream/webrtc/{session}/speak"
    first = served.client.post(url, files={"audio": wav(0.5)})
    assert first.status_code == 202
    assert first.json() == {"utterance_id": "u1", "duration_s": 0.5, "queued_s": 0.0}
    second = served.client.post(url, content=wav(0.25), headers={"Content-Type": "audio/wav"}).json()
    assert second == {"utterance_id": "u2", "duration_s": 0.25, "queued_s": 0.5}
    assert_problem(served.client.post(url, files={"audio": b"junk"}), 422, "audio_unreadable", "audio")
    plain = {"Content-Type": "text/plain"}
    assert_problem(served.client.post(url, content=b"hello", headers=plain), 415, "unsupported_content_type")
    mic = offer(served, drive="mic")
    assert_problem(served.client.post(f"/stream/webrtc/{mic}/speak", files={"audio": wav()}), 409, "wrong_drive")


def socket(served: Served, session: str, query: str = "") -> ClientConnection:
    return connect(
        served_url(served, f"/stream/webrtc/{session}/audio{query}").replace("http:", "ws:"), open_timeout=60
    )


@pytest.mark.parametrize("piece_ms", [7, 13, 33])
def test_pcm_of_any_piece_size_arrives_whole_and_in_order(served: Served, piece_ms: int) -> None:
    session = offer(served, drive="push")
    ramp = (np.arange(16_000) - 8_000).astype("<i2")
    size = round(16_000 * piece_ms / 1000) * 2 + 1  # odd: samples are cut in two
    data = ramp.tobytes()
    with socket(served, session) as one:
        for start in range(0, len(data), size):
            one.send(data[start : start + size])
        one.send(json.dumps({"type": "end"}))
        wait_for(lambda: bool(served.host.live.sessions[session].utterances))
    np.testing.assert_array_equal(served.host.live.heard(session) * 32768, ramp)
    assert served.host.live.sessions[session].utterances == [1.0]


def test_other_rates_and_channels_are_brought_to_16_khz_mono(served: Served) -> None:
    session = offer(served, drive="push")
    tone = np.sin(2 * np.pi * 440 * np.arange(48_000) / 48_000) * 12_000
    stereo = np.stack([tone, tone], 1).astype("<i2").tobytes()
    with socket(served, session, "?sample_rate=4.8e4&channels=2.0") as one:
        for start in range(0, len(stereo), 1764):
            one.send(stereo[start : start + 1764])
    wait_for(lambda: bool(served.host.live.sessions[session].utterances))  # closing ends the utterance
    heard = served.host.live.heard(session)
    assert len(heard) == 16_000
    assert np.sqrt(np.mean(heard[1000:-1000] ** 2)) == pytest.approx(12_000 / 32768 / np.sqrt(2), rel=0.01)


def test_an_interruption_over_the_socket_drops_what_waits(served: Served) -> None:
    session = offer(served, drive="push")
    with socket(served, session) as one:
        one.send(bytes(3200))
        one.send(json.dumps({"type": "interrupt"}))
        assert json.loads(one.recv(60)) == {"type": "interrupted", "position_s": 1.25, "epoch": 1}
        one.send(bytes(640))
    wait_for(lambda: served.host.live.sessions[session].token == "")
    assert len(served.host.live.heard(session)) == 320


@pytest.mark.parametrize(
    ("query", "drive", "code", "close"),
    [
        ("?sample_rate=44", "push", "invalid_input", 1008),
        ("?channels=6", "push", "invalid_input", 1008),
        ("?channels=one", "push", "invalid_input", 1008),
        ("", "mic", "wrong_drive", 1008),
    ],
)
def test_a_socket_that_cannot_work_is_told_why(served: Served, query: str, drive: str, code: str, close: int) -> None:
    with socket(served, offer(served, drive=drive), query) as one:
        _refused(one, code, close)


def test_a_second_speaker_and_an_unknown_session_are_told_why(served: Served) -> None:
    session = offer(served, drive="push")
    with socket(served, session) as first:
        first.send(bytes(640))
        wait_for(lambda: bool(served.host.live.sessions[session].token))
        with socket(served, session) as second:
            _refused(second, "audio_in_use", 1008)
    with socket(served, "nobody") as third:
        _refused(third, "session_not_found", 4404)


@pytest.mark.parametrize("message", ["hello", "[1]", '{"type": "dance"}', "[" * 5000, bytes(MAX_MESSAGE_BYTES + 2)])
def test_a_message_that_is_no_speech_ends_the_socket_with_the_reason(served: Served, message: str | bytes) -> None:
    session = offer(served, drive="push")
    with socket(served, session) as one:
        one.send(message)
        _refused(one, "invalid_input", 1008)
    wait_for(lambda: served.host.live.sessions[session].token == "")


def test_the_description_of_the_socket_is_what_it_does(served: Served) -> None:
    spec = served.client.get("/openapi.json").json()
    routes = (live_routes, live_speech_routes, live_event_routes, whep_routes)
    made = [route for make in routes for route in make(served.api.state.services, served.host.live).routes]
    sockets = {route.path for route in made if isinstance(route, APIWebSocketRoute)}
    assert sockets == set(spec["x-websockets"]) == {"/stream/webrtc/{session_id}/audio"}
    [words] = [one["description"] for one in spec["tags"] if one["name"] == "live"]
    [(path, described)] = spec["x-websockets"].items()
    assert f"WS {path}?" in words
    session = offer(served, drive="push")
    query = [one for one in described["parameters"] if one["in"] == "query"]
    assert {one["name"] for one in query} == {"sample_rate", "channels"}
    for one in query:
        assert f"`{one['name']}`" in words
        schema = one["schema"]
        for wrong in (schema["minimum"] - 1, schema["maximum"] + 1):
            with socket(served, session, f"?{one['name']}={wrong}") as refused:
                assert json.loads(refused.recv(60))["detail"].startswith(one["name"])
        for right in (schema["minimum"], schema["default"], schema["maximum"]):
            with socket(served, session, f"?{one['name']}={right}") as taken:
                taken.send('{"type": "interrupt"}')
                assert json.loads(taken.recv(60))["type"] == "interrupted"
            wait_for(lambda: served.host.live.sessions[session].token == "")
    answer = served.client.post("/stream/webrtc/offer", json=OFFER | {"drive": "push"}).json()
    address = served_url(served, answer["audio_url"]).replace("http:", "ws:")
    heard = served.host.live.sessions[answer["session_id"]]
    defaults = "&".join(f"{one['name']}={one['schema']['default']}" for one in query)
    for count, ending in enumerate(("", f"?{defaults}"), 1):
        with connect(address + ending, open_timeout=60) as speaking:
            speaking.send(bytes(6400))
        wait_for(lambda count=count: len(heard.utterances) == count and not heard.token)
    assert heard.utterances == pytest.approx([0.2, 0.2])
    messages = {one["message"] for one in described["sent"]}
    assert messages == {"binary messages", '{"type": "end"}', '{"type": "interrupt"}'}
    assert {one["code"] for one in described["closes"]} == {1008, 1013, 4404}
    assert all(f"Closed with {one['code']}" in words for one in described["closes"])


def test_the_offer_says_what_comes_next(served: Served) -> None:
    assert served.client.post("/stream/webrtc/offer", json=OFFER | {"drive": "mic"}).json()["audio_url"] is None
    spec = served.client.get("/openapi.json").json()
    links = spec["paths"]["/stream/webrtc/offer"]["post"]["responses"]["200"]["links"]
    found = {one["operationId"]: one for path in spec["paths"].values() for one in path.values()}
    assert {"speak", "interrupt", "events", "end"} <= set(links)
    for link in links.values():
        names = {one["name"] for one in found[link["operationId"]]["parameters"] if one["in"] == "path"}
        assert names == set(link["parameters"])


def _refused(one: ClientConnection, code: str, close: int) -> None:
    assert json.loads(one.recv(60))["code"] == code
    with pytest.raises(ConnectionClosed) as caught:
        one.recv(60)
    assert caught.value.rcvd is not None and caught.value.rcvd.code == close


def test_events_are_streamed_numbered_and_end_with_the_session(served: Served) -> None:
    session = offer(served)
    served.host.live.sessions[session].tell("connected", at_s=0.0)
    served.host.live.sessions[session].tell("speaking_started", utterance_id="u1")
    with served.client.stream("GET", f"/stream/webrtc/{session}/events", headers={"Last-Event-ID": "1"}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert next(lines).startswith("retry:") and next(lines) == ""
        assert [next(lines) for _ in range(4)] == [
            "id: 2", "event: speaking_started", 'data: {"utterance_id": "u1"}', "",
        ]  # fmt: skip
        httpx.delete(served_url(served, f"/stream/webrtc/{session}"), timeout=60)
        assert list(lines)[:2] == ["id: 3", "event: ended"]
    assert_problem(served.client.get("/stream/webrtc/nobody/events"), 404, "session_not_found")
    wrong = served.client.get("/stream/webrtc/x/events", headers={"Last-Event-ID": "soon"})
    assert_problem(wrong, 422, "invalid_input", "Last-Event-ID")


def test_a_quiet_event_stream_says_that_it_lives() -> None:
    async def silence() -> AsyncGenerator[NumberedEvent, None]:
        yield NumberedEvent(1, "connected", {})
        await asyncio.Event().wait()
        yield NumberedEvent(2, "never", {})

    async def first_three() -> list[bytes]:
        stream = event_stream(silence(), heartbeat_s=0.01)
        async with aclosing(stream):
            return [await anext(stream) for _ in range(3)]

    assert asyncio.run(first_three())[2] == b": still here\n\n"


def test_two_utterances_that_come_at_once_stay_two(served: Served) -> None:
    session = offer(served, drive="push")
    with socket(served, session) as one:
        for _ in range(2):
            one.send(bytes(3200))
            one.send(json.dumps({"type": "end"}))
        one.send(json.dumps({"type": "end"}))  # nothing to end
    wait_for(lambda: not served.host.live.sessions[session].token)
    assert served.host.live.sessions[session].utterances == pytest.approx([0.1, 0.1])


def test_a_viewer_comes_and_goes(served: Served) -> None:
    session = offer(served)
    sdp = {"Content-Type": "application/sdp; charset=utf-8"}
    answer = served.client.post(f"/stream/whep/{session}", content=OFFER["sdp"], headers=sdp)
    assert answer.status_code == 201 and answer.text == "v=0 viewer answer"
    assert answer.headers["content-type"].startswith("application/sdp")
    assert answer.headers["location"] == f"/stream/whep/{session}/v1"
    assert 'credential="s3cret"' in answer.headers["link"]
    fragment = {"Content-Type": "application/trickle-ice-sdpfrag"}
    patch = served.client.patch
    assert patch(answer.headers["location"], content="a=end-of-candidates", headers=fragment).status_code == 204
    nobody = patch(f"/stream/whep/{session}/nobody", content="a=end-of-candidates", headers=fragment)
    assert_problem(nobody, 404, "unknown_viewer")
    assert served.client.delete(answer.headers["location"]).status_code == 200
    assert served.client.delete(answer.headers["location"]).status_code == 200
    assert not served.host.live.sessions[session].viewers
    assert served.client.options(f"/stream/whep/{session}").headers["accept-post"] == "application/sdp"
    post = served.client.post
    assert_problem(post(f"/stream/whep/{session}", content=b"\xff\xfe", headers=sdp), 400, "body_malformed")
    assert_problem(post(f"/stream/whep/{session}", content="hi", headers=sdp), 400, "body_malformed", "body")
    assert_problem(post(f"/stream/whep/{session}", content="v=0", headers={"Content-Type": "text/plain"}), 415)
    assert_problem(post("/stream/whep/nobody", content="v=0", headers=sdp), 404, "session_not_found")


def test_clients_learn_the_ice_servers_and_other_origins_may_patch(served: Served) -> None:
    assert served.client.get("/stream/webrtc/ice-servers").json() == {
        "ice_servers": [{"urls": ["turn:turn.example:3478"], "username": "u", "credential": "s3cret"}]
    }
    asked = served.client.options(
        "/stream/webrtc/x",
        headers={"Origin": "https://news.example", "Access-Control-Request-Method": "PATCH"},
    )
    assert asked.status_code == 200 and "PATCH" in asked.headers["access-control-allow-methods"]


def test_credentials_of_turn_servers_are_each_client_s_own_and_end(tmp_path: Path) -> None:
    rtc = {"turn_urls": ["turn:turn.example:3478"], "turn_secret": "shared", "turn_ttl_s": 600}
    with serving(tmp_path, rtc=rtc) as own:
        answer = own.client.get("/stream/webrtc/ice-servers")
        [server] = answer.json()["ice_servers"]
        expiry, _, name = server["username"].partition(":")
        assert name == "client" and 590 < int(expiry) - time.time() < 601
        assert server["urls"] == rtc["turn_urls"] and answer.headers["cache-control"] == "no-store"
        assert server["credential"] == turn_credentials("shared", int(expiry), "client").password
        session = offer(own)
        viewer = own.client.post(f"/stream/whep/{session}", content="v=0", headers={"Content-Type": "application/sdp"})
        assert f'; username="{expiry[:-3]}' in viewer.headers["link"] and "shared" not in viewer.headers["link"]


def test_pcm_reader_refuses_what_it_cannot_read() -> None:
    for rate, channels, field in ((7_999, 1, "sample_rate"), (192_001, 1, "sample_rate"), (16_000, 3, "channels")):
        with pytest.raises(InvalidInputError) as caught:
            PcmReader(rate, channels)
        assert caught.value.field == field
    assert len(PcmReader(16_000, 2).push(b"\x01\x02\x03")) == 0


def test_a_session_expresses_what_is_asked_for(served: Served) -> None:
    session = offer(served, expression="joy", strength=0.5)
    (look,) = served.host.live.sessions[session].offer.looks.looks
    assert (look.expression, look.strength, look.at_s) == ("happy", 0.5, 0.0) and look.rise_s > 0
    post, path = served.client.post, f"/stream/webrtc/{session}/express"
    timeline = [{"at_s": 1, "expression": "sad"}]
    assert post(path, json={"gaze": [0.5, 0], "expressions": timeline}).json() == {"at_s": 1.28}
    (asked,) = served.host.live.sessions[session].looks
    assert [(one.at_s, one.gaze, one.expression) for one in asked.looks] == [
        (0.0, (0.5, 0.0), None),
        (1.0, None, "sad"),
    ]
    assert_problem(post(path, json={}), 422, "invalid_input", "expression")
    assert_problem(post(path, json={"expression": "bored"}), 422, "invalid_input", "expression")
    assert_problem(post(path, json={"expressions": [{"at_s": 1}]}), 422, "invalid_input", "expressions[0].expression")
    assert_problem(post(path, data={"expression": "sad"}), 415, "unsupported_content_type")
    assert_problem(post("/stream/webrtc/nobody/express", json={"energy": 0}), 404, "session_not_found")
