"""What a frame in between costs on a CPU: `python -m benchmarks.rife.cpu` makes `results/cpu-2core/rife_cpu.json`.

One frame in between at 512 x 512, one new encoding included, uint8 in and uint8 out, float32, one thread: processor time, which
other work on the machine changes little. Weights are those of the documented formula (`mini`: its own); time does not depend on
them. The baseline is 4.9. A session at 50 frames/s needs 25 of these a second: 40 ms each would keep up.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import torch

from benchmarks.core.record import BenchmarkRecord, format_table, make_record, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from benchmarks.rife.run import SIZE, frames_of, network_of
from engines.networks.rife.ifnet import IFNet
from engines.rife import Interpolator
from kernels.arrays import U8

SUITE: Final = "rife_cpu"
DEFAULT_OUT: Final = RESULTS_DIR / "cpu-2core" / f"{SUITE}.json"
BASELINE: Final = "4.9"
VERSIONS: Final = (BASELINE, "4.25", "4.0", "mini")
RUNS: Final = 7


def cost_ms(
    network: IFNet, frames: U8, runs: int = RUNS, clock: Callable[[], float] = time.process_time
) -> list[float]:
    """Milliseconds of `clock` per frame in between, after one that is not counted.

    Args:
        network: In eval mode.
        frames: uint8 (2 or more, h, w, 3).
        runs: Frames that are timed.
        clock: Seconds; processor time of this process.
    """
    interpolator = Interpolator(network, "", "cpu")
    before = interpolator.encode(frames[:1])
    times = []
    for run in range(runs + 1):
        k = 1 + run % (len(frames) - 1)
        begin = clock()
        after = interpolator.encode(frames[k : k + 1])
        interpolator.between(before, after, [0.5])
        times.append((clock() - begin) * 1e3)
        before = after
    return times[1:]


def records(run: RunInfo, costs: dict[str, list[float]]) -> list[BenchmarkRecord]:
    """Rows of one run; the baseline's own has none."""
    baseline = float(np.median(costs[BASELINE]))
    return [
        make_record(
            run,
            suite=SUITE,
            case=f"rife{'_mini' if version == 'mini' else version.replace('.', '')}_cpu_ms",
            unit="ms",
            samples=samples,
            higher_is_better=False,
            baseline=None if version == BASELINE else f"rife/{BASELINE}",
            baseline_value=None if version == BASELINE else baseline,
        )
        for version, samples in costs.items()
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run and write the records."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.rife.cpu", description=__doc__)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    frames = frames_of(3, SIZE)
    made = records(
        describe_run("python -m benchmarks.rife.cpu"),
        {version: cost_ms(network_of(version), frames) for version in VERSIONS},
    )
    write_records(options.out, made)
    print(format_table(made))
    return 0


if __name__ == "__main__":
    sys.exit(main())
