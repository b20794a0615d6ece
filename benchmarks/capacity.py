"""What one machine's GPUs carry through the whole service: `python -m benchmarks.capacity --gpus N`.

Runs `serve_config.yaml` on a cluster of its own, one Ray node per GPU, and writes `results/h200/capacity.json` after every case; a
case that was measured at the same commit is left out, so the same command goes on where it was stopped (`--again` measures it
again). Sessions all speak and are looked at from 60 s after the last one connected; a number of them counts where of each at
most 1 % of the pictures are late and the 99th percentile of the time between two pictures is at most 60 ms. Viewers count RTP
packets; nothing is decoded. `ready_s` and `replica_back_s` are with warm caches: where `ready` is among the cases, the service is
started once before, unless an earlier run left its caches in the same `--home`.

Cases run in the order in which they are named. In those in which processes die (`stage_kills host_kills node_loss
stage_kills_alone`) viewers speak without a pause and stand up again as the page does; a row is written after every kill.
`--sets 2` puts two sets of stages on each GPU, each in a Ray node of its own, so that another set lives when one dies; sessions
are counted with one. `--budget-s` is what a machine is lent for: nothing begins that would not end in time, and the command ends
by then whatever hangs. `--small` is a dry run without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx
import torch

from benchmarks.core.record import BenchmarkRecord, format_table, read_records, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from benchmarks.core.time_budget import TimeBudget, ended_by_force
from benchmarks.graph import gpu_service as graph
from benchmarks.graph.capacity_cases import (
    COUNT_S,
    JOB_S,
    SESSIONS_PER_HOST,
    SETTLE_S,
    SUITE,
    Case,
    Measured,
    Plan,
    plan_of,
)
from benchmarks.graph.gpu_weights import write_checkpoints
from benchmarks.graph.kill_cases import KILL_CASES, KillCases
from benchmarks.graph.run import speech, wav_16
from benchmarks.graph.survival import BUSY, Patience
from benchmarks.live.rig import without_pauses
from benchmarks.musetalk.checkpoint_folder import write_folder
from benchmarks.musetalk.http_file import SPREAD
from engines.weights.home import liveanchor_home
from kernels.errors import InvalidInputError, LiveAnchorError

DEFAULT_OUT: Final = RESULTS_DIR / "h200" / f"{SUITE}.json"
COMMAND: Final = "python -m benchmarks.capacity"
CASES: Final = (
    *("ready", "files", "sessions", "overload", "first_frame", "first_frame_beside", "sessions50"),
    *KILL_CASES,
)
WEIGHTS: Final[dict[str, Callable[[Path, bool], Path]]] = {
    "ditto": lambda folder, small: write_checkpoints(folder, small=small),
    "musetalk": lambda folder, small: write_folder(folder, narrow=small, parser=False, spread=SPREAD),
}
"""What makes a family's checkpoints, where it needs some: folder, and whether narrow ones do."""
NEEDS_S: Final = 30.0
"""Seconds without which no case begins."""
SMALL_START_S: Final = 900.0


def document_of(plan: Plan, weights: Path | None, port: int, gpus: float) -> Measured:
    """`serve_config.yaml`, with hosts for the sessions that come: an autoscaler's delays are not what is measured here."""
    document = graph.shipped_document(plan.family, weights, port, gpus)
    [application] = document["applications"]
    if plan.nodes > 1:
        document["proxy_location"] = "HeadOnly"  # all nodes are on this machine and would want the same port
    if plan.small:
        application["args"].setdefault("live", {})["sessions_per_gpu"] = 6  # claimed GPUs have no costs to tell
    for one in application["deployments"]:
        scaling = one["autoscaling_config"]
        if one["name"] == "SessionHost":
            hosts = 1 if plan.small else -(-max(plan.counts) // SESSIONS_PER_HOST)
            scaling["min_replicas"] = max(hosts, plan.hosts)
            scaling["max_replicas"] = max(scaling["max_replicas"], scaling["min_replicas"])
        elif plan.small and one["name"] == "Rife" and plan.nodes == 1:
            scaling["min_replicas"] = 0
        elif one["name"] == "Ingress":
            scaling["min_replicas"] = plan.nodes
        elif one["ray_actor_options"]["num_gpus"] > 0:
            scaling["min_replicas"] = scaling["max_replicas"] = plan.nodes
    return document


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
def running(plan: Plan, weights: Path | None, *, warm: bool) -> Iterator[graph.Service]:
    """The service, ready, on a cluster of its own.

    Args:
        plan: How much is measured.
        weights: Folder with the family's weights.
        warm: Whether it is started once before, and ended, so that its caches are there.
    """
    from serve_app.cluster.gpu_nodes import visible_gpus
    from serve_app.cluster.own import private

    if plan.small:  # claimed GPUs, where there are several nodes
        gpus = [str(index) for index in range(plan.nodes)] if plan.nodes > 1 else []
    else:
        gpus = [gpu for gpu in visible_gpus()[: plan.gpus] for _ in range(plan.sets)]
        if len(gpus) < plan.nodes:
            raise InvalidInputError("--gpus", str(plan.gpus), f"at most {len(gpus) // plan.sets}: so many are here")
    with private(gpus) as cluster:

        def start() -> AbstractContextManager[graph.Service]:
            def make(port: int) -> Measured:
                return document_of(plan, weights, port, cluster.gpus)

            return graph.service(cluster, plan.family, weights, SMALL_START_S if plan.small else graph.START_S, make)

        if warm:
            with start() as cold:
                print(f"ready without caches after {cold.ready_s:.1f} s", flush=True)
        with start() as service:
            yield service


def measure(
    plan: Plan,
    run: RunInfo,
    cases: Sequence[str],
    out: Path,
    weights: Path | None,
    raw: Measured,
    keep: Callable[[], None],
    budget: TimeBudget,
) -> list[str]:
    """Cases that failed; rows are written as they come."""
    failed: list[str] = []
    with (
        TemporaryDirectory() as folder,
        running(plan, weights, warm="ready" in cases and not (liveanchor_home() / "runtimes").is_dir()) as service,
        ExitStack() as stack,
    ):
        spoken, unbroken = Path(folder) / "speech.wav", Path(folder) / "unbroken.wav"
        spoken.write_bytes(wav_16(speech(max(plan.settle_s + plan.count_s + 60.0, 600.0))))
        unbroken.write_bytes(wav_16(without_pauses(speech(JOB_S))))
        case = Case(run, plan, service.url, spoken, raw, budget)
        kills = KillCases(
            service.cluster,
            service.url,
            unbroken,
            plan.viewers,
            plan.kills,
            budget,
            case.row,
            raw.setdefault("kills", {}),
            BUSY if plan.small else Patience(),
        )
        stack.callback(kills.close)

        def starts() -> None:
            raw["starts"] = graph.start_lines(Path(service.cluster.logs).parent, service.began_at)

        def ready() -> list[BenchmarkRecord]:
            starts()
            for line in raw["starts"]:
                print("  " + ", ".join(f"{name} {value}" for name, value in line.items()), flush=True)
            return [case.row("ready_s", "s", [service.ready_s], False)]

        stack.callback(starts)

        def written(made: list[BenchmarkRecord]) -> None:
            if made:
                write_records(out, with_baseline(made, read_records(out) if out.exists() else []))
                keep()

        work: dict[str, Callable[[], list[BenchmarkRecord]]] = {
            "ready": ready,
            "files": case.files,
            "sessions": case.sessions,
            "overload": case.overload,
            "first_frame": case.first_frame,
            "first_frame_beside": case.first_frame_beside,
            "sessions50": lambda: case.sessions(50),
        }
        for name in cases:
            case.cut = ""
            try:
                budget.need(NEEDS_S if name != "ready" else 0.0, name)
                if name in KILL_CASES:
                    kills.run(name, written)
                    made = []
                else:
                    kills.close()
                    made = work[name]()
            except (LiveAnchorError, RuntimeError, OSError, ValueError, LookupError, httpx.HTTPError) as error:
                failed.append(f"{name}: {type(error).__name__}: {error}"[:500])
                print(f"{name} FAILED: {failed[-1]}", flush=True)
                continue
            written(made)
            if made:
                print(format_table(made), flush=True)
            if case.cut:
                failed.append(f"{name}: {case.cut}")
                continue
            raw.setdefault("done", []).append(name)
            keep()
    return failed


def options() -> argparse.ArgumentParser:
    """The command's options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpus", type=int, default=1, help="GPUs to use, one Ray node each")
    parser.add_argument("--family", default="ditto")
    parser.add_argument("--cases", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--counts", nargs="*", type=int, default=[], help="numbers of sessions to try, ascending")
    parser.add_argument("--not-alone", action="store_true", help="leave out one session alone, and with it the bound")
    parser.add_argument("--settle-s", type=float, default=SETTLE_S, help="before sessions count")
    parser.add_argument("--count-s", type=float, default=COUNT_S, help="for which they are counted")
    parser.add_argument("--kills", type=int, default=5, help="of each kind of process")
    parser.add_argument("--sets", type=int, default=1, help="sets of stages that share each GPU; for kills")
    parser.add_argument("--home", type=Path, help="folder that keeps made checkpoints and caches for the next run")
    parser.add_argument("--budget-s", type=float, help="seconds within which the command ends by itself")
    parser.add_argument("--again", action="store_true", help="measure cases that have a row of this commit again")
    parser.add_argument("--small", action="store_true", help="a dry run without a GPU; not for publishing")
    parser.add_argument("--weights", type=Path, help="checkpoints; made where they are not there yet")
    parser.add_argument("--commit", help="what is measured, where the tree came without its history")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Measure, write, print; 0 done, 1 something failed, 2 bad usage."""
    parser = options()
    chosen = parser.parse_args(arguments)
    budget = TimeBudget(chosen.budget_s)
    cuda = torch.cuda.is_available()
    if chosen.out.resolve() == DEFAULT_OUT.resolve() and (chosen.small or not cuda or chosen.settle_s < SETTLE_S):
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
            kills=chosen.kills,
            alone=not chosen.not_alone,
            sets=chosen.sets,
        )
    except InvalidInputError as error:
        parser.error(str(error))
    run = describe_run(COMMAND, device="cuda:0" if cuda else "cpu", commit=chosen.commit)
    sets = f" --sets {plan.sets}" if plan.sets > 1 else ""
    run = replace(run, command=f"{COMMAND} --gpus {plan.gpus} --family {plan.family}{sets}")
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
    with ended_by_force(chosen.budget_s), TemporaryDirectory(prefix="la-capacity-") as own:
        home = (chosen.home or Path(own)).resolve()
        os.environ["LIVEANCHOR_HOME"] = str(home)
        weights = chosen.weights
        if write := WEIGHTS.get(plan.family):
            weights = weights or home / "checkpoints"
            if not weights.exists():
                write(weights, plan.small)
        try:
            failed = measure(plan, run, cases, chosen.out, weights, raw, keep, budget)
        finally:
            keep()
    for line in failed:
        print(f"NOT MEASURED: {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
