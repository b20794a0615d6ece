"""Sessions that all speak, at steady state: what arrived, what came late, what the stages spent on it, and whether it counts."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np

from benchmarks.cluster_model.costs import H200
from benchmarks.graph.gpu_service import stage_stats
from benchmarks.live.rig import ClientProcess
from deployments.graph.calls import StageStats
from kernels.errors import LiveAnchorError

LATE_BAR: Final = 0.01
INTERVAL_BAR_MS: Final = 60.0
VIEWERS_PER_PROCESS: Final = 4
STABLE_S: Final = 5.0
LONGEST_WAIT_S: Final = 60.0
STAGES: Final = ("audio_features", "motion_diffusion", "renderer")
BATCH_GROWTH: Final = {
    "audio_features": H200.audio_ms(2) / H200.audio_ms(1) - 1,
    "motion_diffusion": H200.motion_ms(2) / H200.motion_ms(1) - 1,
    "renderer": 1.0,
}
"""Share of a lone call's time that each further call of a batch costs, by the stage times of `benchmarks.cluster_model`."""


@dataclass(frozen=True)
class Spent:
    """What a stage did within the counted time, all replicas together.

    Attributes:
        chunks: Calls that got a result.
        batches: Batches they came in.
        busy_ms: Time for which the stage was busy.
    """

    chunks: int = 0
    batches: int = 0
    busy_ms: float = 0.0

    def __sub__(self, before: Spent) -> Spent:
        """What was done since then."""
        return Spent(self.chunks - before.chunks, self.batches - before.batches, self.busy_ms - before.busy_ms)


@dataclass(frozen=True)
class Steady:
    """Holds what a number of sessions reached at steady state.

    Attributes:
        offered: Sessions that were asked for.
        admitted: Sessions that were taken in.
        late: Per session: pictures held, dropped or late, over all that were due.
        interval_p99_ms: Per session, by RTP.
        seconds: Seconds for which was counted.
        spent: Work of each stage in that time.
        host_cpu_s: Processor time of the session hosts in that time, in seconds.
        first_frame_ms: Per session: from the offer to the first complete picture.
    """

    offered: int
    admitted: int
    late: Sequence[float]
    interval_p99_ms: Sequence[float]
    seconds: float
    spent: Mapping[str, Spent] = field(default_factory=dict)
    host_cpu_s: float = 0.0
    first_frame_ms: Sequence[float] = ()

    @property
    def counts(self) -> bool:
        """Whether every session that was offered is one that a GPU carries."""
        return (
            self.admitted == self.offered == len(self.late) == len(self.interval_p99_ms)
            and max(self.late, default=1.0) <= LATE_BAR
            and max(self.interval_p99_ms, default=np.inf) <= INTERVAL_BAR_MS
        )


def bound(alone: Steady, loaded: Steady, gpus: int) -> float | None:
    """Sessions that the GPUs could carry by the stage times of one session alone, at the batches that `loaded` reached.

    A busy stage's own times include the others' turns on the GPU; so a lone session's are taken, and what a batch saves.
    """
    session_ms = 0.0
    for stage in STAGES:
        one, many = alone.spent.get(stage, Spent()), loaded.spent.get(stage, Spent())
        if not one.batches or not many.batches:
            return None
        batch = many.chunks / many.batches
        share = 1.0 if stage == "renderer" else (1 + BATCH_GROWTH[stage] * (batch - 1)) / batch
        session_ms += one.busy_ms / alone.seconds * share
    return gpus * 1000.0 / session_ms if session_ms > 0 else None


def most(counts: Sequence[int], run: Callable[[int], Steady], keep: Callable[[int, Steady], None]) -> int:
    """Most sessions that count, by trying ever more; the first number that fails is tried twice.

    Args:
        counts: What to try, ascending.
        run: One number of sessions.
        keep: Told of everything that was measured.
    """
    best = 0
    for count in counts:
        for _ in range(2):
            found = run(count)
            keep(count, found)
            if found.counts:
                best = count
                break
        if best != count:
            break
    return best


def wait_for(count: int, here: Callable[[], int], clock: Callable[[], float], pause: Callable[[float], object]) -> None:
    """Until so many sessions are there, or no further one has come for a while: the others were refused.

    Args:
        count: Sessions that were offered.
        here: Sessions that are there now.
        clock: Monotonic seconds.
        pause: Waits for some seconds.
    """
    ends, most_seen, since = clock() + LONGEST_WAIT_S, 0, clock()
    while (now := clock()) < ends:
        found = here()
        if found > most_seen:
            most_seen, since = found, now
        if found >= count or (most_seen and now - since >= STABLE_S):
            return
        pause(0.5)


def late_share(before: Mapping[str, Any], after: Mapping[str, Any]) -> float:
    """Share of late pictures of a session between two looks at it: pictures held or left out, over all that were due."""
    frames = after["frames"] - before["frames"]
    bad = sum(after[name] - before[name] for name in ("frames_repeated", "frames_dropped"))
    return min(bad / frames, 1.0) if frames > 0 else 1.0


def p99_ms(pictures_at: Sequence[float], since: float) -> float:
    """99th percentile of the time between two pictures from a moment on; infinite where fewer than two came."""
    times = [at for at in pictures_at if at >= since]
    return float(np.percentile(np.diff(times), 99)) * 1000 if len(times) > 1 else float("inf")


def spent_by(stats: Sequence[StageStats]) -> Spent:
    """Counters of a stage's replicas, summed."""
    chunks = sum(sum(one.wait_ms.counts) for one in stats)
    return Spent(chunks, sum(one.batches for one in stats), sum(one.batch_ms.total for one in stats))


@dataclass(frozen=True)
class Wanted:
    """Says how sessions are tried.

    Attributes:
        settle_s: Seconds before anything counts, from the moment when the last session had connected.
        count_s: Seconds for which is counted.
        speech: Path of a speech file that lasts for both.
        fps: Frames per second that the offers ask for.
    """

    settle_s: float
    count_s: float
    speech: Path
    fps: int = 25


class Sessions:
    """Tries numbers of sessions on a service.

    Args:
        url: Address of the service.
        wanted: How sessions are tried.
        host_cpu_s: Gives the processor time of the session hosts so far, in seconds.
        stats: Gives the counters of a stage's replicas by the stage's name.
        stages: Stages that there are.
    """

    def __init__(
        self,
        url: str,
        wanted: Wanted,
        host_cpu_s: Callable[[], float],
        stats: Callable[[str], Sequence[StageStats]] = stage_stats,
        stages: Sequence[str] = STAGES,
    ) -> None:
        self._url, self._wanted, self._host_cpu_s, self._stats = url, wanted, host_cpu_s, stats
        self._stages = tuple(stages)
        self._pause = threading.Event()

    def run(self, count: int) -> Steady:
        """So many sessions at once.

        Raises:
            LiveAnchorError: A process of viewers failed.
        """
        wanted = self._wanted
        seconds = wanted.settle_s + wanted.count_s
        clients = viewers_of(self._url, count, seconds + STABLE_S, wanted.speech, wanted.fps)
        try:
            wait_for(count, lambda: len(sessions_of(self._url)), time.monotonic, self._pause.wait)
            self._pause.wait(wanted.settle_s)
            began, before, spent, cpu = time.monotonic(), sessions_of(self._url), self._spent(), self._host_cpu_s()
            self._pause.wait(wanted.count_s - 2.0)  # the viewers that came first leave first
            ended, after, spent_after = time.monotonic(), sessions_of(self._url), self._spent()
            cpu = self._host_cpu_s() - cpu
            reports = [client.report(seconds + 120.0) for client in clients]
        except subprocess.TimeoutExpired as error:
            raise LiveAnchorError(f"viewers did not end: {error}") from error
        finally:
            for client in clients:
                client.process.kill()
        viewers = [viewer for report in reports for viewer in report["viewers"]]
        both = [name for name in before if name in after]
        return Steady(
            offered=count,
            admitted=len(viewers),
            late=[late_share(before[name], after[name]) for name in both],
            interval_p99_ms=[p99_ms([at for at in one["pictures_at"] if at <= ended], began) for one in viewers],
            seconds=ended - began,
            spent={stage: spent_after[stage] - spent[stage] for stage in self._stages},
            host_cpu_s=cpu,
            first_frame_ms=[1e3 * (one["pictures_at"][0] - one["asked_at"]) for one in viewers],
        )

    def _spent(self) -> dict[str, Spent]:
        return {stage: spent_by(self._stats(stage)) for stage in self._stages}


def viewers_of(url: str, count: int, seconds: float, speech: Path, fps: int = 25) -> list[ClientProcess]:
    """Processes of so many viewers that speak for so long; the caller ends them."""
    groups = [min(VIEWERS_PER_PROCESS, count - start) for start in range(0, count, VIEWERS_PER_PROCESS)]
    options = ("--seconds", f"{seconds:g}", "--speech", str(speech), "--fps", str(fps))
    module = "benchmarks.graph.light_clients"
    return [ClientProcess(url, "--count", str(size), *options, module=module) for size in groups]


def sessions_of(url: str) -> dict[str, dict[str, Any]]:
    """Numbers of all live sessions, by id.

    Raises:
        httpx.HTTPError: The service did not answer.
    """
    answer = httpx.get(f"{url}/stream/webrtc/stats", timeout=30).raise_for_status().json()
    return {one["session_id"]: one for one in answer["sessions"]}


@contextmanager
def beside(url: str, count: int, speech: Path, seconds: float = 600.0) -> Iterator[None]:
    """While so many sessions speak, from some seconds after the last one connected.

    Raises:
        LiveAnchorError: Not all of them were let in.
    """
    clients, pause = viewers_of(url, count, seconds, speech), threading.Event()
    try:
        wait_for(count, lambda: len(sessions_of(url)), time.monotonic, pause.wait)
        pause.wait(STABLE_S)
        if (here := len(sessions_of(url))) < count:
            raise LiveAnchorError(f"{here} of {count} sessions were let in")
        yield
    finally:
        for client in clients:
            client.process.kill()
            client.process.wait()
        wait_for(0, lambda: -len(sessions_of(url)), time.monotonic, pause.wait)


def as_json(found: Steady) -> dict[str, Any]:
    """Everything that was measured."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(found)))
    return plain
