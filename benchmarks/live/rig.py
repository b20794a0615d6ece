"""What the live benchmark runs on: a private graph, stamped servers, measuring clients, each in processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx
import numpy as np
from PIL import Image

from benchmarks.core.process_memory import PROC, descendants
from benchmarks.graph.run import SPEECH
from engines.weights.home import liveanchor_home
from kernels.arrays import F32
from kernels.errors import LiveAnchorError
from pipeline.media.audio_in import decode_audio
from pipeline.presenter.draw import draw_presenter
from pipeline.types import SAMPLE_RATE_HZ

START_S: Final = 300.0
PORTRAITS: Final = {"512x512": (512, 512), "1080x1920": (1080, 1920)}
_TICKS: Final = os.sysconf("SC_CLK_TCK")


@contextmanager
def private_graph(fields: Mapping[str, Any] | None = None) -> Iterator[str]:
    """The address of the default application, on a cluster and a data folder of its own; models that are here are taken along.

    Args:
        fields: Groups of the configuration that differ from the defaults.
    """
    from serve_app.cluster.own import free_port, private, submit, wait_until_running
    from serve_app.config.declare import fit_to, serve_document
    from serve_app.config.settings import AppConfig

    with TemporaryDirectory(prefix="la-live-") as folder:
        if (weights := liveanchor_home() / "weights").is_dir():
            shutil.copytree(weights, Path(folder) / "weights")
        before = os.environ.get("LIVEANCHOR_HOME")
        os.environ["LIVEANCHOR_HOME"] = folder
        try:
            with private() as here:
                config = AppConfig.model_validate(dict(fields or {}))
                submit(here, serve_document(fit_to(config, here.gpus), "127.0.0.1", free_port()))
                yield wait_until_running(here, START_S, lambda text: None)
        finally:
            if before is None:
                del os.environ["LIVEANCHOR_HOME"]
            else:
                os.environ["LIVEANCHOR_HOME"] = before


def register_presenters(url: str) -> dict[str, str]:
    """Register the drawn presenter at the sizes of `PORTRAITS`: name -> avatar id."""
    found = {}
    for name, (width, height) in PORTRAITS.items():
        picture = BytesIO()
        drawing = Image.fromarray(draw_presenter(1080, 1920).rgb)
        if width == height:
            drawing = drawing.crop((0, 120, 1080, 1200))
        drawing.resize((width, height)).save(picture, "PNG")
        answer = httpx.post(f"{url}/avatars", files={"file": (f"{name}.png", picture.getvalue())}, timeout=120)
        if answer.is_error:
            raise LiveAnchorError(f"{name}: {answer.text[:300]}")
        facts = answer.json()
        if (facts["width"], facts["height"]) != (width, height):
            raise LiveAnchorError(f"{name} became {facts['width']}x{facts['height']}")
        found[name] = str(facts["avatar_id"])
    return found


@contextmanager
def stamped_server(*options: str, module: str = "benchmarks.live.stamped_server") -> Iterator[tuple[str, int]]:
    """Address and process id of `benchmarks.live.stamped_server`, or of a server like it."""
    from serve_app.cluster.own import free_port

    port = free_port()
    command = [sys.executable, "-m", module, "--port", str(port), *options]
    process = subprocess.Popen(command)  # noqa: S603  # our own module
    try:
        url = f"http://127.0.0.1:{port}"
        _until(lambda: _answers(f"{url}/usage"), 60.0)
        yield url, process.pid
    finally:
        process.kill()
        process.wait()


class ClientProcess:
    """A measuring client in its own process.

    Args:
        url: Address of the server.
        options: Command-line options of the module.
        module: Name of the module to run.
    """

    def __init__(self, url: str, *options: str, module: str = "benchmarks.live.client") -> None:
        command = [sys.executable, "-m", module, "--url", url, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  # our own module

    def report(self, timeout_s: float = 900.0) -> dict[str, Any]:
        """Wait for its end and read what it measured.

        Raises:
            LiveAnchorError: It failed.
        """
        out, _ = self.process.communicate(timeout=timeout_s)
        if self.process.returncode:
            raise LiveAnchorError(f"a measuring client ended with {self.process.returncode}")
        found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
        return found


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far; its threads included."""
    fields = (PROC / str(pid) / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def replica_pids(deployment: str) -> list[int]:
    """Processes of a deployment of our own cluster."""
    found = []
    for pid in descendants(os.getpid()):
        try:
            name = (PROC / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue  # ended meanwhile
        if name.startswith("ray::ServeReplica") and f":{deployment}" in name:
            found.append(pid)
    return found


def cpu_share(pids: list[int], seconds: float) -> float:
    """Cores that processes use together over a while."""
    before = sum(map(cpu_seconds, pids))
    began = time.monotonic()
    threading.Event().wait(seconds)
    return (sum(map(cpu_seconds, pids)) - before) / (time.monotonic() - began)


def words_and_pauses(count: int, word_s: float = 0.5, pause_s: float = 1.5) -> F32:
    """Stretches of the committed sample that begin loud, each after a pause: onsets that can be told apart."""
    pcm = decode_audio(SPEECH).pcm
    block = round(0.02 * SAMPLE_RATE_HZ)
    loudness = np.sqrt(np.mean(np.square(pcm[: len(pcm) // block * block].reshape(-1, block)), axis=1))
    starts = [at for at in range(1, len(loudness)) if loudness[at] > 0.06 and loudness[at - 1] < 0.03]
    word, pause = round(word_s * SAMPLE_RATE_HZ), np.zeros(round(pause_s * SAMPLE_RATE_HZ), np.float32)
    parts = []
    for number in range(count):
        begin = starts[number % len(starts)] * block
        parts += [pause, pcm[begin : begin + word]]
    return np.concatenate([*parts, pause]).astype(np.float32)


def without_pauses(pcm: F32, least_rms: float = 0.03) -> F32:
    """The loud blocks of 20 ms of float32 (n,), one after the other."""
    block = round(0.02 * SAMPLE_RATE_HZ)
    blocks = pcm[: len(pcm) // block * block].reshape(-1, block)
    loud: F32 = blocks[np.sqrt(np.mean(np.square(blocks), axis=1)) >= least_rms].reshape(-1)
    return loud


def sessions_left(url: str) -> int:
    """Live sessions that are there now."""
    return int(httpx.get(f"{url}/stream/webrtc/stats", timeout=20).json()["active"])


def wait_until_free(url: str, timeout_s: float = 60.0) -> float:
    """Wait until no session is left; how long it took. A service that does not answer is asked again.

    Raises:
        LiveAnchorError: Not within `timeout_s`.
    """

    def free() -> bool:
        try:
            return sessions_left(url) == 0
        except httpx.HTTPError:
            return False

    began = time.monotonic()
    _until(free, timeout_s)
    return time.monotonic() - began


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.HTTPError:
        return False


def _until(condition: Callable[[], bool], timeout_s: float) -> None:
    deadline, pause = time.monotonic() + timeout_s, threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise LiveAnchorError(f"not within {timeout_s:g} s")
        pause.wait(0.05)
