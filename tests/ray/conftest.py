"""One Ray cluster per test run: `serve_config.yaml` as it is, on a node that claims one GPU and two cores."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
START_S = 800.0
PATIENCE = {
    "deadlines": {"stage_call_s": 600.0, "job_base_s": 600.0},
    "live": {
        "connect_timeout_s": 120.0,
        "connect_grace_s": 120.0,
        "stages_timeout_s": 240.0,
        "sessions_per_gpu": 6,
    },
}
"""Beyond what is in the file: a call and a session wait for replicas that start on a busy machine, and a session for its client. A
claimed GPU has no measured cost, so the number of its tokens is named."""
SELDOM = {
    "RAY_SERVE_CONTROL_LOOP_INTERVAL_S": "0.25",
    "RAY_task_events_report_interval_ms": "0",
    "REPORTER_UPDATE_INTERVAL_MS": "30000",
}
"""Ray takes a fifth of a core though nothing happens: the controller's loop, lists of tasks, the dashboard's numbers."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(str(item.fspath)).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.ray)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(1800))  # replicas that start take turns on a busy machine's cores


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Puts what the cluster looks like beside a failure: why a replica does not start is seen nowhere else."""
    report = yield
    graph = getattr(item, "funcargs", {}).get("graph")
    if report.failed and graph is not None:
        report.sections.append(("Ray Serve", graph.describe()))
    return report


@pytest.fixture(scope="package")
def home() -> Iterator[Path]:
    """A data folder that the cluster and this process share; short, because Ray puts sockets below it."""
    folder = Path(tempfile.mkdtemp(prefix="la-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="package")
def environment(home: Path) -> Iterator[None]:
    """What every process of the cluster inherits."""
    patch = pytest.MonkeyPatch()
    for name in [name for name in os.environ if name.startswith("LIVEANCHOR_")] + ["RAY_ADDRESS"]:
        patch.delenv(name, raising=False)
    from serve_app.cluster.own import CALL_DEATH, NICENESS, NICENESS_ENV

    for name, value in {
        "LIVEANCHOR_HOME": str(home / "data"),
        "RAY_TMPDIR": str(home),  # the address of this cluster is no one else's: neither found nor put into /tmp/ray
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        NICENESS_ENV: NICENESS,
        **CALL_DEATH,
        **SELDOM,
        "RAY_SERVE_REPLICA_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "0.5",
        "RAY_SERVE_HANDLE_AUTOSCALING_METRIC_PUSH_INTERVAL_S": "0.5",
    }.items():
        patch.setenv(name, value)
    yield
    patch.undo()


@pytest.fixture(scope="package")
def nodes(home: Path, environment: None) -> Iterator[Any]:
    """A head node with two cores and one claimed GPU; `add_node` adds more."""
    pytest.importorskip("ray.serve")
    from ray.cluster_utils import Cluster

    from serve_app.cluster.own import free_port

    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 2,
            "num_gpus": 1,
            "object_store_memory": 512 * 2**20,
            "include_dashboard": True,
            "dashboard_port": free_port(),
            "temp_dir": str(home / "ray"),
            "include_log_monitor": False,  # nobody here reads what it would send
        },
    )
    yield cluster
    cluster.shutdown()


@pytest.fixture(scope="package")
def graph(nodes: Any) -> Iterator[Any]:
    """The application of `serve_config.yaml`, on a free port, and patient."""
    import ray

    from serve_app.cluster.own import Cluster, free_port, submit, wait_until_running
    from tests.ray.graph import Graph, wait_for

    context: Any = ray.init(address=nodes.address, log_to_driver=False, namespace="liveanchor")
    document = yaml.safe_load((ROOT / "serve_config.yaml").read_text(encoding="utf-8"))
    document["http_options"] = {"host": "127.0.0.1", "port": free_port()}
    document["applications"][0]["args"] |= PATIENCE
    [hosts] = [one for one in document["applications"][0]["deployments"] if one["name"] == "SessionHost"]
    hosts["autoscaling_config"]["max_replicas"] = 2  # a change needs room for the old and the new ones
    try:  # a process that stays connected cannot end its cluster
        cluster = Cluster(f"http://{context.dashboard_url}", owned=False, gpus=1.0)
        wait_for("Ray to take the application", lambda: submit(cluster, document) is None)
        yield Graph(cluster, document, wait_until_running(cluster, START_S))
    finally:
        ray.shutdown()


@pytest.fixture(scope="package")
def local_pipeline(environment: None) -> Iterator[Any]:
    """The same job in this process."""
    from pipeline.session.local_job import LocalPipeline

    pipeline = LocalPipeline()
    yield pipeline
    pipeline.close()


@pytest.fixture(scope="package")
def local_stages(local_pipeline: Any) -> Any:
    """This process's stages, and the default presenter's id beside them."""
    stages = local_pipeline.stages
    stages.avatar_id = local_pipeline.avatar().avatar_id
    return stages


@pytest.fixture(scope="package")
def local_file(local_pipeline: Any, home: Path) -> Any:
    """(wav, seed, fps, chunk_frames) -> the bytes of the file that `--local` makes."""
    from pipeline.config import SessionSettings
    from pipeline.media.audio_in import decode_audio

    def make(wav: bytes, *, seed: int, fps: int = 25, chunk_frames: int = 8) -> bytes:
        out = home / "local.mp4"
        settings = SessionSettings.model_validate({"fps": fps, "chunk_frames": chunk_frames})
        local_pipeline.generate_file(decode_audio(wav), out, local_pipeline.avatar(), settings, seed=seed)
        return out.read_bytes()

    return make
