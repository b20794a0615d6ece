"""The RIFE benchmark's measures, on the CPU with small pictures."""

from __future__ import annotations

from datetime import date

import numpy as np
import torch

from benchmarks.core.run_info import RunInfo
from benchmarks.rife import cpu as rife_cpu
from benchmarks.rife import run as rife
from engines.networks import build
from engines.networks.rife.ifnet import IFNet
from engines.rife import Interpolator

RUN = RunInfo(device="cpu", cpu="x", torch="2", commit="unknown", date=date(2026, 1, 1), command="x")


def test_a_step_of_the_mean_is_seen() -> None:
    class Brighter:
        def prepare(self, height: int, width: int) -> None:
            pass

        def encode(self, frames: torch.Tensor) -> torch.Tensor:
            return frames

        def between(
            self, before: torch.Tensor, after: torch.Tensor, times: torch.Tensor, h: int, w: int
        ) -> torch.Tensor:
            return before + 1

    network = build("rife/mini")
    assert isinstance(network, IFNet)
    stills = np.full((2, 16, 16, 3), 100, np.uint8)
    record = rife.still_record(RUN, Interpolator(network, "x", engine=Brighter()), stills, "rife_still_luma_step")
    assert abs(record.value - 1.0) < 1e-6 and record.n == 2


def test_precision_is_against_the_unrounded_float32_result() -> None:
    record = rife.psnr_record(RUN, "4.9", rife.frames_of(2, 64), "cpu")
    assert 55.0 < record.value < 59.5 and record.n == 2
    assert record.baseline == rife.ROUNDED and 40.0 < (record.baseline_value or 0.0) < record.value


def test_precision_of_the_embedded_network_has_its_own_row() -> None:
    record = rife.psnr_record(RUN, "mini", rife.frames_of(2, 64), "cpu")
    assert record.case == "rife_mini_fp16_psnr_db" and record.value > 50.0


def test_the_timed_work_makes_the_frames_of_the_interpolator() -> None:
    network, frames = rife.formula_network("4.6"), rife.frames_of(3, 64)
    made = rife.fast_work(network, frames, 2, "cpu")()
    wanted = Interpolator(network, "x").interpolate(frames[:2], frames[1:], [0.5, 0.5])
    assert isinstance(made, torch.Tensor)
    assert (made.int() - wanted.int()).abs().max() <= 2


def test_cost_on_a_cpu_is_what_the_clock_says_without_the_first_frame() -> None:
    network = build("rife/mini")
    assert isinstance(network, IFNet)
    ticks = iter([0.0, 9.0, 10.0, 10.25, 20.0, 20.5, 30.0, 30.125])
    costs = rife_cpu.cost_ms(network, rife.frames_of(3, 32), 3, lambda: next(ticks))
    assert costs == [250.0, 500.0, 125.0]
    rows = {row.case: row for row in rife_cpu.records(RUN, {"4.9": [500.0], "4.25": [400.0], "mini": costs})}
    assert list(rows) == ["rife49_cpu_ms", "rife425_cpu_ms", "rife_mini_cpu_ms"]
    assert rows["rife49_cpu_ms"].baseline is None
    assert rows["rife_mini_cpu_ms"].value == 250.0 and rows["rife_mini_cpu_ms"].ratio == 2.0
