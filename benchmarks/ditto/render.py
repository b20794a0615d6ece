"""Speed and precision of the Ditto renderer on a GPU: `python -m benchmarks.ditto.render`; rows of `results/h200/ditto.json`.

Keypoints to pictures: dense motion, feature warp, decoder; fp16, weights by the golden tests' formula. Baseline in the same run:
our reference modules run as the public code runs them, eager, nothing hoisted or folded, fp16 (autocast, or `.half()` modules where
that is faster). The fast path's time is that of a whole call with inputs on the device: copies into the graph's buffers, replay,
copy out.

`--raw FILE` keeps every measurement as JSON; `--from-raw FILE` makes the records of such a file, for a GPU machine without the
schema's library. Either way the numbers are the run's own.
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from benchmarks.core.gpu_timing import between_events_ms, replayed_ms
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run

SUITE = "ditto"
OUT = RESULTS_DIR / "h200" / "ditto.json"
COMMAND = "python -m benchmarks.ditto.render"
BATCHES = (1, 2, 4, 8, 16)
PRECISION_INPUTS = 16
NAN_INPUTS = 200
FLOP_PER_FRAME = 1.028e12
"""Operations of the fast path (docs/performance.md); the reference modules do 1.234e12."""
FLOP_PER_S = 7.9e14
"""Measured rate of a large 16-bit matrix product on the H200."""

Measurements = dict[str, Any]
Inputs = tuple[Tensor, Tensor, Tensor]


class Renderers:
    """The two ways of drawing, over the same weights."""

    def __init__(self, device: str) -> None:
        from benchmarks.ditto.formula import filled
        from engines.ditto.fast.render import FastRender

        self.device = torch.device(device)
        warp, decoder = filled("warp_network"), filled("decoder")
        self.fast = FastRender(warp, decoder).to(device)  # type: ignore[arg-type]  # what the registry builds under these names
        self.warp, self.decoder = warp.to(device).eval(), decoder.to(device).eval()

    def inputs(self, count: int, seed: int, far: bool = False) -> Inputs:
        """A feature volume per picture and keypoints; `far` moves them well outside what a face does."""
        generator = torch.Generator().manual_seed(seed)
        reach = 1.6 if far else 0.7
        volume = torch.randn(count, 32, 16, 64, 64, generator=generator)
        source = (torch.rand(count, 21, 3, generator=generator) * 2 - 1) * reach
        driving = source + torch.randn(count, 21, 3, generator=generator) * (0.5 if far else 0.06)
        return volume.to(self.device), source.to(self.device), driving.to(self.device)

    def reference(self, inputs: Inputs) -> Tensor:
        """Eager, whatever autocast and the modules' type say."""
        picture: Tensor = self.decoder(self.warp(*inputs))
        return picture

    def prepared(self, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The fast path's inputs: source-only work done."""
        volume, source, driving = inputs
        return (*self.fast.source(volume), source, driving)


def measure_start(made: Renderers) -> Measurements:
    """Seconds from modules on the device to every bucket captured, kernels compiled for the first time on this machine."""
    from engines.ditto.fast.runtime import FastRenderRuntime

    begin = time.perf_counter()
    runtime = FastRenderRuntime(made.fast, made.device, buckets=BATCHES)
    runtime.prepare()
    torch.cuda.synchronize()
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    FastRenderRuntime(made.fast, made.device, buckets=BATCHES).prepare()
    torch.cuda.synchronize()
    return {"first_s": first, "again_s": time.perf_counter() - begin, "peak_bytes": torch.cuda.max_memory_allocated()}


def measure_fast(made: Renderers) -> Measurements:
    """Whole calls for every bucket, and the two parts as graph replays."""
    from engines.ditto.fast.dense_motion import SourceTensors
    from engines.ditto.fast.runtime import FastRenderRuntime
    from kernels.conv.flat_maps import FlatShape

    found: Measurements = {}
    runtime = FastRenderRuntime(made.fast, made.device, buckets=BATCHES)
    runtime.prepare()
    for batch in BATCHES:
        inputs = made.prepared(made.inputs(batch, batch))
        found[f"b{batch}_ms"] = between_events_ms(lambda i=inputs: runtime.draw(i[:2], *i[2:]), count=5, samples=20)  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
        print(f"fast b{batch}: {_median(found[f'b{batch}_ms']):.3f} ms", flush=True)
        if batch in (1, 8):
            volume, compressed, source, driving = inputs
            motion = made.fast.dense_motion
            tensors = SourceTensors(volume, compressed)
            warped, occlusion = motion(tensors, source, driving)
            shape = FlatShape(batch, 64, 64)
            found[f"dense_motion_b{batch}_ms"] = replayed_ms(
                [lambda m=motion, t=tensors, s=source, d=driving: m(t, s, d)],  # type: ignore[misc]  # as above
                repeats=4,
                samples=20,
            )
            found[f"decoder_b{batch}_ms"] = replayed_ms(
                [lambda w=warped, o=occlusion, s=shape: made.fast.decoder(w, o, s)],  # type: ignore[misc]  # as above
                repeats=4,
                samples=20,
            )
    return found


def measure_reference(made: Renderers) -> Measurements:
    """Eager fp16, both ways, whole and in parts."""
    found: Measurements = {}
    for batch in (1, 8):
        volume, source, driving = made.inputs(batch, batch)
        with torch.autocast("cuda", dtype=torch.float16):
            found[f"autocast_b{batch}_ms"] = _eager_ms(lambda i=(volume, source, driving): made.reference(i))  # type: ignore[misc]  # as above
        warp, decoder = copy.deepcopy(made.warp).half(), copy.deepcopy(made.decoder).half()
        half = (volume.half(), source.half(), driving.half())
        found[f"half_b{batch}_ms"] = _eager_ms(lambda i=half, w=warp, d=decoder: d(w(*i)))  # type: ignore[misc]  # as above
        dense = cast(nn.Module, warp.dense_motion_network)
        found[f"half_dense_motion_b{batch}_ms"] = _eager_ms(lambda i=half, m=dense: m(*i))  # type: ignore[misc]  # as above
        feature = warp(*half)
        found[f"half_decoder_b{batch}_ms"] = _eager_ms(lambda f=feature, d=decoder: d(f))  # type: ignore[misc]  # as above
        print(f"reference b{batch}: {_medians(found)}", flush=True)
    return found


def measure_precision(made: Renderers) -> Measurements:
    """Against float32 eager: PSNR (peak 1) and cosine per picture, for the fast path and for the reference under autocast."""
    found: Measurements = {"psnr_db": [], "cosine": [], "autocast_psnr_db": [], "not_finite": 0}
    for seed in range(PRECISION_INPUTS):
        inputs = made.inputs(1, 100 + seed)
        exact = made.reference(inputs)
        fast = made.fast.picture(*made.prepared(inputs))
        with torch.autocast("cuda", dtype=torch.float16):
            half = made.reference(inputs).float()
        found["psnr_db"].append(_psnr_db(fast, exact))
        found["autocast_psnr_db"].append(_psnr_db(half, exact))
        found["cosine"].append(float(torch.nn.functional.cosine_similarity(fast.flatten(), exact.flatten(), dim=0)))
    for seed in range(NAN_INPUTS // 8):
        fast = made.fast.picture(*made.prepared(made.inputs(8, 1000 + seed, far=seed % 2 == 1)))
        found["not_finite"] += int((~torch.isfinite(fast)).sum())
    return found


def profile(made: Renderers) -> str:
    """The kernels of one batch of eight by device time, as text."""
    inputs = made.prepared(made.inputs(8, 8))
    for _ in range(2):
        made.fast(*inputs)
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(3):
            made.fast(*inputs)
        torch.cuda.synchronize()
    rows = sorted(profiler.key_averages(), key=lambda row: -row.device_time_total)
    total = sum(row.device_time_total for row in rows)
    lines = [f"device time {total / 3e3:.3f} ms a batch"]
    lines += [f"{row.device_time_total / 3e3:8.3f} ms {row.count // 3:4d} x  {row.key[:110]}" for row in rows[:40]]
    return "\n".join(lines)


SECTIONS: dict[str, Callable[[Renderers], Any]] = {
    "start": measure_start,
    "fast": measure_fast,
    "precision": measure_precision,
    "reference": measure_reference,
    "profile": profile,
}


def measure(run: RunInfo, raw: Path | None, sections: list[str]) -> Measurements:
    """Every section, kept in `raw` after each. A section that fails is named and does not lose the others."""
    found: Measurements = {"run": {**asdict(run), "date": run.date.isoformat()}, "failed": {}}
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    made = Renderers("cuda")
    for name in sections:
        begin = time.perf_counter()
        try:
            with torch.inference_mode():
                found[name] = SECTIONS[name](made)
        except (RuntimeError, TypeError, ValueError, AttributeError, AssertionError, ImportError, KeyError) as error:
            found["failed"][name] = repr(error)[:3000]
        torch.cuda.empty_cache()
        print(f"== {name} {time.perf_counter() - begin:.1f} s {found['failed'].get(name, '')}", flush=True)
        print(found[name] if isinstance(found.get(name), str) else _medians(found.get(name, {})), flush=True)
        if raw is not None:
            raw.parent.mkdir(parents=True, exist_ok=True)
            raw.write_text(json.dumps(found), encoding="utf-8")
    return found


def records(found: Measurements) -> list[Any]:
    """The published rows of one run."""
    from benchmarks.core.record import make_record

    run = RunInfo(**{**found["run"], "date": date.fromisoformat(found["run"]["date"])})
    fast, reference, precision = found["fast"], found["reference"], found["precision"]

    def baseline(batch: int) -> tuple[str, float]:
        ways = {"autocast": reference[f"autocast_b{batch}_ms"], "half modules": reference[f"half_b{batch}_ms"]}
        name = min(ways, key=lambda way: _median(ways[way]))
        return f"reference modules, eager fp16 ({name})", _median(ways[name])

    def times(
        name: str, samples: list[float], beside: tuple[str, float] | None, per: int = 1, *, whole: bool = True
    ) -> Any:
        return make_record(
            run,
            suite=SUITE,
            case=name,
            unit="ms",
            samples=[ms / per for ms in samples],
            higher_is_better=False,
            baseline=beside[0] if beside else None,
            baseline_value=beside[1] / per if beside else None,
            floor_value=1e3 * FLOP_PER_FRAME / FLOP_PER_S if whole else None,
        )

    rows = [
        times("render_b8_ms_per_frame", fast["b8_ms"], baseline(8), 8),
        times("render_b1_ms", fast["b1_ms"], baseline(1)),
        times("render_b16_ms_per_frame", fast["b16_ms"], None, 16),
    ]
    for part in ("dense_motion", "decoder"):
        for batch in (1, 8):
            eager = reference[f"half_{part}_b{batch}_ms"]
            name = f"render_{part}_b{batch}_ms"
            rows.append(
                times(name, fast[f"{part}_b{batch}_ms"], ("reference module, half, eager", _median(eager)), whole=False)
            )
    rows.append(
        make_record(
            run,
            suite=SUITE,
            case="render_fp16_psnr_db",
            unit="dB",
            samples=precision["psnr_db"],
            higher_is_better=True,
            baseline="reference modules under autocast fp16, same float32 pictures",
            baseline_value=_median(precision["autocast_psnr_db"]),
        )
    )
    rows.append(
        make_record(
            run, suite=SUITE, case="render_fp16_cosine", unit="1", samples=precision["cosine"], higher_is_better=True
        )
    )
    rows.append(
        make_record(
            run,
            suite=SUITE,
            case="render_not_finite_values",
            unit="count",
            samples=[precision["not_finite"]],
            n=NAN_INPUTS,
            higher_is_better=False,
        )
    )
    rows.append(
        make_record(
            run,
            suite=SUITE,
            case="render_first_start_s",
            unit="s",
            samples=[found["start"]["first_s"]],
            higher_is_better=False,
        )
    )
    return rows


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", type=Path, help="also keep every measurement here, as JSON")
    parser.add_argument("--raw-only", action="store_true", help="write no records")
    parser.add_argument("--from-raw", type=Path, help="measure nothing, make the records of this file")
    parser.add_argument("--commit", help="what is measured, where the tree came without its history")
    parser.add_argument("--sections", default=",".join(SECTIONS))
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    if options.from_raw is not None:
        found = json.loads(options.from_raw.read_text(encoding="utf-8"))
    else:
        torch.manual_seed(0)
        run = describe_run(COMMAND, device="cuda:0", commit=options.commit)
        found = measure(run, options.raw, options.sections.split(","))
    if not options.raw_only:
        from benchmarks.core.record import format_table, write_records

        made = records(found)
        write_records(options.out, made)
        print(format_table(made))


def _eager_ms(work: Callable[[], object]) -> list[float]:
    return between_events_ms(work, count=4, samples=8)


def _psnr_db(got: Tensor, want: Tensor) -> float:
    return float(-10.0 * torch.log10((got.double() - want.double()).square().mean()))


def _median(values: list[float]) -> float:
    return float(sorted(values)[len(values) // 2])


def _medians(found: Measurements) -> str:
    return "  ".join(f"{k} {_median(v) if isinstance(v, list) else v:.5g}" for k, v in found.items())


if __name__ == "__main__":
    main()
