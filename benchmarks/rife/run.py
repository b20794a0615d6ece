"""RIFE on a GPU: `python -m benchmarks.rife` makes `results/h200/rife.json`.

What is timed is the device work of one frame in between: encoding one new frame and interpolating, uint8 in and uint8 out,
512 x 512, replayed from one CUDA graph. Baseline, in the same run and replayed the same way: the modules as they are in
float16 (both frames encoded, float16 in and out). Weights for times and for the precision are those of the documented
formula: speed does not depend on them, and their flows of several pixels are a harder test of precision than a talking face.
The step of the mean of a still is measured with weights that were trained: the embedded network. Baseline of the precision, on
the same pictures: those modules in float16, their frames rounded to the same levels.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from benchmarks.core.gpu_timing import between_events_ms, replayed_ms
from benchmarks.core.record import BenchmarkRecord, format_table, make_record, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from engines.networks import build
from engines.networks.rife.ifnet import IFNet
from engines.rife import Interpolator, load_interpolator
from engines.rife.fast import FastEngine
from engines.rife.sources import find_network
from kernels.arrays import U8
from kernels.errors import LiveAnchorError

SUITE: Final = "rife"
DEFAULT_OUT: Final = RESULTS_DIR / "h200" / f"{SUITE}.json"
SIZE: Final = 512
FORMULA: Final = Path(__file__).resolve().parents[2] / "tests" / "data" / "rife" / "fill.py"
REPLAYED: Final = "modules in float16 as they are, replayed the same way"
CALLED: Final = "modules in float16 as they are, called from Python"
ROUNDED: Final = "modules in float16 as they are, rounded to levels"
LUMA: Final = (0.2126, 0.7152, 0.0722)
MATRIX_FLOPS: Final = 7.9e14
GFLOP: Final = {"4.9": 22.6, "4.25": 10.9}
"""Per frame in between, one new encoding included (facts: rife.md, section 3)."""


def formula() -> Any:
    """The published weight and picture formula."""
    spec = importlib.util.spec_from_file_location("rife_fill", FORMULA)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(FORMULA)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def formula_network(version: str) -> IFNet:
    """A network with the formula's weights."""
    network = build(f"rife/{version}")
    if not isinstance(network, IFNet):
        raise TypeError(version)
    shapes = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    network.load_state_dict({key: torch.from_numpy(value) for key, value in formula().state_dict(shapes, "").items()})
    return network.requires_grad_(False)


def network_of(version: str) -> IFNet:
    """`mini` with its own weights, any other with the formula's."""
    return find_network("rife/mini").network if version == "mini" else formula_network(version)


def frames_of(count: int, size: int = SIZE) -> U8:
    """Drifting pictures of the formula, uint8 (count, size, size, 3)."""
    return np.stack([formula().frame(size, size, k) for k in range(count)])


def fast_work(network: IFNet, frames: U8, batch: int, device: str = "cuda") -> Callable[[], object]:
    """Encode `batch` new frames, interpolate `batch` pairs."""
    folded = FastEngine(network, device).folded
    before, after = (torch.from_numpy(np.stack([frames[k % len(frames)] for k in range(s, s + batch)])) for s in (0, 1))
    known, fresh = folded.encode(before.to(device)), after.to(device)
    times = torch.full((batch,), 0.5, device=device)
    return lambda: folded.between(known, folded.encode(fresh), times, frames.shape[1], frames.shape[2])


def compiled(work: Callable[[], object]) -> Callable[[], object]:
    """The same work, its kernels compiled by all cores."""
    from kernels.triton_launch import compiling_in_parallel

    with compiling_in_parallel():
        work()
    return work


def plain_work(network: IFNet, batch: int, device: str = "cuda") -> Callable[[], object]:
    """The modules as they are."""
    half = network.to(device).half()
    pair = torch.rand(2, batch, 3, SIZE, SIZE, device=device, dtype=torch.float16)
    return partial(half, pair[0], pair[1], torch.full((batch,), 0.5, device=device, dtype=torch.float16))


def time_records(run: RunInfo, version: str, batch: int, frames: U8) -> list[BenchmarkRecord]:
    """Device time per frame in between, and what a call of the modules from Python takes."""
    suffix = "_b1_ms" if batch == 1 else f"_b{batch}_ms_per_frame"
    name = f"rife{version.replace('.', '')}{suffix}"
    with torch.inference_mode():
        work = compiled(fast_work(formula_network(version), frames, batch))
        samples = [ms / batch for ms in replayed_ms([work], repeats=4)]
        plain = plain_work(formula_network(version), batch)
        replayed = float(np.median(replayed_ms([plain], repeats=2))) / batch
        called = float(np.median(between_events_ms(plain, count=4))) / batch
    make = partial(make_record, run, suite=SUITE, unit="ms", samples=samples, higher_is_better=False)
    floor = GFLOP[version] * 1e9 / MATRIX_FLOPS * 1e3
    return [
        make(case=name, baseline=REPLAYED, baseline_value=replayed, floor_value=floor),
        make(case=f"{name}_to_called", baseline=CALLED, baseline_value=called),
    ]


def psnr_record(run: RunInfo, version: str, frames: U8, device: str = "cuda") -> BenchmarkRecord:
    """The fast path's levels against the unrounded float32 result of the modules; rounding alone allows 58.9 dB.

    Args:
        run: Facts that all records of this run share.
        version: With the formula's weights; `mini`: with its own.
        frames: Pictures, (n, h, w, 3); every neighbouring pair is interpolated at 1/4 and 1/2.
        device: Where.
    """
    network = network_of(version)
    samples, plain = [], []
    fast = Interpolator(network, version, device, FastEngine(network, device))
    exact, half = network.to(device), network_of(version).to(device).half()
    for k in range(len(frames) - 1):
        for time in (0.25, 0.5):
            made = fast.interpolate(frames[k : k + 1], frames[k + 1 : k + 2], [time]).float()
            images = torch.from_numpy(frames[k : k + 2]).to(device).permute(0, 3, 1, 2).float() / 255.0
            with torch.inference_mode():
                wanted = exact(images[:1], images[1:], time).clamp(0, 1).permute(0, 2, 3, 1) * 255.0
                rough = half(images[:1].half(), images[1:].half(), time).float().clamp(0, 1).permute(0, 2, 3, 1) * 255.0
            samples.append(psnr_of(made, wanted))
            plain.append(psnr_of(rough.round(), wanted))
    name = "rife_mini_fp16_psnr_db" if version == "mini" else f"rife{version.replace('.', '')}_fp16_psnr_db"
    return make_record(
        run,
        suite=SUITE,
        case=name,
        unit="dB",
        samples=samples,
        higher_is_better=True,
        baseline=ROUNDED,
        baseline_value=float(np.median(plain)),
        floor_value=58.9,
    )


def psnr_of(levels: torch.Tensor, wanted: torch.Tensor) -> float:
    """Decibels of pictures in 0..255."""
    return float(10 * torch.log10(255.0**2 / (levels - wanted).square().mean()))


def still_record(run: RunInfo, interpolator: Interpolator, stills: U8, case: str) -> BenchmarkRecord:
    """Largest change of the mean luma (BT.709, levels) from a still to the frame made in between it and itself."""
    made = interpolator.interpolate(stills, stills, [0.5] * len(stills)).cpu().double()
    weights = torch.tensor(LUMA, dtype=torch.float64)
    steps = ((made - torch.from_numpy(stills).double()) @ weights).mean((1, 2)).abs()
    worst = float(steps.max())
    return make_record(
        run, suite=SUITE, case=case, unit="level", samples=steps.numpy(), higher_is_better=False, value=worst
    )


def talking_stills() -> U8:
    """Stills: the default presenter, and pictures of the formula."""
    from pipeline.mini.presenter import default_avatar

    return np.stack([np.asarray(default_avatar().tensors["crop_rgb"], np.uint8), *frames_of(3)])


def mini_record(run: RunInfo, frames: U8) -> BenchmarkRecord:
    """Device time of the embedded network."""
    with torch.inference_mode():
        samples = replayed_ms([compiled(fast_work(network_of("mini"), frames, 1))], repeats=4)
        plain = float(np.median(replayed_ms([plain_work(network_of("mini"), 1)], repeats=2)))
    return make_record(
        run,
        suite=SUITE,
        case="rife_mini_b1_ms",
        unit="ms",
        samples=samples,
        higher_is_better=False,
        baseline=REPLAYED,
        baseline_value=plain,
    )


def measures(run: RunInfo) -> dict[str, Callable[[], Sequence[BenchmarkRecord]]]:
    """Everything that is measured, by the name of its part."""
    frames = frames_of(9)
    made: dict[str, Callable[[], Sequence[BenchmarkRecord]]] = {
        f"{version}-{batch}": partial(time_records, run, version, batch, frames)
        for version in ("4.9", "4.25")
        for batch in (1, 8)
    }
    made["precision"] = lambda: [psnr_record(run, version, frames[:3]) for version in ("4.9", "4.25")]
    made["mini"] = lambda: [mini_record(run, frames), psnr_record(run, "mini", frames[:3])]
    embedded = partial(load_interpolator, "rife/mini", "cuda")
    made["still"] = lambda: [still_record(run, embedded(), talking_stills(), "rife_still_luma_step")]
    return made


def main(arguments: list[str] | None = None) -> int:
    """Run and write the records; 0 done, 1 without a GPU or when a row could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--commit", help="what is measured, where the tree came without its history")
    parser.add_argument("--only", nargs="+", metavar="PART", help="4.9-1 4.9-8 4.25-1 4.25-8 precision mini still")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("no CUDA device", file=sys.stderr)
        return 1
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    run = describe_run("python -m benchmarks.rife", device="cuda:0", commit=options.commit)
    failed = False
    for part, work in measures(run).items():
        if options.only and part not in options.only:
            continue
        try:
            records = work()
        except (RuntimeError, LiveAnchorError) as error:  # the other rows are still worth having
            print(f"not measured: {error}", file=sys.stderr, flush=True)
            failed = True
            continue
        write_records(options.out, records)
        print(format_table(records), flush=True)
    return 1 if failed else 0
