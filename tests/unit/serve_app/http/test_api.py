"""Presenters, results, health, metrics, OpenAPI, headers, request ids, and cross-origin rules."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog

from deployments.host.avatars import gallery_of
from pipeline.gallery.pictures import NAMES
from pipeline.media.results.store import TOMBSTONE_S
from serve_app.http.api import create_api
from serve_app.http.files.byte_range import byte_range
from serve_app.http.metrics import SPECS
from serve_app.http.problems.errors import RangeError
from serve_app.http.problems.kinds import KINDS
from tests.support.fake_live_host import FakeLiveHost
from tests.support.http_server import (
    InProcessHost,
    Served,
    api_settings,
    assert_problem,
    running,
    serving,
    small_avatar,
    wait_for,
    wav,
)
from tests.support.in_process_jobs import InProcessJobs
from tests.support.paths import ROOT


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("http")) as one:
        yield one


# presenters


def test_the_life_of_a_presenter(served: Served) -> None:
    served.host.register = lambda data, name: small_avatar(name, 170)
    answer = served.client.post("/avatars", files={"file": ("Anna Example.jpg", b"p")}, data={"name": "Anna"})
    assert answer.status_code == 201
    made = answer.json()
    assert answer.headers["location"] == f"/avatars/{made['avatar_id']}"
    assert (made["name"], made["family"], made["width"], made["height"]) == ("Anna", "mini", 128, 160)
    assert served.client.get(answer.headers["location"]).json() == made
    listed = served.client.get("/avatars").json()["avatars"]
    assert listed[0]["is_default"] and made in listed and len(listed) == 2
    assert served.client.get(f"/avatars/{listed[0]['avatar_id']}").json() == listed[0]
    preview = served.client.get(made["preview_url"])
    assert preview.headers["content-type"] == "image/jpeg" and preview.content.startswith(b"\xff\xd8")
    again = served.client.get(made["preview_url"], headers={"If-None-Match": preview.headers["etag"]})
    assert again.status_code == 304 and not again.content
    assert served.client.delete(answer.headers["location"]).status_code == 204
    for method, path in (("GET", ""), ("GET", "/preview.jpg"), ("DELETE", "")):
        assert_problem(
            served.client.request(method, answer.headers["location"] + path), 404, "avatar_not_found", "avatar_id"
        )


def test_the_gallery_is_listed_and_its_names_are_taken_for_ids(tmp_path: Path) -> None:
    with serving(tmp_path) as one:
        one.host.make_gallery = lambda: gallery_of(one.host.store, "mini")
        listed = {row["name"]: row for row in one.client.get("/avatars").json()["avatars"]}
        assert set(NAMES) <= set(listed)
        assert one.client.get(listed["Mei"]["preview_url"]).content.startswith(b"\xff\xd8")
        spoken = one.client.post("/v1/videos", files={"audio": wav(0.5)}, data={"avatar_id": "salma"})
        assert spoken.status_code == 202, spoken.text
        assert one.client.get(spoken.headers["location"]).json()["avatar_id"] == listed["Salma"]["avatar_id"]
        answer = one.client.post("/v1/videos", files={"audio": wav(0.5)}, data={"avatar_id": "Nobody"})
        assert answer.status_code == 422


@pytest.mark.parametrize(
    ("filename", "name", "kept"),
    [
        ("Anna Example.jpg", "", "Anna Example"),
        ("../../etc/passwd.png", "", "passwd"),
        ("C:\\Users\\me\\face.png", "", "face"),
        ("noending", "", ""),
        ("x.png", "  two \t\n lines ", "two lines"),
        ("x.png", "a\u202eb\x07c", "a b c"),
        ("x.png", "<b>bold</b>", "b bold /b"),
        ("x.png", "é" * 300, "é" * 200),
        ("x.png", "小さな顔 🙂", "小さな顔 🙂"),
    ],
)
def test_names_are_harmless(served: Served, filename: str, name: str, kept: str) -> None:
    served.host.register = lambda data, name: small_avatar("fixed", 171)
    answer = served.client.post("/avatars", files={"file": (filename, b"p")}, data={"name": name} if name else {})
    assert answer.status_code == 201
    assert served.host.registered[-1] == (b"p", kept)


def test_a_picture_that_comes_again_without_a_name_keeps_the_one_it_has(served: Served) -> None:
    served.host.register = lambda data, name: small_avatar(name, 172)

    def registered(filename: str, **fields: str) -> str:
        answer = served.client.post("/avatars", files={"file": (filename, b"p")}, data=fields)
        return str(answer.json()["name"])

    assert registered("IMG_1.jpg") == "IMG_1"
    assert registered("IMG_2.jpg", name="Anna") == "Anna"
    assert registered("IMG_3.jpg") == "Anna"
    assert registered("IMG_3.jpg", name="Berta") == "Berta"


def test_avatars_name_their_own_fields(served: Served) -> None:
    assert_problem(
        served.client.post("/avatars", data={"name": "x"}, files={"other": b"1"}), 422, "unknown_field", "other"
    )
    assert_problem(served.client.post("/avatars", files={"audio": b"1"}), 422, "unknown_field", "audio")
    assert_problem(served.client.post("/avatars", json={"file": "x"}), 415, "unsupported_content_type", "Content-Type")
    for bad in ("nope", "A" * 32, "%2e%2e", "..%2f..%2fsecret", "0" * 33):
        assert served.client.get(f"/avatars/{bad}").status_code == 404


def test_a_presenter_s_name_works_where_its_id_does(tmp_path: Path) -> None:
    with serving(tmp_path) as one:
        shades = iter(range(100, 110))
        one.host.register = lambda data, name: small_avatar(name, next(shades))
        ids = {}
        for name in ("Anna", "Berta", "berta"):
            made = one.client.post("/avatars", files={"file": b"p"}, data={"name": name}).json()
            ids.setdefault(name.casefold(), []).append(made["avatar_id"])
        answer = one.client.post("/generate", files={"audio": wav(0.2)}, data={"avatar_id": " anna "})
        assert (answer.status_code, answer.headers["x-avatar-id"]) == (200, ids["anna"][0])
        several = one.client.post("/generate", files={"audio": wav(0.2)}, data={"avatar_id": "Berta"})
        found = assert_problem(several, 422, "invalid_input", "avatar_id")
        assert all(one_id in found["allowed"] for one_id in ids["berta"])
        assert_problem(
            one.client.post("/generate", files={"audio": wav(0.2)}, data={"avatar_id": "Carla"}),
            422,
            "invalid_input",
            "avatar_id",
        )


def test_there_are_only_so_many_presenters(tmp_path: Path) -> None:
    with serving(tmp_path, max_avatars=2) as one:
        one.host.register = lambda data, name: small_avatar(name, 100 + len(one.host.registered))
        assert one.client.post("/avatars", files={"file": b"p"}).status_code == 201
        found = assert_problem(one.client.post("/avatars", files={"file": b"p"}), 507, "avatars_full")
        assert "DELETE /avatars" in found["detail"]
        assert_problem(one.client.post("/generate", files={"audio": wav(), "portrait": b"p"}), 507, "avatars_full")
        assert one.generate().status_code == 200
        assert len(one.host.registered) == 1


def test_presenters_are_bounded_in_bytes(tmp_path: Path) -> None:
    with serving(tmp_path, max_avatars_bytes=2**20) as one:
        shades = iter(range(100, 200))
        one.host.register = lambda data, name: small_avatar(name, next(shades))
        for _ in range(100):
            answer = one.client.post("/avatars", files={"file": b"p"})
            if answer.status_code != 201:
                break
        assert_problem(answer, 507, "avatars_full")
        sizes = [found.size_bytes for found in one.host.store.list()]
        files = (file for file in (tmp_path / "avatars").rglob("*") if file.is_file())
        assert sum(sizes) == sum(file.stat().st_size for file in files)
        assert 2**20 <= sum(sizes) < 2**20 + 2 * max(sizes)


# results


def test_ranges_of_a_result(served: Served) -> None:
    url = served.generate(path="/api/generate").json()["url"]
    whole = served.client.get(url)
    assert whole.status_code == 200 and whole.headers["accept-ranges"] == "bytes"
    assert "immutable" in whole.headers["cache-control"]
    data, size = whole.content, len(whole.content)
    for header, expected in (("bytes=0-99", data[:100]), ("bytes=100-", data[100:]), ("bytes=-50", data[-50:])):
        part = served.client.get(url, headers={"Range": header})
        assert part.status_code == 206 and part.content == expected
        start = data.index(expected) if header != "bytes=-50" else size - 50
        assert part.headers["content-range"] == f"bytes {start}-{start + len(expected) - 1}/{size}"
    head = served.client.head(url)
    assert head.status_code == 200 and int(head.headers["content-length"]) == size and not head.content
    outside = served.client.get(url, headers={"Range": f"bytes={size}-"})
    assert_problem(outside, 416, "range_not_satisfiable", "Range")
    assert outside.headers["content-range"] == f"bytes */{size}"
    tag = whole.headers["etag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        assert served.client.get(url, headers={"If-None-Match": known}).status_code == 304
    assert served.client.get(url, headers={"If-None-Match": f'"other", {tag[1:-1]}'}).status_code == 200
    for part in ("bytes=0-9", f"bytes={size}-"):
        head = served.client.head(url, headers={"Range": part})
        assert head.status_code == 200 and int(head.headers["content-length"]) == size, "ranges are for GET alone"
    assert served.client.get(url, headers={"Range": "bytes=0-9", "If-Range": tag}).status_code == 206
    assert served.client.get(url, headers={"Range": "bytes=0-9", "If-Range": '"other"'}).status_code == 200


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None), ("", None), ("bytes=0-0", (0, 1)), ("bytes=5-", (5, 10)), ("bytes=-3", (7, 10)), ("bytes=-99", (0, 10)),
        ("bytes=2-999", (2, 10)), ("bytes=0-1,4-5", None), ("items=0-1", None), ("bytes=5-2", None), ("bytes=-", None),
        ("bytes=a-b", None), ("bytes=" + "9" * 50 + "-", None), ("bytes=٠-١", None), ("bytes=10-", "outside"),
        ("bytes=-0", "outside"), ("BYTES=2-3", (2, 4)), ("bytes=999999999999999999-", "outside"),
    ],
)  # fmt: skip
def test_byte_range(header: str | None, expected: Any) -> None:
    if expected == "outside":
        with pytest.raises(RangeError):
            byte_range(header, 10)
    else:
        assert byte_range(header, 10) == expected


def test_results_expire_then_are_forgotten(tmp_path: Path) -> None:
    now = [1_800_000_000.0]
    settings = api_settings(results=str(tmp_path / "r"), results_ttl_s=60)
    host = InProcessHost(tmp_path)
    jobs = InProcessJobs(tmp_path, host, settings)
    api = create_api(host, FakeLiveHost(), settings, wall_clock=lambda: now[0], jobs=jobs)
    with running(api) as port, httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
        found = client.post("/api/generate", files={"audio": wav()}).json()
        assert found["expires_at"] == "2027-01-15T08:01:00Z"
        assert client.get(found["url"]).status_code == 200
        now[0] += 61
        for _ in range(2):
            assert_problem(client.get(found["url"]), 410, "result_expired", "id")
        now[0] += TOMBSTONE_S
        assert_problem(client.get(found["url"]), 404, "result_not_found", "id")
    for bad in ("x", "0" * 32):
        with running(api) as port:
            assert_problem(
                httpx.get(f"http://127.0.0.1:{port}/results/{bad}", timeout=60), 404, "result_not_found", "id"
            )


# operations


def test_health_and_readiness(served: Served) -> None:
    assert served.client.get("/healthz").json() == {"status": "ok"}
    assert served.client.get("/readyz").json() == {"status": "ready"}
    assert served.client.head("/healthz").status_code == served.client.head("/readyz").status_code == 200
    served.host.is_ready = False
    assert served.client.head("/readyz").status_code == 503
    assert_problem(served.client.get("/readyz"), 503, "not_ready")
    assert served.client.get("/healthz").status_code == 200
    served.host.is_ready = True
    assert set(served.client.get("/version").json()) == {"name", "version"}


def test_metrics_count_what_happened(tmp_path: Path) -> None:
    with serving(tmp_path) as one:
        one.generate()
        one.generate(fps=30)
        one.client.get("/nowhere/secret-token")
        metrics = one.api.state.services.metrics
        for method, route, status in (
            ("POST", "/generate", "200"),
            ("POST", "/generate", "422"),
            ("GET", "unknown", "404"),
        ):  # counted when they have ended
            labels = {"method": method, "route": route, "status": status}
            wait_for(lambda labels=labels: metrics.value("liveanchor_http_requests_total", **labels) == 1)
        text = one.client.get("/metrics").text
    assert 'liveanchor_http_requests_total{method="POST",route="/generate",status="200"} 1.0' in text
    assert 'liveanchor_http_requests_total{method="POST",route="/generate",status="422"} 1.0' in text
    assert 'liveanchor_http_requests_total{method="GET",route="unknown",status="404"} 1.0' in text
    assert 'liveanchor_http_problems_total{code="invalid_input"} 1.0' in text
    assert "liveanchor_http_jobs_active 0.0" in text
    assert "liveanchor_videos_waiting 0.0" in text and "liveanchor_videos_waiting_s 0.0" in text
    assert 'liveanchor_jobs_ended_total{outcome="finished",replica="host-1"} 1.0' in text
    assert 'liveanchor_stage_frames_total{replica="r-1",stage="renderer"} 24.0' in text
    assert 'liveanchor_stage_dropped_total{reason="cancelled",replica="r-1",stage="renderer"} 1.0' in text
    for end, count in (("10", 1), ("100", 2), ("+Inf", 2)):
        assert f'liveanchor_stage_wait_ms_bucket{{le="{end}",replica="r-1",stage="renderer"}} {count}.0' in text
    assert 'liveanchor_stage_wait_ms_count{replica="r-1",stage="renderer"} 2.0' in text
    assert 'liveanchor_stage_wait_ms_sum{replica="r-1",stage="renderer"} 60.5' in text
    for name in ("batch_size", "batch_ms"):
        assert f'liveanchor_stage_{name}_count{{replica="r-1",stage="renderer"}} 0.0' in text
    assert "secret-token" not in text
    names = re.findall(r"^# TYPE (\S+)", text, re.MULTILINE)
    assert len(names) == len(set(names)), "no metric is exported twice"


def test_a_mirror_hears_every_metric(tmp_path: Path) -> None:
    heard: list[tuple[str, float, dict[str, str]]] = []

    class Mirror:
        def changed(self, spec: Any, value: float, labels: Any) -> None:
            assert set(labels) == set(spec.labels)
            heard.append((spec.name, value, dict(labels)))

    host, settings = InProcessHost(tmp_path), api_settings(results=str(tmp_path))
    api = create_api(host, FakeLiveHost(), settings, Mirror(), jobs=InProcessJobs(tmp_path, host, settings))
    with running(api) as port:
        httpx.post(f"http://127.0.0.1:{port}/generate", files={"audio": wav()}, timeout=60)
        httpx.post(f"http://127.0.0.1:{port}/generate", files={"audio": b"x"}, timeout=60)
    assert {name for name, _, _ in heard} == {spec.name for spec in SPECS} - {"liveanchor_http_cancelled"}


def _exported_names() -> set[str]:
    """Everything that Ray's exporter can show of ours, as it spells it."""
    kinds = {spec.name: spec.kind for spec in SPECS}
    for path in (ROOT / "deployments").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        found = re.findall(r'metrics\.(Counter|Gauge|Histogram)\(\s*"(liveanchor_\w+)"', source)
        kinds |= {name: kind.lower() for kind, name in found}
    endings = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
    return {f"ray_{name}{ending}" for name, kind in kinds.items() for ending in endings[kind]}


def test_the_dashboard_uses_names_that_are_exported() -> None:
    text = (ROOT / "docs" / "grafana.json").read_text(encoding="utf-8")
    used, known = set(re.findall(r"ray_liveanchor_[a-z_]+", text)), _exported_names()
    assert used <= known, used - known
    unshown = {name for name in known - used if not name.endswith(("_sum", "_count"))}
    assert unshown <= {"ray_liveanchor_stage_batch_size_bucket"}
    panels = json.loads(text)["panels"]
    assert all(panel["title"] and (panel["type"] == "row" or panel["targets"]) for panel in panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)


# errors


def test_wrong_addresses_and_methods(served: Served) -> None:
    for path in ("/nope", "/avatars/", "/static/../secrets", "/static/nope.js", "/results", "/%00", "/jobs"):
        found = served.client.get(path)
        assert_problem(found, 404)
    refused = served.client.get("/generate")
    assert_problem(refused, 405, "method_not_allowed")
    assert refused.headers["allow"] == "POST" and "POST" in refused.json()["detail"]
    written = served.client.post("/static/app.js")
    assert_problem(written, 405, "method_not_allowed")
    assert written.headers["allow"] == "GET, HEAD"
    metrics = served.api.state.services.metrics
    assert metrics.value("liveanchor_http_problems_total", code="method_not_allowed") >= 2
    one = f"/avatars/{'0' * 32}"
    for path, methods in (("/avatars", "GET, HEAD, POST"), (one, "DELETE, GET, HEAD"), ("/healthz", "GET, HEAD")):
        assert served.client.put(path).headers["allow"] == methods, path
    for path in ("/avatars", "/version", "/metrics", "/jobs/a-job-1", "/problems/not_found", "/", "/openapi.json"):
        head = served.client.head(path)
        assert head.status_code == 200 and not head.content and int(head.headers["content-length"]) > 0, path
    assert served.client.head(one).status_code == 404
    for method in ("PUT", "PATCH", "OPTIONS", "TRACE"):
        assert_problem(served.client.request(method, "/healthz"), 405, "method_not_allowed")


def test_the_unforeseen_is_a_500_that_tells_nothing(served: Served) -> None:
    served.host.failure = RuntimeError("password=hunter2 /srv/secret")
    try:
        with structlog.testing.capture_logs() as logs:
            answer = served.client.post("/generate", files={"audio": wav()}, headers={"X-Request-Id": "trace-me-0001"})
    finally:
        served.host.failure = None
    found = assert_problem(answer, 500, "internal_error")
    assert found["request_id"] == "trace-me-0001" and "hunter2" not in answer.text
    [log] = [entry for entry in logs if entry["event"] == "unforeseen"]
    assert log["kind"] == "RuntimeError" and "generate" in log["where"] and "hunter2" not in str(logs)
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_problem_types_can_be_looked_up(served: Served) -> None:
    found = served.client.get("/problems/audio_unreadable").json()
    assert found["status"] == 422 and found["type"] == "/problems/audio_unreadable"
    every = served.client.get("/problems").json()["problems"]
    assert {one["type"].removeprefix("/problems/") for one in every} == set(KINDS) and found in every
    assert all(one["detail"].endswith((".", ")")) and len(one["detail"]) > 30 for one in every)
    assert_problem(served.client.get("/problems/nope"), 404)


# around every request


@pytest.mark.parametrize("path", ["/", "/docs", "/healthz", "/nope", "/static/app.js", "/openapi.json", "/avatars"])
def test_every_answer_has_the_common_headers(served: Served, path: str) -> None:
    headers = served.client.get(path).headers
    assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"
    assert (
        headers["referrer-policy"] == "no-referrer" and "frame-ancestors 'none'" in headers["content-security-policy"]
    )
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] in ("no-store", "no-cache")
    assert len(headers.get_list("x-request-id")) == 1
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    ("wanted", "accepted"),
    [
        ("abcdefgh", True), ("A-b_c.d-1234", True), ("0" * 64, True),
        ("short", False), ("x" * 65, False), ("a b c d e f", False), ("../../etc/passwd", False), ("-starts-bad", False),
        ("<script>alert(1)</script>", False), ("", False),
    ],
)  # fmt: skip
def test_request_ids(served: Served, wanted: str, accepted: bool) -> None:
    answer = served.client.get("/healthz", headers={"X-Request-Id": wanted})
    given = answer.headers["x-request-id"]
    assert (given == wanted) == accepted
    assert re.fullmatch(r"[A-Za-z0-9._-]{8,64}", given)


def test_behind_a_proxy_that_echoes_the_id_it_comes_once(tmp_path: Path) -> None:
    with serving(tmp_path, proxy_echoes_request_id=True) as one:
        assert "x-request-id" not in one.client.get("/healthz").headers
        answer = one.client.get("/nope", headers={"X-Request-Id": "my-request-1"})
        assert answer.json()["request_id"] == "my-request-1"


def test_other_origins_only_when_configured(served: Served, tmp_path: Path) -> None:
    preflight = {"Origin": "https://news.example", "Access-Control-Request-Method": "POST"}
    assert served.client.options("/generate", headers=preflight).status_code == 405
    with serving(tmp_path, cors_origins=["https://news.example"]) as one:
        allowed = one.client.options("/generate", headers=preflight)
        assert allowed.status_code == 200 and allowed.headers["access-control-allow-origin"] == "https://news.example"
        answer = one.client.get("/nope", headers={"Origin": "https://news.example"})
        assert answer.headers["access-control-allow-origin"] == "https://news.example"
        assert "X-Frames" in answer.headers["access-control-expose-headers"]
        assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
        other = one.client.get("/healthz", headers={"Origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers


def test_logs_hold_no_content(tmp_path: Path) -> None:
    with serving(tmp_path) as one, structlog.testing.capture_logs() as logs:
        api = create_api(one.host, one.host.live, api_settings(results=str(tmp_path)), jobs=one.jobs)
        with running(api) as port:
            url = f"http://127.0.0.1:{port}"
            with httpx.Client(base_url=url, timeout=60) as client:
                client.post("/generate?token=s3cret", files={"audio": ("private-name.wav", b"private-speech")})
                client.get("/results/private-id", headers={"Authorization": "Bearer s3cret"})
    assert {entry["route"] for entry in logs if entry["event"] == "request"} == {"/generate", "/results/{result_id}"}
    text = str(logs)
    for secret in ("s3cret", "private"):
        assert secret not in text
    assert logging.getLogger("uvicorn.access").name


# OpenAPI


def test_openapi_is_complete(served: Served) -> None:
    spec = served.client.get("/openapi.json").json()
    assert {"/generate", "/api/generate", "/results/{result_id}", "/avatars", "/healthz", "/metrics"} <= set(
        spec["paths"]
    )
    assert {"type", "title", "status", "detail", "request_id"} <= set(
        spec["components"]["schemas"]["Problem"]["required"]
    )
    assert not {"HTTPValidationError", "ValidationError"} & set(spec["components"]["schemas"])
    body = spec["paths"]["/generate"]["post"]["requestBody"]["content"]
    assert set(body) == {"multipart/form-data", "application/json"} and body["multipart/form-data"]["examples"]
    assert body["application/json"]["schema"]["properties"]["fps"]["enum"] == [25, 50, 59.94]
    stream = {
        path: spec["paths"][path]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]["properties"][
            "stream"
        ]
        for path in ("/generate", "/api/generate")
    }
    assert "plays while it is made" in stream["/generate"]["description"]
    assert "plays" not in stream["/api/generate"]["description"]
    tags = {one["name"] for one in spec["tags"]}
    assert tags == {tag for path in spec["paths"].values() for one in path.values() for tag in one["tags"]}
    assert all(one["description"] for one in spec["tags"])
    ids = [operation["operationId"] for path in spec["paths"].values() for operation in path.values()]
    assert len(set(ids)) == len(ids)
    for path in spec["paths"].values():
        for operation in path.values():
            assert operation["summary"]
            for status, answer in operation["responses"].items():
                if int(status) >= 400:
                    content = answer["content"]["application/problem+json"]
                    assert content["schema"] == {"$ref": "#/components/schemas/Problem"}
                    assert content["example"]["status"] == int(status)
    for path, method, code in (
        ("/avatars/{avatar_id}", "get", "avatar_not_found"),
        ("/results/{result_id}", "get", "result_not_found"),
        ("/stream/webrtc/{session_id}", "delete", "session_not_found"),
    ):
        answers = spec["paths"][path][method]["responses"]
        assert answers["404"]["description"] == KINDS[code].title
    text = json.dumps(spec)
    for reference in re.findall(r'"#/components/schemas/(\w+)"', text):
        assert reference in spec["components"]["schemas"]
