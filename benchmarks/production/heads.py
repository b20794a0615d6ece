"""Videos that are lost or made twice where the machine of Ray's head node goes down in the middle of them.

`liveanchor serve` runs with a cluster of its own. First its control store (`gcs_server`) is killed with SIGKILL, so that the head
node is gone while replicas still work; a moment later all other processes are, as when the machine ends. The command is started
again over the same data folder, until all videos are made. The caller repeats a request under its key until it is answered.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from benchmarks.core.process_memory import PROC, descendants
from benchmarks.core.record import BenchmarkRecord, make_record
from benchmarks.core.run_info import RunInfo
from benchmarks.graph.run import speech, wav_16
from benchmarks.production.crashes import Night, send_all
from benchmarks.production.receiver import Receiver, receiving
from kernels.errors import LiveAnchorError
from serve_app.cluster.own import free_port

VIDEOS: Final = 20
KILLS: Final = 3
SPEECH_S: Final = 1.5
PATIENCE_S: Final = 600.0
"""Longest time for one start, and for all videos after the last kill."""
STARTS: Final = 3
"""Ray gives a node 30 s to start, which a busy machine may not keep."""
HEADLESS_S: Final = 2.0
"""Seconds for which the rest of the cluster lives on without its control store."""
COMMAND: Final = "from serve_app.cli.app import main; main()"
ROOT: Final = Path(__file__).resolve().parents[2]


class HeadNode:
    """A machine that runs the service: its head node, the only one, with everything on it.

    Args:
        folder: Holds the service's data; its path must be short, because Ray puts sockets below it.
        receiver_port: Where messages may go on this machine.
    """

    def __init__(self, folder: Path, receiver_port: int) -> None:
        self.port = free_port()
        self._folder = folder
        kept = {name: text for name, text in os.environ.items() if not name.startswith("LIVEANCHOR_")}
        self._environment = kept | {
            "LIVEANCHOR_HOME": str(folder / "data"),
            "LIVEANCHOR_FETCH__NETWORKS": '["127.0.0.1/32"]',
            "LIVEANCHOR_FETCH__PORTS": f"[{receiver_port}]",
            # windows of several videos in one batch may differ by a level of a pixel
            "LIVEANCHOR_BATCHES__AUDIO_FEATURES__MAX_SIZE": "1",
            "LIVEANCHOR_BATCHES__MOTION_DIFFUSION__MAX_SIZE": "1",
            "LIVEANCHOR_BATCHES__RENDERER__MAX_SIZE": "1",
            "PYTHONPATH": str(ROOT),
            "RAY_ADDRESS": "local",  # whatever other cluster runs on this machine
            "RAY_TMPDIR": str(folder / "ray"),
        }
        self._command: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address of the service."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and return when the whole graph answers.

        Raises:
            LiveAnchorError: It does not come up.
        """
        command = [sys.executable, "-c", COMMAND, "serve", "--port", str(self.port)]
        for _ in range(STARTS):
            with (self._folder / "said").open("ab") as said:
                self._command = subprocess.Popen(  # noqa: S603  # our own command
                    command, cwd=self._folder, env=self._environment, stdout=said, stderr=said
                )
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline and self._command.poll() is None:
                with suppress(httpx.HTTPError):
                    if httpx.get(f"{self.url}/readyz", timeout=10.0).status_code == 200:
                        return
                _pause(0.5)
        raise LiveAnchorError(f"the service does not start: {(self._folder / 'said').read_text()[-2000:]}")

    def kill(self) -> None:
        """End the control store with SIGKILL, and soon after it everything else; return when nothing runs any more."""
        if self._command is None:
            return
        pids = descendants(self._command.pid)
        for pid in pids:
            if _is_control_store(pid):
                os.kill(pid, signal.SIGKILL)
        _pause(HEADLESS_S)
        self._command.kill()
        for pid in {*pids, *descendants(self._command.pid)}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._command.wait()
        self._command = None
        while any((PROC / str(pid)).exists() and not _is_dead(pid) for pid in pids):
            _pause(0.1)


def head_night(folder: Path, videos: int = VIDEOS, kills: int = KILLS) -> Night:
    """Live through one night.

    Args:
        folder: An empty folder with a short path.
        videos: Videos that come in; each has a seed of its own.
        kills: How often the head node goes down before they are made.

    Returns:
        What became of them.
    """
    wav = wav_16(speech(SPEECH_S))
    with receiving(0.0) as receiver:
        head, ids = HeadNode(folder, receiver.port), dict[int, str]()
        try:
            head.start()
            undisturbed = [_generated(head.url, wav, seed) for seed in range(videos)]
            calls = (head.port, receiver.port, [wav] * videos, ids, PATIENCE_S)
            calling = threading.Thread(target=send_all, args=calls, daemon=True)
            calling.start()
            for number in range(kills):
                _wait_for_work(head.url, at_least=(number + 1) * videos // (kills + 1))
                head.kill()
                head.start()
            calling.join(PATIENCE_S)
            made = _ended(head.url, receiver, videos)
            return _judged(head.url, made, ids, undisturbed, receiver, kills)
        finally:
            head.kill()


def head_records(run: RunInfo, suite: str) -> list[BenchmarkRecord]:
    """Count over one night.

    Raises:
        LiveAnchorError: The service does not start, or nothing was interrupted, so nothing was shown.
    """
    with TemporaryDirectory(prefix="la-") as folder:
        found = head_night(Path(folder))
    if not found.cut_off:
        raise LiveAnchorError("no attempt was cut off")
    return [
        make_record(
            run,
            suite=suite,
            case=case,
            unit="videos",
            samples=[count],
            value=float(count),
            n=found.kills,
            higher_is_better=False,
            baseline="attempts that the kills cut off",
            baseline_value=float(found.cut_off),
            floor_value=0.0,
        )
        for case, count in (("head_jobs_lost", found.lost), ("head_jobs_twice", found.twice))
    ]


def _wait_for_work(url: str, at_least: int) -> None:
    """Wait until so many videos are made and another one is under way."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(httpx.HTTPError):
            states = Counter(one["status"] for one in _videos(url))
            if states["completed"] >= at_least and states["in_progress"]:
                return
        _pause(0.05)
    raise LiveAnchorError(f"no video is under way after {at_least} were made")


def _ended(url: str, receiver: Receiver, videos: int) -> list[dict[str, Any]]:
    """All videos, once they have ended and the receiver knows it, or the time is over."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with suppress(httpx.HTTPError):
            found = _videos(url)
            done = len(found) >= videos and all(one["status"] in ("completed", "failed") for one in found)
            told = set(receiver.taken.values()) >= {one["id"] for one in found}
            if (done and told) or time.monotonic() > deadline:
                return found
        _pause(0.2)


def _judged(
    url: str,
    made: list[dict[str, Any]],
    ids: dict[int, str],
    undisturbed: list[bytes],
    receiver: Receiver,
    kills: int,
) -> Night:
    there, messages = {one["id"]: one for one in made}, Counter(receiver.taken.values())
    lost = twice = 0
    for number, data in enumerate(undisturbed):
        video_id = ids.get(number, "")
        found = there.pop(video_id, None)
        fine = found is not None and found["status"] == "completed"
        same = fine and httpx.get(f"{url}/v1/videos/{video_id}/content", timeout=60.0).content == data
        lost += not same or not messages[video_id]
        twice += messages[video_id] > 1
    return Night(kills, lost, twice + len(there), sum(one["attempt"] for one in made) - len(made))


def _videos(url: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{url}/v1/videos", params={"limit": "100"}, timeout=30.0).raise_for_status()
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


def _generated(url: str, wav: bytes, seed: int) -> bytes:
    answer = httpx.post(f"{url}/generate", files={"audio": wav}, data={"seed": str(seed)}, timeout=PATIENCE_S)
    return answer.raise_for_status().content


def _is_control_store(pid: int) -> bool:
    try:
        return b"gcs_server" in (PROC / str(pid) / "cmdline").read_bytes().partition(b"\0")[0]
    except OSError:
        return False


def _is_dead(pid: int) -> bool:
    """Whether a process has ended that nobody has asked about yet."""
    try:
        return "Z" in (PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[:1]
    except OSError:
        return True


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)
