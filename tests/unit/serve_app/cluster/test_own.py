"""Finding or starting a service: what is ours is used, what is others' is left alone."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

pytest.importorskip("ray.serve")

from kernels.errors import InvalidInputError
from serve_app.cli import remote
from serve_app.cli.serve import watch
from serve_app.cluster import own as clusters
from serve_app.cluster.checks import check_port_is_free, refuse_takeover
from serve_app.cluster.errors import ServiceFailedError
from serve_app.cluster.own import Cluster, details, free_port, submit, wait_until_running
from serve_app.cluster.status import is_deployed, progress, reason, service_url
from serve_app.config.declare import serve_document, write_document
from serve_app.config.settings import AppConfig

HERE = Cluster("http://127.0.0.1:8265", owned=False, gpus=0.0)
DOCUMENT = serve_document(AppConfig(), "127.0.0.1", 8000)


def found(status: str, **more: object) -> dict[str, Any]:
    return {
        "applications": {"liveanchor": {"status": status, **more}},
        "http_options": {"host": "0.0.0.0", "port": 8123},  # noqa: S104  # what Ray reports
    }


class Api:
    """Ray's REST interface: says what it is told to say, one answer after the other, and remembers what was deployed."""

    def __init__(self, *answers: dict[str, Any] | Exception, refusal: Exception | None = None) -> None:
        self.answers = list(answers)
        self.refusal = refusal
        self.deployed: list[dict[str, Any]] = []

    def get_serve_details(self) -> dict[str, Any]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def deploy_applications(self, document: dict[str, Any]) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.deployed.append(document)


def use(monkeypatch: pytest.MonkeyPatch, api: Api) -> Api:
    monkeypatch.setattr(clusters, "_api", lambda cluster: api)
    return api


def test_other_applications_of_the_cluster_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = {"name": "theirs", "import_path": "theirs:app", "route_prefix": "/theirs"}
    api = use(
        monkeypatch,
        Api(
            {
                "applications": {
                    "theirs": {"status": "RUNNING", "deployed_app_config": theirs},
                    "by_hand": {"status": "RUNNING", "deployed_app_config": None},
                    "leaving": {"status": "DELETING", "deployed_app_config": {"name": "leaving"}},
                    "liveanchor": {"status": "RUNNING", "deployed_app_config": {"name": "liveanchor", "old": True}},
                }
            }
        ),
    )
    submit(HERE, DOCUMENT)
    [sent] = api.deployed
    assert sent["applications"] == [DOCUMENT["applications"][0], theirs]
    assert len(DOCUMENT["applications"]) == 1


def test_waiting_ends_with_the_address_or_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"Renderer": {"status": "UPDATING", "message": ""}, "Ingress": {"status": "HEALTHY"}}
    use(
        monkeypatch,
        Api({}, found("DEPLOYING", deployments=parts), found("DEPLOYING", deployments=parts), found("RUNNING")),
    )
    said: list[str] = []
    assert wait_until_running(HERE, 60, said.append) == "http://127.0.0.1:8123"
    assert said == ["starting, 0 of ? parts are up", "starting, 1 of 2 parts are up"]
    parts["Renderer"]["message"] = "NoGpuError: device is cuda"
    use(monkeypatch, Api(found("DEPLOY_FAILED", message="Failed to update", deployments=parts)))
    with pytest.raises(ServiceFailedError, match="Renderer: NoGpuError"):
        wait_until_running(HERE, 60)
    use(monkeypatch, Api(found("DEPLOYING", deployments={})))
    now = iter([0.0, 61.0])
    with pytest.raises(ServiceFailedError, match="still DEPLOYING after 60 s"):
        wait_until_running(HERE, 60, clock=lambda: next(now))


def test_waiting_goes_on_while_ray_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Api(ConnectionError("busy"), RuntimeError("status code 500"), found("RUNNING")))
    said: list[str] = []
    assert wait_until_running(HERE, 60, said.append) == "http://127.0.0.1:8123"
    assert len(said) == 2 and all(text.startswith("starting; ") for text in said) and "busy" in said[0]
    use(monkeypatch, Api(ConnectionError("busy")))
    now = iter([0.0, 1.0, 61.0])
    with pytest.raises(ServiceFailedError, match="dashboard"):
        wait_until_running(HERE, 60, clock=lambda: next(now))


def test_a_ray_that_answers_with_an_error_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = RuntimeError("Request failed with status code 400: no such field.\nTraceback (most recent call last)")
    use(monkeypatch, Api({}, refusal=refusal))
    with pytest.raises(ServiceFailedError, match=r"status code 400: no such field\.\)$"):
        submit(HERE, DOCUMENT)
    for error in (ConnectionError("nobody there"), RuntimeError("Request failed with status code 500: x.")):
        use(monkeypatch, Api(error))
        with pytest.raises(ServiceFailedError, match="dashboard"):
            details(HERE)


class Ticks(threading.Event):
    """Waits for nothing; set after so many waits."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.left = count

    def wait(self, timeout: float | None = None) -> bool:
        self.left -= 1
        return self.left < 0


def test_serving_goes_on_while_ray_is_away_for_a_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    away, here, empty = ConnectionError("restarting"), found("RUNNING"), dict[str, Any]()
    use(monkeypatch, Api(here, away, away, here, empty, away, here))
    watch(HERE, Ticks(20))
    for answers, why in (((here, away, away, away), "dashboard"), ((here, empty), "someone else")):
        use(monkeypatch, Api(*answers))
        with pytest.raises(ServiceFailedError, match=why):
            watch(HERE, Ticks(20))


def test_what_counts_as_a_service_of_ours() -> None:
    assert [is_deployed(found(one)) for one in ("RUNNING", "DEPLOYING", "UNHEALTHY")] == [True] * 3
    assert not any(is_deployed(one) for one in (found("DELETING"), found("DEPLOY_FAILED"), {}))
    assert service_url(found("RUNNING")) == "http://127.0.0.1:8123" and service_url(found("DEPLOYING")) is None


def test_a_cluster_without_dashboard_serves_nothing_and_cannot_be_deployed_to() -> None:
    bare = Cluster("", owned=False, gpus=0.0)
    assert details(bare) == {}
    with pytest.raises(ServiceFailedError, match="dashboard"):
        submit(bare, DOCUMENT)


def test_the_document_is_kept_for_people(tmp_path: Path) -> None:
    path = write_document(DOCUMENT, tmp_path / "serve")
    assert yaml.safe_load(path.read_text(encoding="utf-8")) == DOCUMENT
    assert [one.name for one in path.parent.iterdir()] == ["serve.yaml"]


@contextmanager
def giving(value: Any, log: list[str], name: str) -> Iterator[Any]:
    log.append(f"{name} begins")
    yield value
    log.append(f"{name} ends")


def start(monkeypatch: pytest.MonkeyPatch, reachable: Cluster | None, api: Api) -> tuple[str, list[str]]:
    log: list[str] = []
    monkeypatch.delenv("LIVEANCHOR_URL", raising=False)
    use(monkeypatch, api)
    monkeypatch.setattr(clusters, "connected", lambda: giving(reachable, log, "connected"))
    own = Cluster("http://127.0.0.1:9999", owned=True, gpus=0.0)
    monkeypatch.setattr(clusters, "private", lambda: giving(own, log, "private"))
    with remote.service() as url:
        log.append("used")
    return url, log


def test_a_running_service_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(found("DEPLOYING"), found("RUNNING"))
    url, log = start(monkeypatch, HERE, api)
    assert url == "http://127.0.0.1:8123" and log == ["connected begins", "used", "connected ends"]
    assert not api.deployed


@pytest.mark.parametrize("reachable", [None, HERE], ids=["no Ray here", "a cluster of others"])
def test_without_one_a_private_cluster_is_used(monkeypatch: pytest.MonkeyPatch, reachable: Cluster | None) -> None:
    others = {"applications": {}}
    api = Api(*([others] if reachable else []), others, found("RUNNING"))
    _, log = start(monkeypatch, reachable, api)
    assert log == ["connected begins", "connected ends", "private begins", "used", "private ends"]
    assert len(api.deployed) == 1


def test_a_named_service_needs_no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "connected", None)
    monkeypatch.setenv("LIVEANCHOR_URL", "https://faces.example.org/")
    with remote.service() as url:
        assert url == "https://faces.example.org"
    monkeypatch.setenv("LIVEANCHOR_URL", "faces.example.org")
    with pytest.raises(InvalidInputError, match="LIVEANCHOR_URL"), remote.service():
        pass


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Make the service answer with a given response; gives (the call, the path of the file)."""
    monkeypatch.setenv("LIVEANCHOR_URL", "http://service")
    monkeypatch.setattr(remote, "POLL_S", 3600.0)
    speech, out = tmp_path / "a.wav", tmp_path / "o.mp4"
    speech.write_bytes(b"speech")
    client = httpx.Client

    def ask(status: int, content: bytes, kind: str, **options: Any) -> tuple[list[httpx.Request], Path]:
        seen: list[httpx.Request] = []

        def handle(request: httpx.Request) -> httpx.Response:
            request.read()
            seen.append(request)
            return httpx.Response(status, content=content, headers={"content-type": kind, "x-frames": "75"})

        monkeypatch.setattr(httpx, "Client", lambda **kwargs: client(transport=httpx.MockTransport(handle)))
        seen_frames = remote.generate_remote(remote.Speech(speech), out, **options)
        assert seen_frames == 75
        return seen, out

    return ask, out


def test_the_file_arrives_whole(answers: Any) -> None:
    ask, out = answers
    done: list[tuple[int, int]] = []
    seen, _ = ask(200, b"mp4 bytes", "video/mp4", seed=9, avatar_id="ab", on_progress=lambda *at: done.append(at))
    assert out.read_bytes() == b"mp4 bytes" and done[-1] == (75, 75)
    body = seen[0].content
    assert b'name="seed"\r\n\r\n9' in body and b'name="avatar_id"\r\n\r\nab' in body and b"speech" in body


def test_a_refusal_is_the_callers_and_keeps_the_services_words(answers: Any) -> None:
    ask, out = answers
    problem = {
        "type": "/problems/audio_empty",
        "title": "The speech is empty",
        "status": 422,
        "detail": "audio: got no samples",
    }
    with pytest.raises(InvalidInputError) as refused:
        ask(422, json.dumps(problem).encode(), "application/problem+json")
    assert str(refused.value) == "audio: got no samples"
    assert not out.exists() and [one.name for one in out.parent.iterdir()] == ["a.wav"]


@pytest.mark.parametrize(
    ("status", "kind", "body", "said"),
    [
        (503, "application/problem+json", b'{"title": "Later", "detail": "full"}', "503: full"),
        (404, "text/plain", b"Path '/generate' not found.", "no LiveAnchor answers here"),
        (502, "text/html", b"<html>bad gateway</html>", "no LiveAnchor answers here"),
        (200, "text/html", b"<html>welcome</html>", "text/html, not video/mp4"),
        (501, "text/html;charset=utf-8", b"<!DOCTYPE HTML>", "501, Not Implemented, text/html; LIVEANCHOR_URL names"),
        (302, "", b"", "something without a type"),
    ],
)
def test_a_failure_is_not_the_callers(answers: Any, status: int, kind: str, body: bytes, said: str) -> None:
    ask, out = answers
    with pytest.raises(remote.RemoteError, match=said):
        ask(status, body, kind)
    assert not out.exists()


@pytest.mark.parametrize("named", [True, False])
def test_a_service_where_nobody_answers_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: bool
) -> None:
    (tmp_path / "a.wav").write_bytes(b"speech")
    monkeypatch.setattr(remote, "POLL_S", 3600.0)
    url = f"http://127.0.0.1:{free_port()}"
    if named:
        monkeypatch.setenv("LIVEANCHOR_URL", url)
    else:
        monkeypatch.setattr(remote, "service", lambda on_status: giving(url, [], "service"))
        monkeypatch.delenv("LIVEANCHOR_URL", raising=False)
    with pytest.raises(remote.RemoteError) as failed:
        remote.generate_remote(remote.Speech(tmp_path / "a.wav"), tmp_path / "o.mp4")
    said = str(failed.value)
    assert said.startswith(f"{url}: ") and "refused" in said
    assert ("LIVEANCHOR_URL" in said and "liveanchor serve" in said) is named


def test_a_cluster_that_serves_elsewhere_is_not_taken_over() -> None:
    running = {
        "applications": {"liveanchor": {"status": "RUNNING"}},
        "http_options": {"host": "127.0.0.1", "port": 9001},
    }
    with pytest.raises(InvalidInputError, match="already serves on 127.0.0.1:9001"):
        refuse_takeover(running, "127.0.0.1", 8137)
    refuse_takeover(running, "127.0.0.1", 9001)
    refuse_takeover({}, "127.0.0.1", 8137)


def test_a_port_in_use_is_named_before_ray_starts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(InvalidInputError, match="--port"):
            check_port_is_free("127.0.0.1", taken.getsockname()[1])
    check_port_is_free("127.0.0.1", free_port())


def test_waiting_names_what_ray_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = (
        "1 replicas that have taken more than 30s to be scheduled.\nResources required for each replica: {'GPU': 0.4}"
    )
    parts = {"Renderer": {"status": "UPDATING", "message": waits}, "Ingress": {"status": "HEALTHY", "message": "fine"}}
    use(monkeypatch, Api(found("DEPLOYING", message="", deployments=parts)))
    said: list[str] = []
    now = iter([0.0, 1.0, 61.0])
    with pytest.raises(ServiceFailedError, match="still DEPLOYING after 60 s: Renderer: 1 replicas[^$]*'GPU': 0.4"):
        wait_until_running(HERE, 60, said.append, clock=lambda: next(now))
    [line] = said
    assert line.startswith("starting, 1 of 2 parts are up; Renderer: 1 replicas") and "GPU" in line and "\n" not in line
    assert "fine" not in line


@pytest.mark.parametrize(("gpus", "required", "said"), [(0.0, "GPU", True), (1.0, "GPU", False), (0.0, "CPU", False)])
def test_a_wait_for_a_gpu_that_is_not_there_is_explained(gpus: float, required: str, said: bool) -> None:
    waits = f'Resources required for each replica: {{"{required}": 0.4}}, total resources available: {{"CPU": 1.7}}.'
    report = found("DEPLOYING", deployments={"Renderer": {"status": "UPDATING", "message": waits}})
    assert ("--num-gpus=1" in progress(report, gpus)) is said
    assert reason(report, gpus).endswith(f"Renderer: {waits}")


def test_an_address_that_is_not_this_machines_is_the_hosts_fault() -> None:
    for host in ("203.0.113.7", "::1"):  # kept for documentation; of another family
        with pytest.raises(InvalidInputError) as refused:
            check_port_is_free(host, free_port())
        assert refused.value.field == "--host" and refused.value.got.startswith(host)


def test_all_ways_to_start_nodes_say_how_soon_calls_to_a_lost_node_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"RAY_core_worker_internal_heartbeat_ms": "1000"}
    monkeypatch.setattr(clusters.os, "environ", found)
    clusters._set_up_environment()
    assert found["RAY_core_worker_internal_heartbeat_ms"] == "1000", "the operator's choice stays"
    assert found["RAY_timeout_ms_task_wait_for_death_info"] == "200"
    root = Path(clusters.__file__).resolve().parents[2]
    image, nodes = (root / "Dockerfile").read_text(), (root / "docs/gpu_nodes.sh").read_text()
    for name, value in clusters.CALL_DEATH.items():
        assert f"{name}={value} " in image and f"{name}=${{{name}:-{value}}}" in nodes
