"""A Ray cluster to run on: the one that is reachable from here, or one of our own. What others run on it is left alone."""

from __future__ import annotations

import logging
import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

from kernels.errors import first_line
from serve_app.cluster.address import ADDRESS_ENV, Address, answers, find_address
from serve_app.cluster.errors import ServiceFailedError
from serve_app.cluster.gpu_nodes import OBJECT_STORE_BYTES, further_nodes, living_nodes, only_gpu
from serve_app.cluster.signals import sigterm_kept
from serve_app.cluster.status import progress, reason, service_url, status
from serve_app.config.declare import APP_NAME

_log = structlog.get_logger(__name__)

MIN_CPUS = 2
POLL_S = 0.25
PROXY_CALLBACK_ENV = "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH"
PROXY_CALLBACK = "serve_app.http.proxy_sockets:bounded_sockets"
"""What bounds WebSockets in the proxies of a cluster that starts here."""
NICENESS_ENV = "RAY_worker_niceness"
NICENESS = "0"
"""By default (15), Ray makes its workers yield to all other programs of the machine: beside busy ones, a replica does not start."""
DASHBOARD_WAIT_ENV = "RAY_DASHBOARD_STARTUP_TIMEOUT_S"
DASHBOARD_WAIT_S = "300"
"""Ray gives up after 60 s, which a busy machine needs."""
NODE_DEATH = {"RAY_health_check_period_ms": "1000", "RAY_health_check_failure_threshold": "3"}
"""A node whose processes are gone counts as dead after 3 s (Ray's own: 15 s), one that is only slow to answer after 30 s."""
CALL_DEATH = {"RAY_timeout_ms_task_wait_for_death_info": "200", "RAY_core_worker_internal_heartbeat_ms": "200"}
"""A call whose connection broke fails in 0.2 to 0.4 s where nobody says that the callee died (Ray's own 1000 and 1000: 1 to 2 s),
as all calls do to a node that is gone and does not count as dead yet."""
QUIET_PORTS = range(20_000, 32_000)
"""Ray's workers take 10002 to 19999, Linux gives away 32768 to 60999: a port of theirs may be gone when it is wanted."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process is connected to.

    Attributes:
        dashboard_url: Where Ray's REST API answers.
        owned: True when it was started here and ends with this process.
        gpus: GPUs of the whole cluster.
        logs: Folder where Ray Serve's logs of this node lie; empty where it is not on this machine.
    """

    dashboard_url: str
    owned: bool
    gpus: float
    logs: str = ""


def free_port() -> int:
    """A TCP port that nothing listens on right now, and that the system gives to no program that asks for any.

    Raises:
        ServiceFailedError: All of `QUIET_PORTS` are taken.
    """
    for port in random.sample(QUIET_PORTS, len(QUIET_PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise ServiceFailedError(f"no TCP port of {QUIET_PORTS[0]}..{QUIET_PORTS[-1]} is free")


@contextmanager
def connected(probe: Callable[[Address], bool] = answers) -> Iterator[Cluster | None]:
    """Connect to the cluster that `RAY_ADDRESS` names or that runs on this machine; None where none runs. It is left as it is.

    A cluster that Ray remembers from before a crash counts as none; a log line says so.

    Args:
        probe: Says whether a cluster answers at an address.

    Raises:
        InvalidInputError: `RAY_ADDRESS` is no address of a cluster.
        ServiceFailedError: `RAY_ADDRESS` is set and nothing answers there, or what answers cannot be used.
    """
    _set_up_environment()
    import ray

    address = find_address()
    if address is not None and not probe(address):
        if address.named:
            raise _nobody_answers()
        _log.warning("the cluster that Ray remembers is gone; going on without it", address=address.target)
        address = None
    if address is None:
        yield None
        return
    try:
        with sigterm_kept():
            context: Any = ray.init(
                address="auto", log_to_driver=False, logging_level=logging.ERROR, namespace=APP_NAME
            )
    except ConnectionError as error:
        if address.named:
            raise _nobody_answers() from error
        yield None
        return
    except RuntimeError as error:  # another version of Ray or Python, or a token that it wants
        raise ServiceFailedError(f"the Ray cluster at {address.target}: {first_line(error)}") from error
    try:
        yield _described(context, owned=False)
    finally:
        ray.shutdown()


def _nobody_answers() -> ServiceFailedError:
    return ServiceFailedError(
        f"{ADDRESS_ENV} is {os.environ.get(ADDRESS_ENV)}, and no Ray answers there; "
        f"start it, or unset {ADDRESS_ENV} to go on without it"
    )


@contextmanager
def private(gpus: Sequence[str] = ()) -> Iterator[Cluster]:
    """A cluster of our own on this machine, next to any other; it ends with the block.

    Args:
        gpus: GPUs to use, one Ray node each, as `CUDA_VISIBLE_DEVICES` spells them; one node with all that Ray finds where empty.

    Raises:
        ServiceFailedError: A node did not come up.
    """
    _set_up_environment()
    import ray

    for name, value in NODE_DEATH.items():
        os.environ.setdefault(name, value)
    cpus = max(MIN_CPUS, (os.cpu_count() or 1) // max(1, len(gpus)))
    with ExitStack() as stack, _importable():
        with sigterm_kept(), only_gpu(gpus[0]) if gpus else nullcontext():
            context = _start(cpus, 1 if gpus else None)
        stack.callback(ray.shutdown)
        if len(gpus) > 1:
            stack.enter_context(further_nodes(context.address_info["gcs_address"], gpus[1:], cpus, living_nodes))
        yield _described(context, owned=True)


def _set_up_environment() -> None:
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault(PROXY_CALLBACK_ENV, PROXY_CALLBACK)
    os.environ.setdefault(NICENESS_ENV, NICENESS)
    os.environ.setdefault(DASHBOARD_WAIT_ENV, DASHBOARD_WAIT_S)  # read when Ray is imported
    for name, value in CALL_DEATH.items():
        os.environ.setdefault(name, value)
    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"  # leftover threads of Ray Serve must not start a cluster at the end


def _described(context: Any, owned: bool) -> Cluster:
    import ray

    resources: Any = ray.cluster_resources
    gpus = float(resources().get("GPU", 0.0))
    session: str = getattr(context, "address_info", {}).get("session_dir") or ""  # Ray Client has none
    logs = str(Path(session, "logs", "serve")) if session else ""
    return Cluster(f"http://{context.dashboard_url}" if context.dashboard_url else "", owned, gpus, logs)


def _start(cpus: int, gpus: int | None) -> Any:
    import ray

    return ray.init(
        address="local",
        num_cpus=cpus,
        num_gpus=gpus,
        object_store_memory=OBJECT_STORE_BYTES,
        include_dashboard=True,
        dashboard_port=free_port(),
        log_to_driver=False,
        logging_level=logging.ERROR,
        namespace=APP_NAME,
    )


@contextmanager
def _importable() -> Iterator[None]:
    """Let worker processes import what this process can import, wherever it was started from."""
    root = str(Path(__file__).resolve().parents[2])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = root if not before else f"{root}{os.pathsep}{before}"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _api(cluster: Cluster) -> Any:
    from ray.dashboard.modules.serve.sdk import ServeSubmissionClient

    if not cluster.dashboard_url:
        raise ServiceFailedError("this Ray cluster runs without its dashboard, which Ray Serve is deployed through")
    return ServeSubmissionClient(cluster.dashboard_url)


def _asked(cluster: Cluster, question: Callable[[Any], Any]) -> Any:
    """An answer of Ray's REST interface."""
    try:
        return question(_api(cluster))
    except (OSError, RuntimeError) as error:  # nothing listens there; or a status that is not 200
        where = f"Ray's dashboard at {cluster.dashboard_url}"
        raise ServiceFailedError(f"{where} does not answer as it should ({first_line(error)})") from error


def submit(cluster: Cluster, document: dict[str, Any]) -> None:
    """Hand the document to Ray Serve; what already runs and has not changed keeps running.

    Ray Serve takes the document for everything that should run, so the cluster's other applications are put into it.

    Raises:
        ServiceFailedError: Ray does not take it, or does not answer.
    """
    deployed: dict[str, Any] = _asked(cluster, lambda api: api.get_serve_details()).get("applications", {})
    others = [
        application["deployed_app_config"]
        for name, application in deployed.items()
        if name != APP_NAME and application.get("deployed_app_config") and application.get("status") != "DELETING"
    ]
    whole = {**document, "applications": [*document["applications"], *others]}
    _asked(cluster, lambda api: api.deploy_applications(whole))


def details(cluster: Cluster) -> dict[str, Any]:
    """What Ray Serve says about the cluster; empty where Serve does not run or has no interface.

    Raises:
        ServiceFailedError: It does not answer.
    """
    if not cluster.dashboard_url:
        return {}
    found: dict[str, Any] = _asked(cluster, lambda api: api.get_serve_details())
    return found


def wait_until_running(
    cluster: Cluster,
    timeout_s: float,
    on_status: Callable[[str], None] = lambda text: None,
    clock: Callable[[], float] = time.monotonic,
) -> str:
    """Wait for the application and return its address. A dashboard that does not answer for a moment is asked again.

    Raises:
        ServiceFailedError: It cannot be deployed, or not within the time.
    """
    deadline = clock() + timeout_s
    pause = threading.Event()
    said = ""

    def say(text: str) -> None:
        nonlocal said
        if text != said:
            on_status(text)
        said = text

    while True:
        try:
            found = details(cluster)
        except ServiceFailedError as error:
            if clock() > deadline:
                raise
            say(f"starting; {error}")
            pause.wait(POLL_S)
            continue
        if (url := service_url(found)) is not None:
            return url
        if status(found) in ("DEPLOY_FAILED", "UNHEALTHY"):
            raise ServiceFailedError(reason(found, cluster.gpus))
        say(progress(found, cluster.gpus))
        if clock() > deadline:
            why = reason(found, cluster.gpus) or "Ray Serve does not say why"
            raise ServiceFailedError(f"still {status(found)} after {timeout_s:.0f} s: {why}")
        pause.wait(POLL_S)
