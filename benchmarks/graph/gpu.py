"""The Ray graph on one GPU: `python -m benchmarks.graph.gpu` makes `results/h200/graph_gpu.json`.

Starts a cluster of its own and runs `serve_config.yaml` as it is shipped (GPU shares 0.15 + 0.3 + 0.4 + 0.15, four stage processes
on one GPU), with the family `ditto` over a folder of the public layout that holds no trained weights, then with `mini`. Clients are
file jobs over HTTP and live sessions over WebRTC from this machine; baselines are the same work in one process on the same GPU.

Everything measured lies in `--raw` as soon as it is known. A part that fails says so and the others go on; the exit code is then 1.
`--small` tries the driver without a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx
import torch

from benchmarks.core.record import format_table, write_records
from benchmarks.core.run_info import RESULTS_DIR, describe_run
from benchmarks.graph import gpu_service as graph
from benchmarks.graph.gpu_local import OneProcess, live_server
from benchmarks.graph.gpu_records import SUITE, records_of
from benchmarks.graph.gpu_weights import write_checkpoints
from benchmarks.graph.run import Job, run_job, speech, wav_16
from deployments.config import STAGE_NAMES
from kernels.errors import LiveAnchorError

DEFAULT_OUT: Final = RESULTS_DIR / "h200" / f"{SUITE}.json"
COMMAND: Final = "python -m benchmarks.graph.gpu"
PARTS: Final = ("files", "parallel", "live", "kill", "local")
Measured = dict[str, Any]
Keep = Callable[[], None]


class Plan:
    """Says how much is measured.

    Args:
        small: Whether this is a dry run.
        budget_s: Seconds after which no part is begun.
        parts: Those of `PARTS` that run.
    """

    def __init__(self, small: bool, budget_s: float, parts: list[str]) -> None:
        self.parts = parts
        self.job_s, self.runs = (0.4, 1) if small else (10.0, 3)
        self.jobs_at_once: tuple[int, ...] = (2,) if small else (2, 4, 8, 16)
        self.killed_jobs = 2 if small else 4
        self.kill_after_s = 0.3 if small else 0.8
        self.speakers: tuple[int, ...] = (1,) if small else (1, 4, 8)
        self.live_s = 4.0 if small else 8.0
        self.ends = time.monotonic() + budget_s

    def left_s(self) -> float:
        """Seconds that are left of the budget."""
        return self.ends - time.monotonic()


class FamilyRun:
    """Measures one family, on the graph and in one process.

    Args:
        found: Filled in as things become known.
        family: Name of the family.
        weights: Folder with its weights.
        device: Device on which one process runs the stages.
        plan: How much is measured.
        keep: Called after every part.
    """

    def __init__(self, found: Measured, family: str, weights: Path | None, device: str, plan: Plan, keep: Keep) -> None:
        self.found, self.family, self.weights, self.device, self.plan, self.keep = (
            found,
            family,
            weights,
            device,
            plan,
            keep,
        )
        found |= {"failed": {}, "seconds": plan.job_s}
        self.wav = wav_16(speech(plan.job_s))

    def run(self) -> None:
        """The graph first, on a machine that may never have run the family, then one process."""
        attempt(self.found, "service", self.plan, self.keep, self.service)
        attempt(self.found, "local", self.plan, self.keep, self.local)

    def service(self) -> None:
        """Everything that is asked of the graph."""
        from serve_app.cluster.own import private

        with private() as cluster, graph.service(cluster, self.family, self.weights) as running:
            self.found["ready_s"] = running.ready_s
            print(f"  ready in {running.ready_s:.1f} s", flush=True)
            parts: dict[str, Callable[[], None]] = {
                "files": lambda: self.files(running.url),
                "parallel": lambda: self.parallel(running.url),
                "live": lambda: self.live(running.url, self.found),
                "memory": self.memory,
                "kill": lambda: self.kill(running.url),
            }
            try:
                for name, work in parts.items():
                    attempt(self.found, name, self.plan, self.keep, work)
            finally:
                self.found["logged"] = graph.logged(Path(cluster.logs).parent, (graph.CHOSEN, graph.PLACED))

    def files(self, url: str) -> None:
        """Time jobs one at a time."""
        self.found["first_job_s"] = run_job(url, self.wav).seconds
        self.found["files"] = [run_job(url, self.wav).seconds for _ in range(self.plan.runs)]
        self.found["streams"] = [run_job(url, self.wav, stream=True).first_frame_s for _ in range(self.plan.runs)]

    def parallel(self, url: str) -> None:
        """Time more and more jobs at once."""
        for count in self.plan.jobs_at_once:
            seconds, jobs = graph.jobs_at_once(url, self.wav, count)
            done = [job for job in jobs if isinstance(job, Job)]
            self.found.setdefault("parallel", {})[str(count)] = {
                "seconds": seconds,
                "completed": len(done),
                "job_s": [job.seconds for job in done],
                "failures": [job for job in jobs if isinstance(job, str)],
            }
            print(f"  {count} jobs: {count * self.plan.job_s / seconds:.1f} times real time", flush=True)
            self.keep()

    def live(self, url: str, where: Measured) -> None:
        """Measure more and more sessions that speak all the time."""
        with TemporaryDirectory() as folder:
            spoken = Path(folder) / "speech.wav"
            spoken.write_bytes(wav_16(speech(self.plan.live_s + 20)))
            for count in self.plan.speakers:
                where.setdefault("live", {})[str(count)] = graph.live_sessions(url, spoken, count, self.plan.live_s)
                self.keep()

    def memory(self) -> None:
        """Read the memory of every stage after work, and its counters."""
        self.found["memory"] = graph.stage_memory(graph.driver_memory())
        self.found["stats"] = {stage: [asdict(one) for one in graph.stage_stats(stage)] for stage in STAGE_NAMES[:3]}

    def kill(self, url: str) -> None:
        """Kill a stage in the middle of jobs."""
        self.found["kill"] = graph.kill_under_load(url, self.wav, self.plan.killed_jobs, self.plan.kill_after_s)

    def local(self) -> None:
        """Measure the same in one process."""
        process = OneProcess(self.family, self.weights, self.device)
        own: Measured = {"load_s": process.load_s}
        self.found["local"] = own
        try:
            own["first_job_s"] = process.job(self.wav).seconds
            own["files"] = [process.job(self.wav).seconds for _ in range(self.plan.runs)]
            own["streams"] = [process.job(self.wav, stream=True).first_frame_s for _ in range(self.plan.runs)]
            self.keep()
            if "live" in self.plan.parts:
                with live_server(process) as url:
                    self.live(url, own)
        finally:
            process.close()


def attempt(found: Measured, name: str, plan: Plan, keep: Keep, work: Callable[[], None]) -> None:
    """Run one part; what goes wrong is kept and said."""
    if name in PARTS and name not in plan.parts:
        return
    if plan.left_s() <= 0:
        found["failed"][name] = "left out: the budget is spent"
    else:
        began = time.monotonic()
        try:
            work()
        except (LiveAnchorError, RuntimeError, OSError, ValueError, LookupError, httpx.HTTPError) as error:
            found["failed"][name] = f"{type(error).__name__}: {error}"[:3000]
        print(f"  {name}: {time.monotonic() - began:.1f} s", flush=True)
    if name in found["failed"]:
        print(f"{name} FAILED: {found['failed'][name]}", flush=True)
    keep()


def measure_cap(found: Measured, plan: Plan, keep: Keep) -> None:
    """Measure one worker with a tenth of a GPU, on a cluster of its own."""
    from serve_app.cluster.own import private

    def cap() -> None:
        with private() as cluster:
            if cluster.gpus > 0:
                found["cap"] = graph.cap_in_a_worker(0.1)

    attempt(found, "cap", plan, keep, cap)


def main(arguments: list[str] | None = None) -> int:
    """Measure, write, print; 0 done, 1 something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", nargs="*", choices=("ditto", "mini"), default=["ditto", "mini"])
    parser.add_argument(
        "--parts", nargs="*", choices=PARTS, default=list(PARTS), help="what runs of a family's measures"
    )
    parser.add_argument(
        "--small", action="store_true", help="tiny jobs, a stand-in for the encoder; not for publishing"
    )
    parser.add_argument("--weights", type=Path, help="Ditto's checkpoints; made here when left out")
    parser.add_argument("--budget-s", type=float, default=900.0, help="no part is begun later")
    parser.add_argument("--commit", help="what is measured, where the tree came without its history")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="results file; rows are merged by case")
    parser.add_argument("--raw", type=Path, help="every measurement as JSON; beside --out when left out")
    parser.add_argument("--runs", type=int, help="repeats of one job alone")
    parser.add_argument("--jobs", nargs="*", type=int, help="how many jobs at once, one after the other")
    parser.add_argument("--speakers", nargs="*", type=int, help="how many live sessions at once, one after the other")
    chosen = parser.parse_args(arguments)
    cuda = torch.cuda.is_available()
    if chosen.out.resolve() == DEFAULT_OUT.resolve() and (chosen.small or not cuda):
        parser.error("a small run or one on a CPU is not for publishing: name another --out")
    run = describe_run(COMMAND, device="cuda:0" if cuda else "cpu", commit=chosen.commit)
    plan = Plan(chosen.small, chosen.budget_s, chosen.parts)
    plan.runs = chosen.runs or plan.runs
    plan.jobs_at_once = tuple(chosen.jobs or plan.jobs_at_once)
    plan.speakers = tuple(chosen.speakers or plan.speakers)
    raw = chosen.raw or chosen.out.with_suffix(".raw.json")
    raw.parent.mkdir(parents=True, exist_ok=True)
    found: Measured = {"failed": {}, "families": {}}

    def keep() -> None:
        raw.write_text(
            json.dumps({"run": asdict(run) | {"date": run.date.isoformat()}, "found": found}), encoding="utf-8"
        )
        records = records_of(run, found)
        if records:
            write_records(chosen.out, records)

    with TemporaryDirectory(prefix="la-gpu-") as home:
        os.environ["LIVEANCHOR_HOME"] = home
        for family in chosen.families:
            print(f"== {family} ({plan.left_s():.0f} s left)", flush=True)
            weights = None
            if family == "ditto":
                weights = chosen.weights or write_checkpoints(Path(home) / "checkpoints", small=chosen.small)
            own: Measured = {}
            found["families"][family] = own
            FamilyRun(own, family, weights, "cuda" if cuda else "cpu", plan, keep).run()
        measure_cap(found, plan, keep)
    keep()
    print(format_table(records_of(run, found)))
    failed = found["failed"] | {
        f"{family} {part}": why for family, one in found["families"].items() for part, why in one["failed"].items()
    }
    for name, reason in failed.items():
        print(f"NOT MEASURED: {name}: {reason}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
