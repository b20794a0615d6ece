"""Ditto's motion model: one 80-frame window by 10 and 50 DDIM steps, and how far 16 bits move it.

`python -m benchmarks.ditto.motion` makes the `lmdm_*` rows of `results/h200/ditto.json`. Both sides are timed between CUDA events
around one whole call, inputs on the device; ours includes copying them into the graph and the result out of it. `--raw FILE` keeps
what is not published: the baseline as a CUDA graph too, every type, and where the device time goes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from benchmarks.core.gpu_timing import between_events_ms
from benchmarks.core.record import BenchmarkRecord, format_table, make_record, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from benchmarks.ditto.reference_lmdm import ReferenceSampling
from engines.ditto.fast.sampler import FastSampler
from engines.ditto.motion_sampler import MotionSampler
from engines.networks import build
from engines.networks.lmdm import Lmdm
from engines.runtimes.cuda_graphs import BucketedGraph

SUITE: Final = "ditto"
DEFAULT_OUT: Final = RESULTS_DIR / "h200" / f"{SUITE}.json"
BASELINE: Final = "own modules as the reference runs them: eager fp16, two guidance passes, nothing hoisted"
CASES: Final = (
    ("lmdm_10step_window_b1_ms", 10, 1),
    ("lmdm_10step_window_b16_ms", 10, 16),
    ("lmdm_50step_window_b1_ms", 50, 1),
)
"""Case, DDIM steps, windows per call."""
DTYPE: Final = torch.float16
PEAK_FLOPS: Final = 790e12
WINDOW_FLOPS: Final = 2 * 2 * 160 * 21.2e6
"""Per step and window: two branches of 80 rows through 21.2 M weights (8 layers of 2.6 M, in- and output); attention left out."""
ERROR_INPUTS: Final = 12


def random_lmdm(seed: int = 5) -> Lmdm:
    """The network at its real size, random weights."""
    lmdm = build("ditto/lmdm", seed=seed).requires_grad_(False)
    assert isinstance(lmdm, Lmdm)  # noqa: S101 - what the registry builds under this name
    return lmdm


def window_inputs(lmdm: Lmdm, steps: int, batch: int, device: str, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Random condition frame, conditions and noise of `batch` windows."""
    generator = torch.Generator().manual_seed(seed)
    frame = torch.randn((batch, lmdm.motion_dim), generator=generator)
    cond = torch.randn((batch, lmdm.seq_frames, lmdm.cond_dim), generator=generator)
    noise = torch.randn((batch, steps, lmdm.seq_frames, lmdm.motion_dim), generator=generator)
    return frame.to(device), cond.to(device), noise.to(device)


def timed_ms(work: Callable[[], object], device: str, samples: int) -> list[float]:
    """Milliseconds of one call each; the CPU's are for dry runs only."""
    if device == "cuda":
        return between_events_ms(work, count=1, samples=samples)
    taken = []
    for _ in range(2):
        began = time.perf_counter()
        work()
        taken.append(1e3 * (time.perf_counter() - began))
    return taken


def captured(lmdm: Lmdm, steps: int, batch: int, device: str, dtype: torch.dtype = DTYPE) -> BucketedGraph:
    """The fast sampler as a graph of one batch size."""
    fast = FastSampler(lmdm, steps, dtype).to(device)
    graph = BucketedGraph(fast, lambda n: window_inputs(lmdm, steps, n, device, 9), (batch,), device)
    graph.prepare()
    return graph


def speed_record(run: RunInfo, case: str, steps: int, batch: int, device: str, raw: dict[str, Any]) -> BenchmarkRecord:
    """Measure one case and its baseline."""
    lmdm = random_lmdm()
    inputs = window_inputs(lmdm, steps, batch, device)
    graph = captured(lmdm, steps, batch, device, DTYPE if device == "cuda" else torch.float32)
    ours = timed_ms(lambda: graph(*inputs), device, 40)
    reference = ReferenceSampling(lmdm, steps, DTYPE if device == "cuda" else torch.float32).to(device)
    with torch.inference_mode():
        theirs = timed_ms(lambda: reference(*inputs), device, 3)
    raw[case] = {"ms": float(np.median(ours)), "baseline_ms": float(np.median(theirs))}
    floor = 1e3 * batch * steps * WINDOW_FLOPS / PEAK_FLOPS
    return make_record(
        run,
        suite=SUITE,
        case=case,
        unit="ms",
        samples=ours,
        higher_is_better=False,
        baseline=BASELINE,
        baseline_value=float(np.median(theirs)),
        floor_value=floor,
    )


def relative_error(got: Tensor, want: Tensor) -> float:
    """Norm of the difference over the norm; NaN gives infinity."""
    error = float((got.double() - want.double()).norm() / want.double().norm())
    return error if np.isfinite(error) else float("inf")


def error_record(run: RunInfo, device: str, raw: dict[str, Any]) -> BenchmarkRecord:
    """Worst relative error of x0 over whole windows of 1, 10 and 50 steps, float32 eager as reference; fresh inputs each."""
    lmdm = random_lmdm()
    errors: dict[str, list[float]] = {"fp16": [], "bf16": [], "eager fp16": []}
    types = {"fp16": torch.float16, "bf16": torch.bfloat16}
    types = types if device == "cuda" else {"fp16": torch.float32}
    for steps in (1, 10, 50) if device == "cuda" else (1,):
        exact = MotionSampler(lmdm, steps).to(device)
        fast = {name: FastSampler(lmdm.cpu(), steps, dtype).to(device) for name, dtype in types.items()}
        exact.to(device)
        reference = ReferenceSampling(lmdm, steps, DTYPE if device == "cuda" else torch.float32).to(device)
        with torch.inference_mode():
            for seed in range(1 if device == "cpu" else ERROR_INPUTS // (1 if steps < 50 else 6)):
                inputs = window_inputs(lmdm, steps, 1, device, 1000 + seed)
                want = exact(*inputs)
                for name, sampler in fast.items():
                    errors[name].append(relative_error(sampler(*inputs), want))
                errors["eager fp16"].append(relative_error(reference(*inputs), want))
    raw["x0_relative_error"] = {
        name: {"worst": max(e), "median": float(np.median(e))} for name, e in errors.items() if e
    }
    return make_record(
        run,
        suite=SUITE,
        case="lmdm_16bit_rel_error",
        unit="1",
        samples=errors["fp16"],
        value=max(errors["fp16"]),
        higher_is_better=False,
        baseline="the same inputs through our own modules, eager fp16",
        baseline_value=max(errors["eager fp16"]),
    )


def kernel_times(work: Callable[[], object], top: int = 14) -> list[tuple[str, int, float]]:
    """Name, launches and microseconds of device time per call of the kernels that take most."""
    from torch.profiler import ProfilerActivity, profile

    work()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        for _ in range(2):
            work()
        torch.cuda.synchronize()
    rows = [(e.key[:70], e.count // 2, e.self_device_time_total / 2) for e in profiler.key_averages()]
    return sorted(rows, key=lambda row: -row[2])[:top]


def profile_rows(device: str, raw: dict[str, Any]) -> None:
    """Where the device time of one 10-step window goes: the reference's way, and ours."""
    lmdm = random_lmdm()
    inputs = window_inputs(lmdm, 10, 1, device)
    reference = ReferenceSampling(lmdm, 10, DTYPE).to(device)
    with torch.inference_mode():
        raw["profile_reference_b1"] = kernel_times(lambda: reference(*inputs))
    for batch in (1, 16):
        graph = captured(lmdm, 10, batch, device)
        many = window_inputs(lmdm, 10, batch, device)
        raw[f"profile_ours_b{batch}"] = kernel_times(lambda graph=graph, many=many: graph(*many))  # type: ignore[misc]  # mypy cannot infer a lambda with defaults


def main() -> None:
    """Run; every case on its own, so that one failure does not cost the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--raw", type=Path)
    parser.add_argument("--commit")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--no-profile", action="store_true")
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    device = arguments.device
    run = describe_run("python -m benchmarks.ditto.motion", device=device, commit=arguments.commit)
    raw: dict[str, Any] = {}
    records: list[BenchmarkRecord] = []
    work: list[tuple[str, Callable[[], BenchmarkRecord | None]]] = [
        (case, lambda c=case, s=steps, b=batch: speed_record(run, c, s, b, device, raw))  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
        for case, steps, batch in (CASES if device == "cuda" else (("lmdm_10step_window_b1_ms", 10, 1),))
    ]
    work.append(("lmdm_16bit_rel_error", lambda: error_record(run, device, raw)))
    if device == "cuda" and not arguments.no_profile:
        work.append(("profile", lambda: profile_rows(device, raw)))
    for name, measure in work:
        began = time.perf_counter()
        try:
            record = measure()
        except (RuntimeError, ValueError) as error:
            sys.stdout.write(f"{name}: {type(error).__name__}: {error}\n")
            continue
        if record is not None:
            records.append(record)
            write_records(arguments.out, [record])
            sys.stdout.write(format_table([record]) + "\n")
        sys.stdout.write(f"# {name} took {time.perf_counter() - began:.1f} s\n")
        sys.stdout.flush()
        if arguments.raw is not None:
            arguments.raw.write_text(json.dumps(raw, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
