"""What one machine's GPUs carry through the whole service: `python -m benchmarks.capacity --gpus N`.

Runs `serve_config.yaml` on a cluster of its own, one Ray node per GPU, and writes `results/h200/capacity.json` after every case; a
case that was measured at the same commit is left out, so the same command goes on where it was stopped (`--again` measures it
again). Sessions all speak and are looked at from 60 s after the last one connected; a number of them counts where of each at
most 1 % of the pictures are late and the 99th percentile of the time between two pictures is at most 60 ms. Viewers count RTP
packets; nothing is decoded. `--small` is a dry run without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx
import torch

from benchmarks.core.record import BenchmarkRecord, format_table, make_record, read_records, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from benchmarks.graph import gpu_service as graph
from benchmarks.graph.capacity_run import Sessions, Steady, Wanted, as_json, bound, most
from benchmarks.graph.gpu_weights import write_checkpoints
from benchmarks.graph.run import Job, run_job, speech, wav_16
from benchmarks.live.rig import cpu_seconds, replica_pids
from kernels.errors import InvalidInputError, LiveAnchorError

SUITE: Final = "capacity"
DEFAULT_OUT: Final = RESULTS_DIR / "h200" / f"{SUITE}.json"
COMMAND: Final = "python -m benchmarks.capacity"
CASES: Final = ("ready", "files", "sessions", "overload", "first_frame", "sessions50")
SESSIONS_PER_HOST: Final = 6
JOB_S: Final = 10.0
Measured = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """Says how much is measured.

    Attributes:
        family: Family whose stages are measured.
        gpus: Number of GPUs of the run.
        counts: Numbers of sessions that are tried, ascending, beginning with 1.
        settle_s: Seconds that sessions run before they count.
        count_s: Seconds for which sessions are counted.
        jobs: Number of files at once.
        small: Whether this is a dry run.
    """

    family: str
    gpus: int
    counts: tuple[int, ...]
    settle_s: float
    count_s: float
    jobs: tuple[int, ...]
    small: bool

    @property
    def job_s(self) -> float:
        """Length of a file in seconds."""
        return 0.4 if self.small else JOB_S


def plan_of(family: str, gpus: int, *, small: bool, settle_s: float, count_s: float, counts: Sequence[int]) -> Plan:
    """The plan of a run.

    Raises:
        InvalidInputError: Counts that do not ascend, or too short a time.
    """
    if count_s < 4.0:
        raise InvalidInputError("--count-s", f"{count_s:g}", "at least 4 seconds")
    if list(counts) != sorted(set(counts)) or any(one < 1 for one in counts):
        raise InvalidInputError("--counts", " ".join(map(str, counts)), "ascending numbers of sessions, from 1 on")
    chosen = tuple(counts) or ((1,) if small else tuple(gpus * one for one in (8, 10, 12, 14, 16, 18, 20)))
    jobs = (2,) if small else (16 * gpus,)
    return Plan(family, gpus, (1, *(one for one in chosen if one > 1)), settle_s, count_s, jobs, small)


def document_of(plan: Plan, weights: Path | None, port: int, gpus: float) -> Measured:
    """`serve_config.yaml`, with hosts for the sessions that come: an autoscaler's delays are not what is measured here."""
    document = graph.shipped_document(plan.family, weights, port, gpus)
    for one in document["applications"][0]["deployments"]:
        scaling = one["autoscaling_config"]
        if one["name"] == "SessionHost" and not plan.small:
            scaling["min_replicas"] = -(-max(plan.counts) // SESSIONS_PER_HOST)
            scaling["max_replicas"] = max(scaling["max_replicas"], scaling["min_replicas"])
        elif one["ray_actor_options"]["num_gpus"] > 0:
            scaling["min_replicas"] = scaling["max_replicas"] = plan.gpus
    return document


class Case:
    """Measures cases on a running service, and makes their rows.

    Args:
        run: Facts that all records of this run share.
        plan: How much is measured.
        url: Address of the service.
        speech: Path of a speech file that lasts for any case.
        raw: Filled in with everything that was measured.
    """

    def __init__(self, run: RunInfo, plan: Plan, url: str, speech: Path, raw: Measured) -> None:
        self._run, self._plan, self._url, self._raw, self._speech = run, plan, url, raw, speech
        self._seen: dict[tuple[int, int], Steady] = {}
        self._best: dict[int, int] = {}

    def files(self) -> list[BenchmarkRecord]:
        """Frames per second of files at once, after one that is not counted."""
        wav = wav_16(speech(self._plan.job_s))
        run_job(self._url, wav)
        rates = []
        for count in self._plan.jobs:
            seconds, jobs = graph.jobs_at_once(self._url, wav, count)
            done = [one for one in jobs if isinstance(one, Job)]
            self._raw["files"] = {"seconds": seconds, "jobs": count, "completed": len(done)}
            if len(done) == count:
                rates.append(count * self._plan.job_s * 25.0 / seconds)
        return (
            [self.row(f"{self._plan.family}_files_fps_{self._plan.gpus}gpu", "frame/s", [max(rates)], True)]
            if rates
            else []
        )

    def sessions(self, fps: int = 25) -> list[BenchmarkRecord]:
        """Most sessions, what the hosts spent on them, and the bound by stage times."""
        plan, runner = self._plan, self._runner(fps)
        best = most(plan.counts, runner.run, lambda count, found: self._keep(fps, count, found))
        self._best[fps] = best
        alone, loaded = self._seen.get((fps, 1)), self._seen.get((fps, max(best, 1)))
        most_of = bound(alone, loaded, plan.gpus) if alone and loaded and fps == 25 else None
        case = f"{plan.family}_sessions_{'50fps_' if fps == 50 else ''}{plan.gpus}gpu"
        rows = [self.row(case, "sessions", [float(best)], True, floor=most_of)]
        if best and loaded and fps == 25:
            rows.append(self.row("host_cpu_per_session", "core", [loaded.host_cpu_s / loaded.seconds / best], False))
        return rows

    def overload(self) -> list[BenchmarkRecord]:
        """Three times as many offers at once as sessions fit; needs the case `sessions`."""
        best = self._best.get(25, 0)
        if not best:
            raise LiveAnchorError("how many sessions fit is not known: measure the case sessions in the same run")
        found = self._runner(25).run(3 * best)
        self._keep(25, 3 * best, found)
        late = sum(found.late) / len(found.late) if found.late else 1.0
        rows = [self.row("overload_late_share", "1", [late], False, n=max(len(found.late), 1))]
        return [*rows, self.row("overload_admitted_share", "1", [found.admitted / best], True)]

    def first_frame(self) -> list[BenchmarkRecord]:
        """First picture of a streamed file on an idle service, and of sessions while others speak."""
        wav = wav_16(speech(self._plan.job_s))
        idle = [1e3 * run_job(self._url, wav, stream=True).first_frame_s for _ in range(1 if self._plan.small else 5)]
        return [self.row(f"{self._plan.family}_first_frame_ms", "ms", idle, False)]

    def row(
        self,
        case: str,
        unit: str,
        samples: list[float],
        higher: bool,
        floor: float | None = None,
        n: int | None = None,
        base: tuple[str, float] | None = None,
    ) -> BenchmarkRecord:
        """Make the record of one case."""
        return make_record(
            self._run,
            suite=SUITE,
            case=case,
            unit=unit,
            samples=samples,
            higher_is_better=higher,
            floor_value=floor,
            n=n,
            baseline=base[0] if base else None,
            baseline_value=base[1] if base else None,
        )

    def _runner(self, fps: int) -> Sessions:
        plan = self._plan
        wanted = Wanted(plan.settle_s, plan.count_s, self._speech, fps)
        return Sessions(self._url, wanted, lambda: sum(map(cpu_seconds, replica_pids("SessionHost"))))

    def _keep(self, fps: int, count: int, found: Steady) -> None:
        self._seen[fps, count] = found
        self._raw.setdefault("sessions", {}).setdefault(str(fps), {}).setdefault(str(count), []).append(as_json(found))
        late, p99 = max(found.late, default=1.0), max(found.interval_p99_ms, default=float("inf"))
        print(f"  {count} sessions at {fps}: {found.admitted} in, worst late {late:.3f}, p99 {p99:.0f} ms", flush=True)


def with_baseline(records: Sequence[BenchmarkRecord], known: Sequence[BenchmarkRecord]) -> list[BenchmarkRecord]:
    """Give rows of several GPUs the row of one GPU as their baseline, where that is of the same commit."""
    one_gpu = {(one.case, one.commit): one.value for one in known}
    made = []
    for record in records:
        head, _, tail = record.case.rpartition("_")
        base = one_gpu.get((f"{head}_1gpu", record.commit)) if tail.endswith("gpu") and tail != "1gpu" else None
        if base:
            changes = {"baseline": "one GPU, same commit", "baseline_value": base, "ratio": record.value / base}
            record = BenchmarkRecord(**{**record.model_dump(), **changes})
        made.append(record)
    return made


def done_before(out: Path, raw: Path, commit: str) -> set[str]:
    """Cases that were measured at this commit, as the raw file next to the results says."""
    if commit == "unknown" or commit.endswith("-dirty") or not raw.exists() or not out.exists():
        return set()
    kept = json.loads(raw.read_text(encoding="utf-8"))
    return set(kept.get("done", [])) if kept.get("commit") == commit else set()


@contextmanager
def running(plan: Plan, weights: Path | None) -> Iterator[graph.Service]:
    """The service, ready, on a cluster of its own."""
    from serve_app.cluster.gpu_nodes import visible_gpus
    from serve_app.cluster.own import private

    gpus = [] if plan.small else visible_gpus()[: plan.gpus]
    if not plan.small and len(gpus) < plan.gpus:
        raise InvalidInputError("--gpus", str(plan.gpus), f"at most {len(gpus)}: so many are here")
    with (
        private(gpus) as cluster,
        graph.service(
            cluster, plan.family, weights, make=lambda port: document_of(plan, weights, port, cluster.gpus)
        ) as service,
    ):
        yield service


def measure(
    plan: Plan,
    run: RunInfo,
    cases: Sequence[str],
    out: Path,
    weights: Path | None,
    raw: Measured,
    keep: Callable[[], None],
) -> list[str]:
    """Cases that failed; rows are written as they come."""
    failed: list[str] = []
    with TemporaryDirectory() as folder, running(plan, weights) as service:
        spoken = Path(folder) / "speech.wav"
        spoken.write_bytes(wav_16(speech(plan.settle_s + plan.count_s + 60.0)))
        case = Case(run, plan, service.url, spoken, raw)
        work: dict[str, Callable[[], list[BenchmarkRecord]]] = {
            "ready": lambda: [case.row("ready_s", "s", [service.ready_s], False)],
            "files": case.files,
            "sessions": case.sessions,
            "overload": case.overload,
            "first_frame": case.first_frame,
            "sessions50": lambda: case.sessions(50),
        }
        for name in cases:
            try:
                made = work[name]()
            except (LiveAnchorError, RuntimeError, OSError, ValueError, LookupError, httpx.HTTPError) as error:
                failed.append(f"{name}: {type(error).__name__}: {error}"[:500])
                print(f"{name} FAILED: {failed[-1]}", flush=True)
                continue
            if made:
                write_records(out, with_baseline(made, read_records(out) if out.exists() else []))
                print(format_table(made), flush=True)
            raw.setdefault("done", []).append(name)
            keep()
    return failed


def main(arguments: list[str] | None = None) -> int:
    """Measure, write, print; 0 done, 1 something failed, 2 bad usage."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=1, help="GPUs to use, one Ray node each")
    parser.add_argument("--family", default="ditto")
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--counts", nargs="*", type=int, default=[], help="numbers of sessions to try, ascending")
    parser.add_argument("--settle-s", type=float, default=60.0, help="before sessions count")
    parser.add_argument("--count-s", type=float, default=20.0, help="for which they are counted")
    parser.add_argument("--again", action="store_true", help="measure cases that have a row of this commit again")
    parser.add_argument("--small", action="store_true", help="a dry run without a GPU; not for publishing")
    parser.add_argument("--weights", type=Path, help="checkpoints; made here where left out and the family needs them")
    parser.add_argument("--commit", help="what is measured, where the tree came without its history")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    chosen = parser.parse_args(arguments)
    cuda = torch.cuda.is_available()
    if chosen.out.resolve() == DEFAULT_OUT.resolve() and (chosen.small or not cuda or chosen.settle_s < 60):
        parser.error(
            "a small run, one on a CPU or one that settles for less than 60 s is not for publishing: name another --out"
        )
    try:
        plan = plan_of(
            chosen.family,
            chosen.gpus,
            small=chosen.small,
            settle_s=chosen.settle_s,
            count_s=chosen.count_s,
            counts=chosen.counts,
        )
    except InvalidInputError as error:
        parser.error(str(error))
    run = describe_run(COMMAND, device="cuda:0" if cuda else "cpu", commit=chosen.commit)
    run = replace(run, command=f"{COMMAND} --gpus {plan.gpus} --family {plan.family}")
    raw_path = chosen.out.with_suffix(f".{plan.family}{plan.gpus}.raw.json")
    done = set() if chosen.again else done_before(chosen.out, raw_path, run.commit)
    raw: Measured = {"commit": run.commit, "done": sorted(done)}
    cases = [name for name in chosen.cases if name not in done]
    for name in sorted(done):
        print(f"{name}: has a row of this commit")

    def keep() -> None:
        raw_path.parent.mkdir(parents=True, exist_ok=True)
        raw_path.write_text(json.dumps(raw), encoding="utf-8")

    if not cases:
        return 0
    with TemporaryDirectory(prefix="la-capacity-") as home:
        os.environ["LIVEANCHOR_HOME"] = home
        weights = chosen.weights
        if weights is None and plan.family == "ditto":
            weights = write_checkpoints(Path(home) / "checkpoints", small=plan.small)
        try:
            failed = measure(plan, run, cases, chosen.out, weights, raw, keep)
        finally:
            keep()
    for line in failed:
        print(f"NOT MEASURED: {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
