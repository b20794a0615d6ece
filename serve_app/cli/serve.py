"""`liveanchor serve`: the service, on the Ray cluster that is here or on one of its own."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from kernels.errors import InvalidInputError
from serve_app.cli.console import existing_file, stderr, stdout, waiting
from serve_app.cli.whole_option import whole

if TYPE_CHECKING:
    from serve_app.cluster.own import Cluster
    from serve_app.config.settings import AppConfig

START_S = 300.0
WATCH_S = 10.0
PATIENCE = 3
MAX_DRAIN_S = 24 * 3600


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 for every interface.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(parser=whole("--port", range(1, 65536)), help="Port to listen on.")] = 8000,
    config: Annotated[
        Path | None,
        typer.Option(help="YAML with settings, as serve_config.yaml has under args:; LIVEANCHOR_... variables win."),
    ] = None,
    gpus: Annotated[
        str | None,
        typer.Option(
            help="GPUs of a cluster that is started here: all (where nothing is said), how many, or indices such as 0,2."
        ),
    ] = None,
    drain_s: Annotated[
        int,
        typer.Option(
            "--drain-s",
            parser=whole("--drain-s", range(MAX_DRAIN_S + 1)),
            help="Seconds that work may take to finish when the service is told to end, on a cluster that is started here.",
        ),
    ] = 30,
) -> None:
    """Serve talking heads over HTTP until interrupted.

    Uses the Ray cluster that RAY_ADDRESS names or that runs on this machine;
    where there is none, starts one that ends with this command (Ctrl-C or
    SIGTERM, exit code 0), with a Ray node per GPU, so that every GPU has a whole
    set of stages. Told to end, it takes nothing new, lets files, videos and live
    sessions finish for at most --drain-s, ends the sessions that are left and
    gives videos back to the queue; told twice, it ends at once. GPU shares are set where the cluster has GPUs. Prints the address,
    where the logs are, and the commands for state and end.

    Example: liveanchor serve --host 0.0.0.0 --port 8000
    """
    from engines.weights.home import liveanchor_home
    from serve_app.cluster.checks import check_port_is_free, refuse_takeover
    from serve_app.cluster.gpu_nodes import choose_gpus, visible_gpus
    from serve_app.cluster.own import connected, details, private, submit, wait_until_running
    from serve_app.config.declare import fit_to, serve_document, write_document
    from serve_app.config.settings import load_config

    settings = load_config(existing_file(config, "--config") if config else None)
    with waiting("connecting to Ray") as status, ExitStack() as stack:
        cluster = stack.enter_context(connected())
        if cluster is None:
            check_port_is_free(host, port)
            status.update(Text("starting Ray"))
            found = visible_gpus()
            cluster = stack.enter_context(private(choose_gpus(gpus, found) if gpus is not None else found))
        else:
            if gpus is not None:
                raise InvalidInputError(
                    "--gpus", gpus, "nothing: a Ray cluster runs here already, with nodes of its own"
                )
            refuse_takeover(details(cluster), host, port)
        document = serve_document(fit_to(settings, cluster.gpus), host, port, one_proxy=cluster.owned)
        kept = write_document(document, liveanchor_home() / "serve")
        submit(cluster, document)
        url = wait_until_running(cluster, START_S, lambda text: status.update(Text(text)))
        status.stop()
        stdout.print(url)
        stderr.print(f"configuration: {kept}")
        if note := key_note(settings, host):
            stderr.print(note)
        if cluster.logs:
            stderr.print(f"logs: {cluster.logs}")
        stderr.print(f"state: serve status --address {cluster.dashboard_url}")
        if not cluster.owned:
            stderr.print("runs on the Ray cluster that was here; to end all that Ray Serve runs there:")
            stderr.print(f"serve shutdown --address {cluster.dashboard_url}")
            return
        stderr.print("press Ctrl-C to stop")
        stop = threading.Event()
        told_once = partial(_told, stop)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, told_once)
        try:
            watch(cluster, stop)
            drain_and_say(float(drain_s))
        except KeyboardInterrupt:
            stderr.print("told twice: ends at once")
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: None)  # Ray's processes are being ended


def drain_and_say(seconds: float) -> None:
    """Let what runs finish, and say so where something does."""
    from serve_app.cluster.drain import Work, drain

    def say(left: int) -> None:
        stderr.print(f"{left} in work: waiting for at most {seconds:g} s (Ctrl-C again ends at once)")

    if left := drain(Work(), seconds, say):
        stderr.print(f"{left} did not finish: live sessions were ended, videos go on after the next start")


def _told(stop: threading.Event, *_: object) -> None:
    """Take a signal: the first one ends the service, the next one does so at once."""
    if stop.is_set():
        raise KeyboardInterrupt
    stop.set()


def key_note(settings: AppConfig, host: str) -> str:
    """What to tell an operator whose service needs keys, or lets other machines in without; empty where there is nothing to say."""
    from serve_app.access.key_file import KeyFile
    from serve_app.access.loopback import is_loopback

    required = settings.keys.required
    if required == "never" and not is_loopback(host):
        return "keys.required is never: whoever reaches this port may do everything"
    if required == "never" or (required == "auto" and is_loopback(host)):
        return ""
    there = any(key.valid(time.time()) for key in KeyFile(settings.keys.path()).list())
    return "callers need an API key" + ("" if there else ", and there is none yet: liveanchor keys create NAME")


def watch(cluster: Cluster, stop: threading.Event, every_s: float = WATCH_S) -> None:
    """Return once `stop` is set. Ray's control processes may be away for a while: the service goes on without them.

    Raises:
        ServiceFailedError: The application, or Ray itself, is gone, `PATIENCE` times in a row.
    """
    from serve_app.cluster.errors import ServiceFailedError
    from serve_app.cluster.own import details
    from serve_app.cluster.status import is_deployed

    times = 0
    while not stop.wait(every_s):
        try:
            gone = (
                "" if is_deployed(details(cluster)) else "the application was removed from the cluster by someone else"
            )
        except ServiceFailedError as error:
            gone = error.reason
        times = times + 1 if gone else 0
        if times >= PATIENCE:
            raise ServiceFailedError(gone)
