"""Four stages as four processes on one GPU: `python -m benchmarks.graph.shared_gpu` makes `results/h200/shared_gpu.json`.

Every stage calls in a closed loop, first alone, then all four at once: without and with MPS (its control daemon is started for the
run where it can be, and stopped). A share is a stage's rate together over its rate alone; shares that sum to 1 are what time
slicing gives. Beside it: the hand-over of crops between two processes, and whether a memory cap stops the one process that
exceeds it.

Everything measured lies in `--raw` as soon as it is known; a part that fails says so and the others go on, and the exit code is 1.
`--device cpu --small` tries the driver without a GPU. A GPU machine without the schema's library makes `--raw` only; `--from-raw`
makes the records of it elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from benchmarks.graph import shared_gpu_handover as handover
from benchmarks.graph.shared_gpu_stages import FRACTIONS, STAGES

SUITE: Final = "shared_gpu"
DEFAULT_OUT: Final = RESULTS_DIR / "h200" / f"{SUITE}.json"
COMMAND: Final = "python -m benchmarks.graph.shared_gpu"
READY_S: Final = 110.0
Measured = dict[str, Any]


class Worker:
    """Drives the process of one stage."""

    def __init__(self, stage: str, device: str, small: bool, environment: dict[str, str]) -> None:
        self.stage = stage
        command = [
            sys.executable,
            "-m",
            "benchmarks.graph.shared_gpu_worker",
            stage,
            device,
            *(["--small"] if small else []),
        ]
        self._process = subprocess.Popen(  # noqa: S603 - our own module, fixed arguments
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._answers: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        for line in self._process.stdout:
            if line.startswith("@"):
                self._answers.put(line[1:])
        self._answers.put(None)

    def answer(self, timeout: float) -> Measured:
        """The next answer."""
        try:
            line = self._answers.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"{self.stage} does not answer within {timeout:.0f} s") from None
        if line is None:
            raise RuntimeError(f"{self.stage} ended with {self._process.wait(timeout=10)}")
        found: Measured = json.loads(line)
        return found

    def tell(self, **command: object) -> None:
        """Send a command."""
        assert self._process.stdin is not None  # noqa: S101 - a pipe was asked for
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        """End it, by asking and then by force."""
        try:
            self.tell(do="quit")
            self._process.wait(timeout=5)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(timeout=10)


@contextmanager
def workers(device: str, small: bool, environment: dict[str, str]) -> Iterator[dict[str, Worker]]:
    """All four, ready."""
    made: dict[str, Worker] = {}
    try:
        for stage in STAGES:
            made[stage] = Worker(stage, device, small, environment)
        for stage, worker in made.items():
            ready = worker.answer(READY_S)
            gib = ready["reserved_bytes"] / 2**30
            print(f"{stage}: ready in {ready['start_s']:.1f} s, {gib:.2f} GiB reserved", flush=True)
        yield made
    finally:
        for worker in made.values():
            worker.stop()


def measure_sharing(made: dict[str, Worker], alone_s: float, together_s: float) -> Measured:
    """Milliseconds of every call, each stage alone and all at once."""
    found: Measured = {"alone": {}, "together": {}}
    for stage, worker in made.items():
        worker.tell(do="run", seconds=alone_s, start=time.time())
        found["alone"][stage] = worker.answer(alone_s + 30)
    start = time.time() + 0.2
    for worker in made.values():
        worker.tell(do="run", seconds=together_s, start=start)
    for stage, worker in made.items():
        found["together"][stage] = worker.answer(together_s + 60)
    for stage in made:
        alone, together = (_rate(found[kind][stage]) for kind in ("alone", "together"))
        print(f"{stage}: {alone:.1f} calls/s alone, {together:.1f} together ({together / alone:.2f})", flush=True)
    print(f"shares sum to {total_share(found):.2f}", flush=True)
    return found


def measure_cap(made: dict[str, Worker]) -> Measured:
    """Let one process ask for more than its cap while another works."""
    made["renderer"].tell(do="run", seconds=1.5, start=time.time())
    time.sleep(0.3)
    made["rife"].tell(do="cap")
    capped = made["rife"].answer(30)
    neighbour = made["renderer"].answer(30)
    made["rife"].tell(do="run", seconds=0.5, start=time.time())
    after = made["rife"].answer(30)
    capped |= {"neighbour_calls": len(neighbour["ms"]), "calls_after": len(after["ms"])}
    print(f"memory cap of {FRACTIONS['rife']}: {capped}", flush=True)
    return capped


@contextmanager
def mps() -> Iterator[dict[str, str]]:
    """The environment of clients of an MPS daemon of our own; no setting of the GPU is touched.

    Raises:
        RuntimeError: It does not start here.
    """
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        raise RuntimeError("nvidia-cuda-mps-control is not on this machine")
    with tempfile.TemporaryDirectory(prefix="mps-") as folder:
        environment = os.environ | {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
        started = _control(control, environment, ["-d"])
        if started.returncode != 0:
            raise RuntimeError(f"the MPS daemon does not start: {(started.stderr or started.stdout).strip()[:300]}")
        try:
            yield environment
        finally:
            _control(control, environment, [], "quit\n")


def mps_servers(environment: dict[str, str]) -> str:
    """Servers that the daemon runs: none means that the clients do not go through it."""
    control = shutil.which("nvidia-cuda-mps-control") or "nvidia-cuda-mps-control"
    return _control(control, environment, [], "get_server_list\n").stdout.strip()


def _control(
    program: str, environment: dict[str, str], arguments: list[str], said: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - fixed arguments
        [program, *arguments], env=environment, input=said, capture_output=True, text=True, timeout=20, check=False
    )


def measure(device: str, small: bool, budget_s: float, keep: Callable[[Measured], None]) -> Measured:
    """Everything, the most important part first; `keep` is told after every part."""
    began = time.monotonic()
    found: Measured = {"failed": {}}
    alone_s, together_s = (0.3, 0.5) if small else (1.5, 4.0)

    def part(name: str, needs_s: float, work: Callable[[], Measured]) -> None:
        left = budget_s - (time.monotonic() - began)
        if left < needs_s:
            found["failed"][name] = f"left out: {left:.0f} s of the budget left, it takes about {needs_s:.0f}"
        else:
            print(f"== {name} ({left:.0f} s left)", flush=True)
            try:
                found[name] = work()
            except (RuntimeError, OSError, TimeoutError, ValueError, subprocess.SubprocessError) as error:
                found["failed"][name] = f"{type(error).__name__}: {error}"[:500]
        if name in found["failed"]:
            print(f"{name} FAILED: {found['failed'][name]}", flush=True)
        keep(found)

    def shared() -> Measured:
        with workers(device, small, dict(os.environ)) as made:
            sharing = measure_sharing(made, alone_s, together_s)
            if device != "cpu":
                part("cap", 5, lambda: measure_cap(made))
        return sharing

    def shared_mps() -> Measured:
        with mps() as environment, workers(device, small, environment) as made:
            servers = mps_servers(environment)
            print(f"MPS servers: {servers or 'none'}", flush=True)
            if not servers:
                raise RuntimeError("the daemon runs, but no client goes through it")
            return measure_sharing(made, alone_s, together_s)

    part("time_sliced", 40, shared)
    part("handover", 40, lambda: handover.measure(device, 10 if small else 60))
    if device != "cpu":
        part("mps", 45, shared_mps)
    return found


def total_share(sharing: Measured) -> float:
    """Sum over stages of the rate together over the rate alone."""
    return sum(_rate(sharing["together"][stage]) / _rate(sharing["alone"][stage]) for stage in sharing["alone"])


def _rate(run: Measured) -> float:
    return len(run["ms"]) / float(run["seconds"])


def records_of(run: RunInfo, found: Measured) -> list[Any]:
    """The measurements as records."""
    import numpy as np

    from benchmarks.core.record import make_record

    records = []
    for mode in ("time_sliced", "mps"):
        for stage in STAGES if mode in found else ():
            alone = float(np.median(found[mode]["alone"][stage]["ms"]))
            records.append(
                make_record(
                    run,
                    suite=SUITE,
                    case=f"{mode}_{stage}_call_ms",
                    unit="ms",
                    samples=found[mode]["together"][stage]["ms"],
                    higher_is_better=False,
                    baseline="the same process while the others wait",
                    baseline_value=alone,
                )
            )
        if mode in found:
            share = total_share(found[mode])
            records.append(
                make_record(
                    run, suite=SUITE, case=f"{mode}_total_share", unit="1", samples=[share], higher_is_better=True
                )
            )
    for label, ways in found.get("handover", {}).items():
        plain = ways.get("plasma_like")
        for way, samples in ways.items():
            if isinstance(samples, str):
                continue
            compared = way != "plasma_like" and not isinstance(plain, str)
            records.append(
                make_record(
                    run,
                    suite=SUITE,
                    case=f"handover_{label}_{way}_ms",
                    unit="ms",
                    samples=samples,
                    higher_is_better=False,
                    baseline="pageable copies through shared memory" if compared else None,
                    baseline_value=float(np.median(plain)) if compared else None,
                )
            )
    if (cap := found.get("cap")) is not None:
        held = cap["refused"] and cap["works_after"] and cap["neighbour_calls"] > 0 and cap["calls_after"] > 0
        records.append(
            make_record(
                run, suite=SUITE, case="memory_cap_holds", unit="1", samples=[float(held)], higher_is_better=True
            )
        )
    return records


def main(arguments: list[str] | None = None) -> int:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda:0", choices=["cuda:0", "cpu"])
    parser.add_argument("--small", action="store_true", help="little networks, short runs; not for publishing")
    parser.add_argument("--budget-s", type=float, default=145.0, help="no part is begun that would end later")
    parser.add_argument("--commit", help="what is measured, where the tree came without its history")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--raw", type=Path, help="every measurement as JSON; beside --out when left out")
    parser.add_argument("--from-raw", type=Path, help="make the records of such a file, measure nothing")
    chosen = parser.parse_args(arguments)
    publishes = chosen.out.resolve() == DEFAULT_OUT.resolve()
    if chosen.from_raw is None and publishes and (chosen.small or chosen.device == "cpu"):
        parser.error("a small run or one on a CPU is not for publishing: name another --out")
    raw = chosen.raw or chosen.out.with_suffix(".raw.json")
    if chosen.from_raw is not None:
        kept = json.loads(chosen.from_raw.read_text(encoding="utf-8"))
        run = RunInfo(**{**kept["run"], "date": date.fromisoformat(kept["run"]["date"])})
        found = kept["found"]
    else:
        run = describe_run(COMMAND, device=chosen.device, commit=chosen.commit)
        torch.set_num_threads(1)
        raw.parent.mkdir(parents=True, exist_ok=True)
        plain_run = {**asdict(run), "date": run.date.isoformat()}

        def keep(so_far: Measured) -> None:
            raw.write_text(json.dumps({"run": plain_run, "found": so_far}), encoding="utf-8")

        found = measure(chosen.device, chosen.small, chosen.budget_s, keep)
    try:
        from benchmarks.core.record import format_table, write_records
    except ImportError as error:
        print(f"{error.name} is not here: the measurements lie in {raw}; make records of them with --from-raw")
        return 1 if found["failed"] else 0
    records = records_of(run, found)
    write_records(chosen.out, records)
    print(format_table(records))
    for name, reason in found["failed"].items():
        print(f"NOT MEASURED: {name}: {reason}")
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
