"""Nobody gets in: every route with no key, a wrong one, one without the scope; forged headers, addresses and tokens."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from starlette.routing import Mount, Route, WebSocketRoute
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from serve_app.access.keys import SCOPES, Scope, new_key_text
from serve_app.http.access.rules import RULES, scopes_for
from serve_app.http.problems.errors import KeyInvalidError
from tests.support.http_server import Served, assert_problem, serving, wait_for, wav
from tests.support.keys import Keyed, keyed

OPEN = {
    "/", "/live", "/talk", "/watch/{session_id}", "/docs", "/favicon.ico", "/openapi.json", "/healthz", "/readyz", "/version",
    "/problems", "/problems/{code}",
}  # fmt: skip
"""Addresses that a stranger may read: pages, health, and what errors mean."""
SDP = "v=0\r\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keyed]:
    with keyed(tmp_path_factory.mktemp("keyed"), requests_per_minute=0, offers_per_minute=0) as one:
        yield one


def routes(served: Served) -> list[tuple[str, str]]:
    """(method, address) of everything that the application answers, its mounted files apart."""
    groups = [getattr(route, "original_router", None) for route in served.api.routes]
    single = [route for group in groups if group is not None for route in group.routes]
    single += [route for route, group in zip(served.api.routes, groups, strict=True) if group is None]
    assert len(single) >= 40
    for route in single:
        assert isinstance(route, Route | WebSocketRoute | Mount)
    return sorted(
        (method, route.path) for route in single if isinstance(route, Route) for method in route.methods or ()
    )


def filled(path: str) -> str:
    return path.replace("{", "").replace("}", "")


def test_every_route_is_shut_but_the_ones_named_here(service: Keyed) -> None:
    refused = 0
    for method, path in routes(service.served):
        answer = service.served.client.request(method, filled(path))
        if method == "OPTIONS" or (path in OPEN and method in ("GET", "HEAD")):
            assert answer.status_code in (200, 404), (method, path)
            continue
        assert answer.status_code == 401, (method, path)
        assert answer.headers["www-authenticate"] == 'Bearer realm="liveanchor"'
        if method != "HEAD":
            assert_problem(answer, 401, "key_missing", "Authorization")
        refused += 1
    assert refused >= 25


def test_every_route_has_a_rule_of_its_own(service: Keyed) -> None:
    """What no rule names is for admins; a new route of another kind must get a line."""
    ruled = {path for _, path in routes(service.served) if any(rule.fits(filled(path), "GET") for rule in RULES)}
    posted = {path for _, path in routes(service.served) if any(rule.fits(filled(path), "POST") for rule in RULES)}
    assert {path for _, path in routes(service.served)} - ruled - posted == {"/metrics"}
    assert scopes_for("/anything/new", "GET") == ("admin",)


@pytest.mark.parametrize(
    "header",
    [
        "Bearer", "bearer x", "Basic dXNlcjpwYXNz", "Bearer la_key_", "Bearer null", "Token {key}", "{key}", "Bearer{key}",
        "Bearer {key}, Bearer {key}", "Bearer {key} {key}", "Bearer {key}x", "Bearer la_tok_{key}", "Bearer {other}",
        "Bearer {id}",
        "Digest {key}", "Bearer la_tok_e30.AAAA", "Bearer " + "A" * 6000,
    ],
)  # fmt: skip
def test_what_is_no_key_opens_nothing(service: Keyed, header: str) -> None:
    key, text = service.key("admin")
    value = header.format(key=text, other=new_key_text(), id=key.key_id)
    answer = service.served.client.get("/avatars", headers={"Authorization": value})
    found = assert_problem(answer, 401, "key_invalid", "Authorization")
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
    assert text not in json.dumps(found) and text not in str(answer.headers)


def test_a_key_elsewhere_than_in_its_header_opens_nothing(service: Keyed) -> None:
    _, text = service.key("admin")
    for place in (
        {"params": {"access_token": text}}, {"params": {"api_key": text}}, {"cookies": {"Authorization": f"Bearer {text}"}},
        {"headers": {"X-Authorization": f"Bearer {text}"}}, {"headers": {"X-Forwarded-User": "admin",
        "X-Forwarded-For": "127.0.0.1"}},
    ):  # fmt: skip
        answer = httpx.get(f"{service.served.client.base_url}/avatars", **place)  # type: ignore[arg-type]
        assert answer.status_code == 401
    two = [("Authorization", f"Bearer {text}"), ("Authorization", f"Bearer {text}")]
    assert service.served.client.get("/avatars", headers=two).status_code == 401
    lower = service.served.client.get("/avatars", headers={"authorization": f"bEaReR   {text}"})
    assert lower.status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "//generate", "/generate/", "/Generate", "/%67enerate", "/static/../generate", "/static/%2e%2e/generate",
        "/problems/../generate",
        "/problems/..%2fmetrics", "/healthz/../metrics", "/metrics/", "/metrics%20", "/metrics%00",
        "/live/../stream/webrtc/stats",
        "/docs/../avatars", "/;/metrics", "/openapi.json/../avatars", "/v1/videos", "/v1/videos/x", "/admin", "/-/routes",
    ],
)  # fmt: skip
def test_spellings_of_addresses_are_no_way_around(service: Keyed, path: str) -> None:
    """Sent by hand, since clients tidy addresses up."""
    import socket

    with socket.create_connection(("127.0.0.1", service.served.port), timeout=30) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        status = int(raw.makefile("rb").readline().split()[1])
    assert status in (401, 404), path
    if status == 404:
        assert path.startswith(("/static/", "/problems/"))


SCOPED = (
    ("POST", "/generate", "generate"), ("POST", "/api/generate", "generate"), ("GET", "/jobs/x", "generate"),
    ("GET", "/results/x", "generate"), ("GET", "/v1/videos", "generate"), ("POST", "/avatars", "avatars"),
    ("DELETE", f"/avatars/{'0' * 32}", "avatars"), ("POST", "/stream/webrtc/offer", "live"),
    ("GET", "/stream/webrtc/stats", "live"),
    ("GET", "/stream/webrtc/ice-servers", "live"), ("POST", f"/stream/whep/{'0' * 32}", "live"), ("GET", "/metrics", "admin"),
)  # fmt: skip


@pytest.mark.parametrize(("method", "path", "scope"), SCOPED)
def test_a_key_does_what_its_scopes_say_and_nothing_else(service: Keyed, method: str, path: str, scope: Scope) -> None:
    for mine in SCOPES:
        answer = service.client(mine).request(method, path)
        if mine in (scope, "admin"):
            assert answer.status_code not in (401, 403), (mine, answer.text)
            continue
        found = assert_problem(answer, 403, "scope_missing", "Authorization")
        assert found["missing_scope"] == scope
        assert answer.headers["www-authenticate"].endswith(f'error="insufficient_scope", scope="{scope}"')


@pytest.mark.parametrize("scope", ["generate", "live", "avatars", "admin"])
def test_every_key_may_see_who_can_speak(service: Keyed, scope: Scope) -> None:
    client = service.client(scope)
    listed = client.get("/avatars").json()["avatars"]
    assert client.get(listed[0]["preview_url"]).status_code == 200


def test_a_refused_upload_is_not_read(service: Keyed) -> None:
    import socket

    with socket.create_connection(("127.0.0.1", service.served.port), timeout=30) as raw:
        raw.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 200000000\r\n\r\n")
        assert b" 401 " in raw.makefile("rb").readline()


def test_revoked_and_expired_keys(service: Keyed) -> None:
    key, text = service.key("generate")
    client = service.showing(text)
    token = client.post("/auth/token").json()["token"]
    assert client.get("/avatars").status_code == 200
    service.keys.revoke(key.key_id)
    wait_for(lambda: client.get("/avatars").status_code == 401)
    assert_problem(service.showing(token).get("/avatars"), 401, "key_invalid")
    _, short = service.key("generate", valid_s=0.0)
    assert_problem(service.showing(short).get("/avatars"), 401, "key_invalid")


def test_keys_are_exchanged_for_tokens(service: Keyed) -> None:
    client = service.client("generate", "live")
    answer = client.post("/auth/token", json={"scopes": ["live", "avatars"], "expires_in_s": 90})
    found = answer.json()
    assert answer.status_code == 200 and found["scopes"] == ["live"] and 88 <= found["expires_in_s"] <= 90
    assert answer.headers["cache-control"] == "no-store"
    holder = service.showing(found["token"])
    assert holder.get("/stream/webrtc/stats").status_code == 200
    assert_problem(holder.get("/jobs/x"), 403, "scope_missing")
    assert holder.post("/auth/token").json()["scopes"] == ["live"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"[]", 400, "body_malformed"), (b"{", 400, "body_malformed"), (b'{"scope": "live"}', 422, "unknown_field"),
        (b'{"scopes": []}', 422, "invalid_input"), (b'{"scopes": "live"}', 422, "invalid_input"),
        (b'{"scopes": [1]}', 422, "invalid_input"),
        (b'{"scopes": ["root"]}', 422, "invalid_input"), (b'{"expires_in_s": 1e9}', 422, "invalid_input"),
        (b'{"expires_in_s": -5}', 422, "invalid_input"), (b'{"expires_in_s": true}', 422, "invalid_input"),
        (b'{"scopes": null, "scopes": null}', 422, "duplicate_field"), (b" " * 5000, 413, "body_too_large"),
    ],
)  # fmt: skip
def test_odd_requests_for_tokens(service: Keyed, body: bytes, status: int, code: str) -> None:
    client = service.client("live")
    answer = client.post("/auth/token", content=body, headers={"Content-Type": "application/json"})
    assert_problem(answer, status, code)


def test_websockets_are_refused_before_they_are_accepted(service: Keyed) -> None:
    session = service.client("live").post("/stream/webrtc/offer", json={"sdp": SDP, "drive": "push"}).json()
    address = f"ws://127.0.0.1:{service.served.port}{session['audio_url']}"
    _, wrong = service.key("generate")
    _, stranger = service.key("live")
    tries: list[dict[str, Any]] = [
        {}, {"additional_headers": {"Authorization": f"Bearer {new_key_text()}"}},
        {"additional_headers": {"Authorization": f"Bearer {wrong}"}},
        {"additional_headers": {"Authorization": f"Bearer {stranger}"}}, {"subprotocols": ["liveanchor", "bearer.nothing"]},
        {"subprotocols": ["liveanchor"]}, {"subprotocols": [f"bearer.{wrong}"]},
    ]  # fmt: skip
    for one in tries:
        with pytest.raises(InvalidStatus) as found, connect(address, **one):
            pass
        assert found.value.response.status_code == 403, one


def test_a_browser_s_websocket_shows_its_token_as_a_subprotocol(service: Keyed) -> None:
    client = service.client("live")
    session = client.post("/stream/webrtc/offer", json={"sdp": SDP, "drive": "push"}).json()
    token = client.post("/auth/token").json()["token"]
    address = f"ws://127.0.0.1:{service.served.port}{session['audio_url']}"
    with connect(address, subprotocols=["liveanchor", f"bearer.{token}"]) as socket:  # type: ignore[list-item]
        assert socket.subprotocol == "liveanchor", "the token does not come back"
        socket.send(b"\0\0" * 160)
        socket.send('{"type": "interrupt"}')
        assert json.loads(socket.recv(timeout=30))["type"] == "interrupted"
    key = client.headers["Authorization"]
    with connect(address, additional_headers={"Authorization": key}) as socket:
        assert socket.subprotocol is None


def test_no_key_is_in_any_log_or_error(
    service: Keyed, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Every way in which a key or token comes, right, wrong and in the wrong place."""
    caplog.set_level(logging.DEBUG)
    for client in ("httpx", "httpcore"):  # what this test itself asks
        caplog.set_level(logging.WARNING, client)
    structlog.reset_defaults()  # writes to stdout whatever level it has
    _, right = service.key("live", "admin")
    wrong = new_key_text()
    token = service.showing(right).post("/auth/token").json()["token"]
    answers: list[httpx.Response] = []
    for text in (right, wrong, token, token[:-3] + "AAA"):
        client = service.showing(text)
        for path in (
            "/avatars",
            "/metrics",
            "/generate",
            "/results/x",
            f"/avatars/{text}",
            f"/results/{text}",
            f"/stream/webrtc/{text}/stats",
        ):
            answers += [client.get(path), client.post(path, content=text, headers={"X-Request-Id": text[:64]})]
        answers.append(client.post("/generate", files={"audio": wav(0.05)}, data={"avatar_id": text, "fps": text}))
        answers.append(client.post("/auth/token", json={"scopes": [text]}))
    shown = capsys.readouterr()
    logged = shown.out + shown.err + caplog.text
    assert "request_id" in logged, "something was logged"
    for text in (right, wrong):
        secret = text.removeprefix("la_key_")
        assert secret not in logged
    assert token.removeprefix("la_tok_") not in logged
    for answer in answers:
        if answer.status_code in (401, 403):
            assert right not in answer.text and wrong not in answer.text and token not in answer.text
            assert right not in str(answer.headers) and token not in str(answer.headers)


def test_a_damaged_file_of_keys_lets_nobody_in(tmp_path: Path) -> None:
    with keyed(tmp_path) as one:
        client = one.client("admin")
        assert client.get("/avatars").status_code == 200
        one.keys.path.write_text('{"signing_secret": "la_key_secret"}')
        wait_for(lambda: client.get("/avatars").status_code == 500)
        found = assert_problem(client.get("/avatars"), 500, "internal_error")
        assert "la_key" not in json.dumps(found) and str(tmp_path) not in json.dumps(found)
        assert one.served.client.get("/healthz").status_code == 200


def test_metrics_can_be_opened_and_count_refusals(tmp_path: Path) -> None:
    with keyed(tmp_path, open_metrics=True) as one:
        assert one.served.client.get("/avatars").status_code == 401
        metrics = one.served.client.get("/metrics")
        assert metrics.status_code == 200
        assert f'liveanchor_http_problems_total{{code="{KeyInvalidError.code}"}}' not in metrics.text
        assert 'liveanchor_http_problems_total{code="key_missing"} 1.0' in metrics.text


def test_cross_origin_pages_can_ask_first(tmp_path: Path) -> None:
    with keyed(tmp_path, cors_origins=("https://news.example",)) as one:
        asked = {
            "Origin": "https://news.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization",
        }
        assert one.served.client.options("/generate", headers=asked).status_code == 200
        refused = one.served.client.get("/avatars", headers={"Origin": "https://news.example"})
        assert refused.status_code == 401 and refused.headers["access-control-allow-origin"] == "https://news.example"


@pytest.mark.parametrize(
    ("required", "elsewhere", "needed"),
    [("auto", False, False), ("auto", True, True), ("always", False, True), ("never", True, False)],
)
def test_when_keys_are_needed(tmp_path: Path, required: str, elsewhere: bool, needed: bool) -> None:
    with serving(tmp_path, required=required, listens_elsewhere=elsewhere, file=str(tmp_path / "keys.json")) as one:
        assert one.client.get("/avatars").status_code == (401 if needed else 200)
        ignored = one.client.get("/avatars", headers={"Authorization": "Basic dXNlcjpwYXNz"})
        assert ignored.status_code == (401 if needed else 200), "a proxy in front has a header of its own"
        spec = one.client.get("/openapi.json").json()
        assert ("securitySchemes" in spec["components"]) is needed
        assert ("security" in spec["paths"]["/generate"]["post"]) is needed
        assert "security" not in spec["paths"]["/healthz"]["get"]
        assert ("/auth/token" in spec["paths"]) is needed
        if not needed:
            assert_problem(one.client.post("/auth/token"), 409, "keys_off")
