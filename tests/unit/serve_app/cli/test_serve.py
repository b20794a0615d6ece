"""What `liveanchor serve` prints: commands that work as they stand, with the dashboard's real address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

pytest.importorskip("ray.serve")

from kernels.errors import InvalidInputError
from serve_app.cli import serve as command
from serve_app.cli.app import app
from serve_app.cluster import gpu_nodes
from serve_app.cluster import own as clusters
from serve_app.cluster.own import Cluster, free_port

DASHBOARD = "http://127.0.0.1:23456"
LOGS = "/somewhere/session_1/logs/serve"


@contextmanager
def giving(cluster: Cluster | None) -> Iterator[Cluster | None]:
    yield cluster


def run(
    monkeypatch: pytest.MonkeyPatch,
    home: Path,
    here: Cluster | None,
    *arguments: str,
    gpus: tuple[str, ...] = (),
    started: list[list[str]] | None = None,
) -> Result:
    """The command on a machine with `gpus`, where `here` is the cluster that is reachable; `started` gets the GPUs' nodes."""

    def private(names: list[str]) -> AbstractContextManager[Cluster | None]:
        if started is not None:
            started.append(names)
        return giving(replace(own, gpus=float(len(names))))

    monkeypatch.setenv("LIVEANCHOR_HOME", str(home))
    own = Cluster(DASHBOARD, owned=True, gpus=0.0, logs=LOGS)
    monkeypatch.setattr(clusters, "connected", lambda: giving(here))
    monkeypatch.setattr(clusters, "private", private)
    monkeypatch.setattr(gpu_nodes, "visible_gpus", lambda: list(gpus))
    monkeypatch.setattr(clusters, "details", lambda cluster: {})
    monkeypatch.setattr(clusters, "submit", lambda cluster, document: None)
    monkeypatch.setattr(clusters, "wait_until_running", lambda *_: "http://127.0.0.1:8000")
    monkeypatch.setattr(command, "watch", lambda cluster, stop: None)
    monkeypatch.setattr(command, "drain_and_say", lambda seconds: None)
    monkeypatch.setattr(command.signal, "signal", lambda number, handler: None)
    return CliRunner().invoke(app, ["serve", *arguments])


def test_a_cluster_of_its_own_ends_with_ctrl_c(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = run(monkeypatch, tmp_path, None, "--port", str(free_port()))
    assert result.exit_code == 0, result.output
    assert result.stdout == "http://127.0.0.1:8000\n"
    assert result.stderr.splitlines()[-4:] == [
        f"configuration: {tmp_path / 'serve' / 'serve.yaml'}",
        f"logs: {LOGS}",
        f"state: serve status --address {DASHBOARD}",
        "press Ctrl-C to stop",
    ]


def test_a_cluster_that_was_here_ends_with_a_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    here = Cluster(DASHBOARD, owned=False, gpus=0.0)
    result = run(monkeypatch, tmp_path, here)
    assert result.exit_code == 0, result.output
    assert f"serve shutdown --address {DASHBOARD}\n" in result.stderr
    assert "Ctrl-C" not in result.stderr and "logs:" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "nodes"),
    [((), ["0", "1"]), (("--gpus", "all"), ["0", "1"]), (("--gpus", "1"), ["0"]), (("--gpus", "1,"), ["1"])],
)
def test_every_gpu_gets_a_node_and_a_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, arguments: tuple[str, ...], nodes: list[str]
) -> None:
    started: list[list[str]] = []
    port = str(free_port())
    result = run(monkeypatch, tmp_path, None, "--port", port, *arguments, gpus=("0", "1"), started=started)
    assert result.exit_code == 0, result.output
    assert started == [nodes]
    document = yaml.safe_load((tmp_path / "serve" / "serve.yaml").read_text(encoding="utf-8"))
    assert document["proxy_location"] == "HeadOnly"
    [application] = document["applications"]
    [renderer] = [one for one in application["deployments"] if one["name"] == "Renderer"]
    assert renderer["max_replicas_per_node"] == 1
    assert renderer["autoscaling_config"]["max_replicas"] >= len(nodes)


@pytest.mark.parametrize("wanted", ["3", "0,7", "many"])
def test_gpus_that_are_not_there_are_refused_before_ray_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wanted: str
) -> None:
    started: list[list[str]] = []
    port = str(free_port())
    result = run(monkeypatch, tmp_path, None, "--port", port, "--gpus", wanted, gpus=("0", "1"), started=started)
    assert (result.exit_code, started) == (1, [])
    assert isinstance(result.exception, InvalidInputError) and result.exception.field == "--gpus"


def test_gpus_of_a_cluster_that_was_here_are_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = run(monkeypatch, tmp_path, Cluster(DASHBOARD, owned=False, gpus=2.0), "--gpus", "all", gpus=("0", "1"))
    assert isinstance(result.exception, InvalidInputError) and result.exception.field == "--gpus"
