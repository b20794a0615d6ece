"""HTTP through Ray's proxy: ids, problem details, streaming, cancellation, presenters, results, exported metrics."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from pipeline.avatars.store import AvatarStore, avatars_dir
from pipeline.mini.registration import make_avatar
from tests.ray.graph import JOB_S, Graph, speech_wav, wait_for
from tests.support.faces import presenter
from tests.support.http_server import assert_problem, head_of

SHORT = speech_wav(0.6)


@pytest.fixture(scope="module")
def client(graph: Graph) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=graph.url, timeout=JOB_S) as one:
        yield one


def test_ids_come_once_and_errors_name_them(client: httpx.Client) -> None:
    answer = client.post("/generate", files={"audio": b"nonsense"}, headers={"X-Request-Id": "my-own-id-1"})
    assert answer.headers.get_list("x-request-id") == ["my-own-id-1"]
    assert_problem(answer, 422, "audio_unreadable", "audio")
    assert len(client.get("/healthz").headers.get_list("x-request-id")) == 1
    assert_problem(client.get("/nowhere"), 404, "not_found")
    assert client.get("/").text.startswith("<!doctype html>")


def test_a_finished_file_has_its_length_and_a_kept_one_has_ranges(client: httpx.Client) -> None:
    answer = client.post("/generate", files={"audio": SHORT}, data={"seed": "5"})
    assert answer.status_code == 200, answer.text
    assert int(answer.headers["content-length"]) == len(answer.content)
    kept = client.post("/api/generate", files={"audio": SHORT}, data={"seed": "5"}).json()
    assert client.get(kept["url"]).content == answer.content
    part = client.get(kept["url"], headers={"Range": "bytes=4-7"})
    assert part.status_code == 206 and part.content == b"ftyp"


def test_a_text_is_spoken_by_the_embedded_voice(client: httpx.Client) -> None:
    pytest.importorskip("hibari")
    found = client.post("/api/generate", json={"prompt": "Good evening.", "seed": 5})
    assert found.status_code == 200, found.text
    facts = found.json()
    assert 0.5 < facts["duration_s"] < 1.5 and "\nGood evening.\n" in facts["captions"]
    assert client.get(facts["url"]).content[4:8] == b"ftyp"
    nothing = client.post("/generate", json={"prompt": "\u4f60\u597d\u3002"})
    assert_problem(nothing, 502, "voice_failed")


def test_presenters(client: httpx.Client) -> None:
    default = client.get("/avatars").json()["avatars"][0]
    assert default["is_default"] and client.get(default["preview_url"]).content.startswith(b"\xff\xd8")
    assert_problem(client.get("/avatars/" + "0" * 32), 404, "avatar_not_found", "avatar_id")


def test_temporary_presenters(client: httpx.Client) -> None:
    """A job renews one, and makes one of a portrait only where there is a face."""
    drawing = presenter()
    past, now = time.time() - 3600, time.time()
    shaded = [make_avatar(drawing.rgb // shade * shade, drawing.landmarks) for shade in (2, 3)]
    store = AvatarStore(avatars_dir(), wall_clock=lambda: past)
    used, unused = (store.put(one, temporary=True).avatar_id for one in shaded)
    answer = client.post("/generate", files={"audio": SHORT}, data={"avatar_id": used})
    assert answer.status_code == 200 and answer.headers["x-avatar-id"] == used
    assert_problem(client.post("/generate", files={"audio": SHORT, "portrait": b"none"}), 422, field="portrait")
    rows = {row["avatar_id"]: row for row in client.get("/avatars").json()["avatars"]}
    assert rows[used]["temporary"] and rows[unused]["temporary"] and rows[used] == client.get(f"/avatars/{used}").json()
    expires = {one: datetime.fromisoformat(rows[one]["expires_at"]).timestamp() for one in (used, unused)}
    assert expires[used] - expires[unused] > 3500 and expires[used] >= int(now) + 24 * 3600
    assert client.delete(f"/avatars/{used}").status_code == 204


def test_a_client_that_goes_away_stops_the_stages(graph: Graph, client: httpx.Client) -> None:
    before = sum(one.cancelled for one in graph.host_stats())
    address = urlsplit(graph.url)
    body = (
        b'--b\r\nContent-Disposition: form-data; name="audio"; filename="a"\r\n\r\n'
        + speech_wav(60.0)
        + b"\r\n--b--\r\n"
    )
    head = (
        "POST /generate HTTP/1.1\r\nHost: x\r\nX-Request-Id: goes-away-1\r\n"
        f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    connection = socket.create_connection((address.hostname, address.port), timeout=60)
    connection.sendall(head.encode() + body)
    wait_for("the job works", lambda: graph.frames_done("goes-away-1") > 0)
    connection.close()
    wait_for("the job is cancelled", lambda: sum(one.cancelled for one in graph.host_stats()) == before + 1)
    graph.come_to_rest()


def test_an_upload_larger_than_allowed_is_refused_before_it_comes(graph: Graph) -> None:
    address = urlsplit(graph.url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(head_of(999_999_999_999))
        answer = b""
        while b"}" not in answer and (more := connection.recv(4000)):
            answer += more
    assert answer.startswith(b"HTTP/1.1 413") and b"body_too_large" in answer


def test_metrics_of_the_graph_and_names_that_ray_exports(graph: Graph, client: httpx.Client) -> None:
    import ray

    text = client.get("/metrics").text
    assert re.search(r'liveanchor_stage_frames_total\{.*stage="renderer"\} [1-9]', text)
    found: Any = ray.nodes
    port = next(node["MetricsExportPort"] for node in found() if node["Alive"])

    def exported() -> set[str]:
        page = httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=30).text
        return set(re.findall(r"^(ray_liveanchor_[a-z_]+)", page, re.MULTILINE))

    wait_for("the exporter has them", lambda: "ray_liveanchor_jobs_ended_total" in exported())
    dashboard = (Path(__file__).parents[2] / "docs" / "grafana.json").read_text(encoding="utf-8")
    rare = {  # seen once such a thing has happened
        "stage_dropped_total", "stage_retries_total", "http_cancelled_total", "live_sessions", "live_sessions_ended_total",
        "live_offers_refused_total", "live_pictures_late_total", "set_offers_refused_total", "set_tokens", "set_tokens_used",
    }  # fmt: skip
    used = set(re.findall(r"ray_liveanchor_[a-z_]+", dashboard)) - {f"ray_liveanchor_{name}" for name in rare}
    wait_for("all that the dashboard shows is exported", lambda: used <= exported())
