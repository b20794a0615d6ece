"""The stages of `mini` and the RIFE networks on a GPU as they are today: eager torch, no graphs, no own kernels but the tail.

`python -m benchmarks.quality.mini_gpu` makes `results/h200/mini.json`. Baseline of the `mini` rows, in the same run: the same
stage on one thread of the same machine's CPU. RIFE rows have no baseline yet; they are the starting point for the fast path.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import torch

from benchmarks.core.gpu_timing import between_events_ms
from benchmarks.core.record import BenchmarkRecord, format_table, make_record, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from benchmarks.quality.renderer_speed import talking_motion
from engines.networks import build
from pipeline.mini.load import load_speech_stages
from pipeline.mini.motion_diffusion import initial_carry
from pipeline.mini.presenter import default_avatar
from pipeline.mini.renderer import Renderer
from pipeline.stages import RenderRequest
from pipeline.types import Avatar, MotionChunk

SUITE: Final = "mini"
DEFAULT_OUT: Final = RESULTS_DIR / "h200" / f"{SUITE}.json"
CHUNK: Final = 8
CPU_SAMPLES: Final = 6
CPU_BASELINE: Final = "the same stage on one CPU thread of this machine"


def _cpu_ms(work: Callable[[], object]) -> float:
    work()
    taken = []
    for _ in range(CPU_SAMPLES):
        began = time.perf_counter()
        work()
        taken.append(1e3 * (time.perf_counter() - began))
    return float(np.median(taken))


def render_work(device: str, avatar: Avatar) -> Callable[[], object]:
    """Make a function that takes one chunk of 8 frames through renderer and tail, NV12 back on the host."""
    renderer = Renderer(lambda avatar_id: avatar, device)
    request = RenderRequest(avatar.avatar_id, MotionChunk(talking_motion(CHUNK).numpy(), 0), None, 25, "bt709")
    return lambda: renderer.render(request)


def motion_work(device: str) -> Callable[[], object]:
    """Make a function that takes one hop of 8 frames from PCM to motion."""
    audio, motion = load_speech_stages(device)
    window = np.random.default_rng(0).normal(0.0, 0.1, audio.window_samples).astype(np.float32)
    carry = initial_carry(0, np.zeros((1, 265), np.float32))
    return lambda: motion.step(audio.window(window, 0), carry)


def measure(run: RunInfo) -> list[BenchmarkRecord]:
    """All rows; needs a CUDA device."""
    torch.set_num_threads(1)
    avatar = default_avatar()
    records = []
    for case, make in (
        ("mini_render_b8_ms_per_frame", lambda device: render_work(device, avatar)),
        ("mini_motion_hop8_ms_per_frame", motion_work),
    ):
        samples = [ms / CHUNK for ms in between_events_ms(make("cuda"), count=1, samples=30)]
        records.append(
            make_record(
                run,
                suite=SUITE,
                case=case,
                unit="ms",
                samples=samples,
                higher_is_better=False,
                baseline=CPU_BASELINE,
                baseline_value=_cpu_ms(make("cpu")) / CHUNK,
            )
        )
    for version in ("4.6", "4.9", "4.25"):
        net = build(f"rife/{version}").cuda().half()
        frames = torch.rand(2, 3, 512, 512, device="cuda", dtype=torch.float16)
        with torch.inference_mode():
            samples = between_events_ms(partial(net, frames[:1], frames[1:], 0.5), count=4)
        records.append(
            make_record(
                run,
                suite=SUITE,
                case=f"rife{version.replace('.', '')}_eager_fp16_512_b1_ms",
                unit="ms",
                samples=samples,
                higher_is_better=False,
            )
        )
    return records


def main(arguments: list[str] | None = None) -> int:
    """Run and write the records; 0 done, 1 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--commit", help="what is measured, where the tree came without its history")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("no CUDA device", file=sys.stderr)
        return 1
    records = measure(describe_run("python -m benchmarks.quality.mini_gpu", device="cuda:0", commit=options.commit))
    write_records(options.out, records)
    print(format_table(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
