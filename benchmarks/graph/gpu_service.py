"""The graph of `serve_config.yaml` on this machine's GPU, and what can be asked of it from outside."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import yaml

from benchmarks.graph.run import Job, run_job
from benchmarks.live.rig import ClientProcess
from deployments.config import DEPLOYMENT_NAMES, STAGE_NAMES
from deployments.graph.calls import StageStats
from deployments.graph.start_up import READY
from kernels.errors import LiveAnchorError
from pipeline.families import find_family
from pipeline.family import ALL_STAGES
from serve_app.cluster.own import Cluster, free_port, submit, wait_until_running
from serve_app.config.declare import APP_NAME

CONFIG: Final = Path(__file__).resolve().parents[2] / "serve_config.yaml"
START_S: Final = 300.0
ASK_S: Final = 60.0
BACK_S: Final = 60.0
SAMPLE_S: Final = 0.5
MIB: Final = 2**20
CHOSEN: Final = "runtime chosen"
PLACED: Final = "placed"


@dataclass(frozen=True)
class Service:
    """The running application.

    Attributes:
        cluster: Cluster on which it runs.
        url: Address of its HTTP interface.
        ready_s: Seconds from handing Ray the document to the answer that it runs.
        began_at: When Ray was handed the document, seconds since 1970.
    """

    cluster: Cluster
    url: str
    ready_s: float
    began_at: float = 0.0


def shipped_document(family: str, weights: Path | None, port: int, gpus: float) -> dict[str, Any]:
    """`serve_config.yaml` for another family and port: its stages and their shares of a GPU; no shares where there is none."""
    document: dict[str, Any] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    document["http_options"] = {"host": "127.0.0.1", "port": port}
    application = document["applications"][0]
    application["args"]["models"] |= {"family": family} | ({"weights_dir": str(weights)} if weights else {})
    own = find_family(family)
    lacking = {DEPLOYMENT_NAMES[stage] for stage in set(ALL_STAGES) - set(own.stages)}
    application["deployments"] = [one for one in application["deployments"] if one["name"] not in lacking]
    shares = {DEPLOYMENT_NAMES[stage]: share for stage, share in own.gpu_shares.items()}
    for one in application["deployments"]:
        one["ray_actor_options"]["num_gpus"] = shares.get(one["name"], 0.0) if gpus > 0 else 0.0
    return document


@contextmanager
def service(
    cluster: Cluster,
    family: str,
    weights: Path | None,
    timeout_s: float = START_S,
    make: Callable[[int], dict[str, Any]] | None = None,
) -> Iterator[Service]:
    """Run the application with one family, wait until it is ready, and remove it afterwards.

    Args:
        cluster: Cluster on which it runs.
        family: Family whose stages it runs.
        weights: Folder with the family's weights.
        timeout_s: Seconds that its start may take.
        make: Makes the document for a port, where it is not the shipped one.

    Raises:
        ServiceFailedError: The application does not come up in time.
    """
    from ray import serve

    began, began_at = time.monotonic(), time.time()
    port = free_port()
    submit(cluster, make(port) if make else shipped_document(family, weights, port, cluster.gpus))
    try:
        url = wait_until_running(cluster, timeout_s, lambda text: print(f"  {text}", flush=True))
        yield Service(cluster, url, time.monotonic() - began, began_at)
    finally:
        serve.shutdown()  # type: ignore[no-untyped-call]  # Ray's own, without types


def stage_stats(stage: str, timeout_s: float = ASK_S) -> list[StageStats]:
    """Counters of a stage's replicas."""
    from ray import serve

    handle = serve.get_deployment_handle(DEPLOYMENT_NAMES[stage], APP_NAME)
    found: list[StageStats] = handle.broadcast("stats").results(timeout_s=timeout_s)
    return found


def stage_memory(processes: Mapping[int, int]) -> dict[str, dict[str, float]]:
    """Stage -> bytes of the GPU that its first replica may have and has.

    Args:
        processes: Process id -> bytes that the driver counts, `driver_memory()`.
    """
    found: dict[str, dict[str, float]] = {}
    for stage in STAGE_NAMES:
        [one, *_] = stage_stats(stage)
        if one.gpu is not None:
            found[stage] = {
                "cap": one.gpu.cap_bytes,
                "total": one.gpu.total_bytes,
                "reserved": one.gpu.reserved_bytes,
                "peak": one.gpu.peak_bytes,
                "driver": processes.get(one.pid, 0),
            }
    return found


def driver_memory() -> dict[int, int]:
    """Process id -> bytes, as the driver counts: context, libraries and graphs included. Empty where it does not tell."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return {}
    command = [program, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)  # noqa: S603 - fixed arguments
    return parse_driver_memory(answer.stdout)


def parse_driver_memory(text: str) -> dict[int, int]:
    """Lines `pid, MiB`; what is not a number is left out."""
    found = {}
    for line in text.splitlines():
        pid, _, used = line.partition(",")
        if pid.strip().isdigit() and used.strip().isdigit():
            found[int(pid)] = int(used) * MIB
    return found


def logged(folder: Path, events: Iterable[str]) -> list[dict[str, Any]]:
    """What replicas logged about themselves under these names, oldest first, each once."""
    wanted, found = set(events), {}
    for path in sorted(folder.rglob("*.err")) + sorted(folder.rglob("*.log")):
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if not line.startswith("{") or "event" not in line:
                continue
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, dict) and entry.get("event") in wanted:
                found[line] = entry
    return sorted(found.values(), key=lambda entry: str(entry.get("timestamp", "")))


def start_lines(folder: Path, began_at: float) -> list[dict[str, Any]]:
    """What each replica's start took, in the order in which their processes began, `began_s` after a moment; older ones left out.

    Args:
        folder: Where replicas log.
        began_at: The moment, seconds since 1970.
    """
    found = [line for line in logged(folder, (READY,)) if line["began_at"] + line["all_s"] >= began_at]
    known = ("event", "level", "timestamp", "deployment", "began_at")
    made = [
        {"began_s": round(line["began_at"] - began_at, 2), **{k: v for k, v in line.items() if k not in known}}
        for line in found
    ]
    return sorted(made, key=lambda line: float(line["began_s"]))


def jobs_at_once(url: str, wav: bytes, count: int) -> tuple[float, list[Job | str]]:
    """Wall seconds of `count` equal jobs sent together, and what became of each; a failure is its text."""

    def one(_: int) -> Job | str:
        try:
            return run_job(url, wav)
        except (LiveAnchorError, httpx.HTTPError) as error:
            return f"{type(error).__name__}: {error}"

    began = time.monotonic()
    with ThreadPoolExecutor(count) as pool:
        results = list(pool.map(one, range(count)))
    return time.monotonic() - began, results


def kill_under_load(url: str, wav: bytes, count: int, after_s: float) -> dict[str, Any]:
    """SIGKILL every `Renderer` while `count` jobs run; what became of the jobs, and when a new one answered."""
    pids = [one.pid for one in stage_stats("renderer")]
    back: list[float] = []

    def kill() -> None:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        with suppress(LiveAnchorError):  # none came back: `back` stays empty
            back.append(wait_until(lambda: any(one.pid not in pids for one in stats_if_any("renderer")), BACK_S))

    timer = threading.Timer(after_s, kill)
    timer.start()
    seconds, results = jobs_at_once(url, wav, count)
    timer.join()
    return {
        "seconds": seconds,
        "jobs": count,
        "completed": sum(isinstance(one, Job) for one in results),
        "failures": [one for one in results if isinstance(one, str)],
        "killed": len(pids),
        "back_s": back[0] if back else None,
    }


def live_sessions(url: str, speech: Path, count: int, seconds: float) -> dict[str, Any]:
    """`count` clients that speak all the time: what they saw, and what the sessions last said of themselves."""
    options = ("--seconds", f"{seconds:g}", "--speech", str(speech))
    clients = [ClientProcess(url, *options) for _ in range(count)]
    last: dict[str, Any] = {}
    pause, deadline = threading.Event(), time.monotonic() + seconds + 60.0
    while time.monotonic() < deadline and any(client.process.poll() is None for client in clients):
        with suppress(httpx.HTTPError):  # a busy server is asked again
            for session in httpx.get(f"{url}/stream/webrtc/stats", timeout=10).json()["sessions"]:
                last[session["session_id"]] = session
        pause.wait(SAMPLE_S)
    reports: list[dict[str, Any]] = []
    failures: list[str] = []
    for client in clients:
        try:
            reports.append(client.report(10.0))
        except (LiveAnchorError, subprocess.TimeoutExpired) as error:
            client.process.kill()
            failures.append(str(error))
    return {"wanted": count, "reports": reports, "sessions": list(last.values()), "failures": failures}


def wait_until(condition: Callable[[], bool], timeout_s: float) -> float:
    """Seconds until it holds.

    Raises:
        LiveAnchorError: Not within the time.
    """
    began, pause = time.monotonic(), threading.Event()
    while not condition():
        if time.monotonic() - began > timeout_s:
            raise LiveAnchorError(f"not within {timeout_s:g} s")
        pause.wait(0.1)
    return time.monotonic() - began


def cap_in_a_worker(share: float) -> dict[str, Any]:
    """Whether a Ray worker that places itself as replicas do is refused memory beyond its share, and works on."""
    import ray

    @ray.remote(num_gpus=share)
    class Prober:
        """Takes its place, then asks for too much."""

        def run(self) -> dict[str, Any]:
            from benchmarks.graph.shared_gpu_worker import allocate_beyond
            from deployments.config import ModelSettings
            from deployments.graph.placement import assigned_gpu_share, gpu_memory, take_place

            device, own = take_place(ModelSettings()), assigned_gpu_share()
            if device != "cuda":
                return {"device": device, "share": own}
            found = allocate_beyond(own)
            memory = gpu_memory()
            return found | {"device": device, "share": own, "cap": memory.cap_bytes if memory else 0}

    actor: Any = Prober.remote()  # type: ignore[attr-defined]  # what the decorator adds
    found: dict[str, Any] = ray.get(actor.run.remote(), timeout=ASK_S)
    ray.kill(actor)
    return found


def stats_if_any(stage: str, timeout_s: float = 1.0) -> list[StageStats]:
    """Counters of a stage's replicas; none while one is dead and Ray does not know it."""
    from ray.exceptions import RayError
    from ray.serve.exceptions import RayServeException

    try:
        return stage_stats(stage, timeout_s)
    except (RayError, RayServeException, TimeoutError):  # the dead one is asked once more before Ray knows
        return []
