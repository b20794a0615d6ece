"""The kernel benchmark's baselines do the same work as what they are compared with, and its records are the named cases."""

from __future__ import annotations

import json

import pytest
import torch

from benchmarks.core.gpu_timing import between_events_ms, replayed_ms
from benchmarks.kernels import run as kernels
from benchmarks.kernels.five_pass import eager_composite, five_pass_splice, sampling_grid
from benchmarks.kernels.inputs import composite_bytes, face_bytes, sets_beyond_l2
from benchmarks.kernels.run import records, summary
from benchmarks.rife import run as rife
from kernels.nv12.composite import composite_nv12_torch
from kernels.nv12.splice import nv12_splice
from tests.support.triton import assert_close
from tests.unit.kernels.nv12.test_composite_triton import crops_of, plan_of

CASES = [
    "nv12_splice_b8",
    "nv12_splice_b8_copy_floor_share",
    "composite_nv12_b8",
    "composite_nv12_b8_ms_per_frame",
    "composite_graph_launch_ms",
]


def test_five_passes_make_the_splice_of_the_published_options_truncated():
    generator = torch.Generator().manual_seed(0)
    face = torch.randint(0, 256, (2, 3, 20, 12), generator=generator).float()
    canvas = torch.randint(0, 256, (2, 60, 30), dtype=torch.uint8, generator=generator)
    before = canvas.clone()
    old = five_pass_splice(face, canvas, 6, 4)
    assert torch.equal(canvas, before)
    ours = nv12_splice(face, canvas, 6, 4, white=255.0, colour="bt601", chroma="top_left")
    assert_close(old, ours, 1)
    assert not torch.equal(old, ours)


def test_the_eager_composite_is_the_composite():
    plan, crops = plan_of(colour="bt601", chroma="top_left"), crops_of(2)
    grid = sampling_grid(torch.from_numpy(plan.canvas_to_crop), plan.height, plan.width)
    background = torch.from_numpy(plan.background).permute(2, 0, 1)[None]
    mask = torch.from_numpy(plan.mask)[None, None]
    canvas = torch.zeros((2, plan.height * 3 // 2, plan.width), dtype=torch.uint8)
    got = eager_composite(crops, grid, mask, background, canvas, 0, 0)
    assert_close(got, torch.cat(composite_nv12_torch(crops, plan), dim=1), 1)


def test_bytes_are_counted_once():
    assert face_bytes(torch.uint8) == 8 * 656 * 640 * 3 * 3 // 2
    assert composite_bytes(1) == 512 * 512 * 3 + 656 * 640 * 8 + 656 * 640 * 3 // 2
    assert sets_beyond_l2(45_342_720) == 5


def fake_run() -> dict[str, object]:
    times = [0.01, 0.011, 0.012]
    splice = {"bytes": 43_000_000, "ms": times, "five_pass_ms": [0.2, 0.22, 0.24]}
    run = {"device": "GPU", "cpu": "c", "torch": "2", "commit": "0" * 8, "date": "2026-01-02", "command": "x"}
    return {
        "run": run,
        "failed": {},
        "copies_bytes_per_s": {"kernel": 4.3e12},
        "copy_bytes_per_s": 4.3e12,
        "splice": {"float32_planar": splice},
        "composite": {"bytes": 8_600_000, "ms": times, "eager_ms": [0.4, 0.4, 0.4]},
        "graph": {"bytes": 4_300_000, "replay_ms": times, "run_ms": times, "eager_ms": [0.3, 0.3, 0.3]},
    }


def test_the_records_are_the_five_cases_and_come_back_from_the_kept_measurements():
    found = json.loads(json.dumps(fake_run()))
    made = {record.case: record for record in records(found)}
    assert list(made) == CASES
    assert made["nv12_splice_b8"].ratio == pytest.approx(20.0)
    assert made["nv12_splice_b8_copy_floor_share"].value == pytest.approx(0.01 / 0.011, rel=1e-4)
    assert made["composite_nv12_b8_ms_per_frame"].value == pytest.approx(0.011 / 8)
    assert made["composite_graph_launch_ms"].floor_value == pytest.approx(0.001)
    assert "share 0.909" in summary(found)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("benchmark", [kernels, rife])
def test_without_a_gpu_nothing_is_measured(benchmark, tmp_path, capsys):
    assert benchmark.main(["--out", str(tmp_path / "x.json")]) == 1
    assert "no CUDA device" in capsys.readouterr().err and not list(tmp_path.iterdir())


@pytest.mark.gpu
def test_timing_sees_ten_times_the_work():
    small, large = (torch.rand(n, device="cuda") for n in (2**24, 10 * 2**24))
    times = [sorted(replayed_ms([lambda t=t: t.mul_(1.0)], repeats=4, samples=9))[4] for t in (small, large)]
    assert 6 < times[1] / times[0] < 16
    assert sorted(between_events_ms(lambda: large.mul_(1.0), count=4, samples=9))[4] == pytest.approx(times[1], rel=0.3)
