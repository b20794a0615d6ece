"""What `liveanchor serve` prints: commands that work as they stand, with the dashboard's real address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

pytest.importorskip("ray.serve")

from serve_app.cli import serve as command
from serve_app.cli.app import app
from serve_app.cluster import own as clusters
from serve_app.cluster.own import Cluster, free_port

DASHBOARD = "http://127.0.0.1:23456"
LOGS = "/somewhere/session_1/logs/serve"


@contextmanager
def giving(cluster: Cluster | None) -> Iterator[Cluster | None]:
    yield cluster


def run(monkeypatch: pytest.MonkeyPatch, home: Path, here: Cluster | None, *arguments: str) -> Result:
    """The command, where `here` is the cluster that is reachable and Ray is not really started."""
    monkeypatch.setenv("LIVEANCHOR_HOME", str(home))
    own = Cluster(DASHBOARD, owned=True, gpus=0.0, logs=LOGS)
    monkeypatch.setattr(clusters, "connected", lambda: giving(here))
    monkeypatch.setattr(clusters, "private", lambda: giving(own))
    monkeypatch.setattr(clusters, "details", lambda cluster: {})
    monkeypatch.setattr(clusters, "submit", lambda cluster, document: None)
    monkeypatch.setattr(clusters, "wait_until_running", lambda *_: "http://127.0.0.1:8000")
    monkeypatch.setattr(command, "watch", lambda cluster, stop: None)
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
