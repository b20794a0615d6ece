"""Files over HTTP: finished, streamed, kept; cancelled when nobody waits; refused when there is no room."""

from __future__ import annotations

import base64
import io
import itertools
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import av
import httpx
import pytest

from deployments.graph.errors import StageLostError
from deployments.host.jobs import JobBytes, JobStarted
from deployments.limits import LimitSettings
from tests.support.http_server import Gate, Served, assert_problem, head_of, serving, small_avatar, wait_for, wav


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("http")) as one:
        yield one


UNKNOWN = {"state": "unknown", "frames_done": 0, "frames": 0}


def pictures(data: bytes) -> int:
    with av.open(io.BytesIO(data)) as container:
        assert container.streams.audio and container.streams.video
        return sum(1 for _ in container.decode(video=0))


def test_a_finished_file(served: Served) -> None:
    answer = served.generate(wav(0.4))
    assert answer.status_code == 200 and answer.headers["content-type"] == "video/mp4"
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert answer.headers["content-disposition"] == 'inline; filename="liveanchor.mp4"'
    assert answer.headers["x-frames"] == "10" and answer.headers["x-fps"] == "25"
    assert answer.headers["x-duration-s"] == "0.400"
    assert answer.content.index(b"moov") < answer.content.index(b"mdat")
    assert pictures(answer.content) == 10


def test_a_streamed_file_arrives_before_it_is_finished(served: Served) -> None:
    served.host.stages.render_gate = gate = Gate()
    before = served.host.ended["finished"]
    try:
        with served.client.stream("POST", "/generate", files={"audio": wav(2.0)}, data={"stream": "true"}) as answer:
            assert answer.status_code == 200 and "content-length" not in answer.headers
            assert answer.headers["x-frames"] == "50"
            pieces = answer.iter_bytes()
            assert served.host.ended["finished"] == before, "the answer began before the job ended"
            gate.set()
            data = b"".join(pieces)
    finally:
        served.host.stages.render_gate = None
    assert b"moof" in data and pictures(data) == 50


@pytest.mark.parametrize(("fps", "frames"), [(25, 10), (50, 20), (59.94, 24)])
def test_frame_rates(served: Served, fps: float, frames: int) -> None:
    answer = served.generate(fps=fps, chunk_frames=4, seed=2**63 - 1, avatar_id="")
    assert answer.headers["x-frames"] == str(frames) and pictures(answer.content) == frames


def test_a_kept_file(served: Served) -> None:
    answer = served.generate(path="/api/generate")
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/json"
    found = answer.json()
    assert (found["frames"], found["fps"], found["duration_s"]) == (10, 25, 0.4)
    assert (found["width"], found["height"]) == (128, 160)
    assert found["url"] == f"/results/{found['id']}" and found["expires_at"].endswith("Z")
    file = served.client.get(found["url"])
    assert file.headers["content-type"] == "video/mp4" and len(file.content) == found["size_bytes"]
    assert pictures(file.content) == 10
    assert f"liveanchor-{found['id'][:32]}.mp4" in file.headers["content-disposition"]


def test_json_with_base64_gives_the_same_file(served: Served) -> None:
    speech = base64.b64encode(wav()).decode()
    as_json = served.client.post("/generate", json={"audio": speech, "seed": 3})
    as_url = served.client.post(
        "/generate", json={"audio": f"data:audio/wav;base64,{speech}", "seed": 3, "portrait": None}
    )
    as_form = served.generate(seed=3)
    assert as_json.status_code == 200 and as_json.content == as_form.content == as_url.content


def test_a_portrait_is_registered_and_speaks(served: Served) -> None:
    served.host.register = lambda data, name: small_avatar("Someone else", 140)
    files = {"audio": wav(), "portrait": ("me.png", b"picture", "image/png")}
    answer = served.client.post("/generate", files=files)
    assert answer.status_code == 200
    assert served.host.registered[-1] == (b"picture", "")
    assert answer.headers["x-avatar-id"] != served.host.default.avatar_id
    by_id = served.generate(avatar_id=answer.headers["x-avatar-id"])
    assert by_id.content == answer.content


def test_an_empty_portrait_input_of_a_browser_is_no_portrait(served: Served) -> None:
    boundary = "x"
    body = (
        b'--x\r\nContent-Disposition: form-data; name="portrait"; filename=""\r\nContent-Type: application/octet-stream\r\n\r\n'
        b'\r\n--x\r\nContent-Disposition: form-data; name="audio"; filename="a.wav"\r\n\r\n' + wav() + b"\r\n--x--\r\n"
    )
    headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
    assert served.client.post("/generate", content=body, headers=headers).status_code == 200


def _raw_request(port: int, body: bytes, *, path: str = "/generate") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=60)
    connection.sendall(head_of(len(body), path) + body)
    return connection


def _form(**fields: bytes) -> bytes:
    parts = [
        f'--b\r\nContent-Disposition: form-data; name="{name}"{"; filename=a" if name == "audio" else ""}\r\n\r\n'.encode()
        + value
        + b"\r\n"
        for name, value in fields.items()
    ]
    return b"".join(parts) + b"--b--\r\n"


@pytest.mark.parametrize(
    ("path", "stream"), [("/generate", b"false"), ("/generate", b"true"), ("/api/generate", b"false")]
)
def test_a_client_that_goes_away_stops_the_work(tmp_path: Path, path: str, stream: bytes) -> None:
    with serving(tmp_path) as served:
        served.host.stages.render_gate = Gate()
        connection = _raw_request(served.port, _form(audio=wav(8.0), stream=stream), path=path)
        wait_for(lambda: served.host.stages.in_flight > 0)
        begun = len(served.host.stages.requests)
        connection.close()
        wait_for(lambda: served.host.ended["cancelled"] == 1)
        assert served.host.stages.in_flight == 0, "nothing is left in work"
        assert len(served.host.stages.requests) == begun, "and nothing new was begun"
        services = served.api.state.services
        wait_for(lambda: services.gate.active == 0)
        assert services.budget.held == 0
        wait_for(lambda: services.metrics.value("liveanchor_http_cancelled_total", route=path) == 1)
        served.host.stages.render_gate = None
        assert served.generate().status_code == 200
        assert not list((tmp_path / "results").glob("*"))


def test_a_client_that_goes_away_while_it_uploads(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        services = served.api.state.services
        body = _form(audio=b"\0" * 100_000)
        connection = socket.create_connection(("127.0.0.1", served.port))
        head = head_of(len(body))
        connection.sendall(head + body[:50_000])
        wait_for(lambda: services.budget.held > 0)
        connection.close()
        wait_for(lambda: services.budget.held == 0)
        assert not services.arrivals and not served.host.ended


def test_over_capacity_is_503_at_once_and_ends(tmp_path: Path) -> None:
    with serving(tmp_path, max_jobs=2, retry_after_s=7) as served:
        served.host.stages.render_gate = Gate()
        connections = [_raw_request(served.port, _form(audio=wav())) for _ in range(2)]
        wait_for(lambda: len(served.host.jobs) == 2)
        for path in ("/generate", "/api/generate", "/avatars"):
            refused = served.client.post(path, files={"audio" if path != "/avatars" else "file": wav()})
            found = assert_problem(refused, 503, "overloaded")
            assert refused.headers["retry-after"] == "7" and found["retry_after_s"] == 7
        assert served.client.get("/healthz").status_code == 200
        for connection in connections:
            connection.close()
        served.host.stages.render_gate = None
        wait_for(lambda: served.host.ended["cancelled"] == 2)
        wait_for(lambda: served.generate().status_code == 200)


def test_a_burst_never_goes_over_the_limit(tmp_path: Path) -> None:
    with serving(tmp_path, max_jobs=3) as served:
        statuses: list[int] = []
        threads = [threading.Thread(target=lambda: statuses.append(served.generate().status_code)) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(statuses) <= {200, 503} and 200 in statuses
        wait_for(lambda: served.api.state.services.gate.active == 0)


def test_uploads_together_are_bounded(tmp_path: Path) -> None:
    with serving(tmp_path, max_upload_bytes=60_000, max_json_bytes=60_000, max_buffered_bytes=90_000) as served:
        half = _form(audio=b"\0" * 55_000)
        connection = socket.create_connection(("127.0.0.1", served.port))
        head = head_of(len(half))
        connection.sendall(head + half[:-40])
        services = served.api.state.services
        wait_for(lambda: services.budget.held > 50_000)
        assert_problem(served.generate(wav(1.4)), 503, "overloaded")
        connection.close()
        wait_for(lambda: services.budget.held == 0)
        assert served.generate(wav(1.4)).status_code == 200
    with pytest.raises(ValueError, match="max_buffered_bytes"):
        LimitSettings(max_upload_bytes=100, max_json_bytes=100, max_buffered_bytes=99)


def test_an_upload_that_stops_coming_gives_its_place_back(tmp_path: Path) -> None:
    with serving(tmp_path, max_jobs=1, upload_idle_s=1.0) as served:  # the good one below must not be slower than that
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as slow:
            slow.sendall(head_of(1000) + b"--b\r\n")
            answer = slow.recv(4000)
            assert answer.startswith(b"HTTP/1.1 408") and b"upload_too_slow" in answer
            wait_for(lambda: not served.api.state.services.arrivals)
            assert served.generate().status_code == 200


def test_slow_uploads_keep_nobody_out(tmp_path: Path) -> None:
    """A place is taken by work, not by bytes that may never come."""
    with serving(tmp_path, max_jobs=1) as served:
        services = served.api.state.services
        slow = [socket.create_connection(("127.0.0.1", served.port), timeout=60) for _ in range(4)]
        for connection, path in zip(slow, ("/generate", "/api/generate", "/generate", "/avatars"), strict=True):
            name = b"file" if path == "/avatars" else b"audio"
            begun = b'--b\r\nContent-Disposition: form-data; name="' + name + b'"\r\n\r\nxxxx'
            connection.sendall(head_of(10_000, path) + begun)
        wait_for(lambda: services.arrivals.total() == 3)
        assert services.gate.active == 0
        assert served.generate().status_code == 200
        for connection in slow:
            connection.close()
        wait_for(lambda: not services.arrivals and services.budget.held == 0)


def test_an_upload_that_came_when_all_places_were_taken_is_503(tmp_path: Path) -> None:
    with serving(tmp_path, max_jobs=1) as served:
        body, head = _form(audio=wav()), head_of(len(_form(audio=wav())))
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as late:
            late.sendall(head + body[:-20])
            wait_for(lambda: served.api.state.services.arrivals)
            served.host.stages.render_gate = Gate()
            first = _raw_request(served.port, body)
            wait_for(lambda: served.host.jobs)
            late.sendall(body[-20:])
            assert late.recv(4000).startswith(b"HTTP/1.1 503")
        first.close()
        wait_for(lambda: served.api.state.services.gate.active == 0)
        assert served.api.state.services.budget.held == 0


def test_an_upload_that_dribbles_ends_too(tmp_path: Path) -> None:
    with serving(tmp_path, upload_idle_s=5, upload_s=0.3) as served:
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as slow:
            slow.sendall(head_of(10_000) + _form(audio=b"")[:-9])
            slow.settimeout(0.02)
            answer = b""
            for _ in range(2000):
                with suppress(ConnectionError):  # the answer may have come, and the connection been closed, meanwhile
                    slow.sendall(b"-")
                try:
                    answer = slow.recv(4000)
                    break
                except TimeoutError:
                    continue
        assert answer.startswith(b"HTTP/1.1 408")


def test_a_client_that_takes_nothing_counts_as_gone(tmp_path: Path) -> None:
    with serving(tmp_path, stall_s=0.2) as served:
        services = served.api.state.services

        async def endless(job: object) -> object:
            yield JobStarted("j", "a" * 32, 1, 25, 64, 64, 1.0)
            for offset in itertools.count(0, 65_536):
                yield JobBytes(b"\0" * 65_536, offset)

        served.host.generate = endless  # type: ignore[method-assign,assignment]
        connection = _raw_request(served.port, _form(audio=b"x", stream=b"true"))
        wait_for(lambda: services.metrics.value("liveanchor_http_cancelled_total", route="/generate") == 1)
        wait_for(lambda: services.gate.active == 0)
        connection.close()


def test_progress_of_a_running_job(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        served.host.stages.render_gate = gate = Gate()
        thread = threading.Thread(
            target=lambda: httpx.post(
                f"http://127.0.0.1:{served.port}/generate",
                files={"audio": wav()},
                headers={"X-Request-Id": "my-own-job-1"},
                timeout=120,
            )
        )
        thread.start()
        wait_for(lambda: "my-own-job-1" in served.host.jobs)
        url = "/jobs/my-own-job-1"
        assert served.client.get(url).json() == {"state": "working", "frames_done": 0, "frames": 0}
        served.host.jobs["my-own-job-1"] = served.host.jobs["my-own-job-1"].__class__(8, 10)
        assert served.client.get(url).json() == {"state": "working", "frames_done": 8, "frames": 10}
        gate.set()
        thread.join(60)
        assert served.client.get(url).json() == UNKNOWN


def test_a_job_is_known_while_it_is_uploaded(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        assert served.client.get("/jobs/uploading-1").json() == UNKNOWN
        with socket.create_connection(("127.0.0.1", served.port), timeout=60) as slow:
            slow.sendall(head_of(1000).replace(b"\r\n\r\n", b"\r\nX-Request-Id: uploading-1\r\n\r\n") + b"--b\r\n")
            wait_for(lambda: served.api.state.services.arrivals)
            assert served.client.get("/jobs/uploading-1").json() == UNKNOWN | {"state": "arriving"}
        wait_for(lambda: not served.api.state.services.arrivals)
        assert served.client.get("/jobs/uploading-1").json() == UNKNOWN


def test_a_failing_job_is_never_200(served: Served) -> None:
    served.host.failure = StageLostError("renderer", 2)
    try:
        for path in ("/generate", "/api/generate"):
            for stream in ("true", "false"):
                found = assert_problem(served.generate(path=path, stream=stream), 503, "stage_lost")
                assert "renderer" not in found["detail"]
        served.host.failure = KeyError("/secret/path")
        found = assert_problem(served.generate(), 500, "internal_error")
        assert "secret" not in str(found)
    finally:
        served.host.failure = None
    assert served.generate().status_code == 200


def test_a_stream_that_breaks_is_not_a_whole_file(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        renderer = served.host.stages.renderer

        async def breaks(request: object) -> object:
            if len(served.host.stages.requests) > 4:
                raise StageLostError("renderer", 2)
            return await renderer(request)

        served.host.stages.renderer = breaks
        with pytest.raises(httpx.RemoteProtocolError):
            served.generate(wav(4.0), stream="true")
        assert_problem(served.generate(wav(4.0)), 503, "stage_lost")
