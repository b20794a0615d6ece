"""The driver of the shared-GPU benchmark: records, failures that are said, a worker that answers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.core.record import read_records
from benchmarks.core.run_info import describe_run
from benchmarks.graph import shared_gpu
from benchmarks.graph.shared_gpu_stages import FRACTIONS, STAGES


def sharing(slower: float) -> dict[str, Any]:
    alone = {stage: {"ms": [10.0] * 100, "seconds": 1.0} for stage in STAGES}
    together = {stage: {"ms": [10.0 * slower] * int(100 / slower), "seconds": 1.0} for stage in STAGES}
    return {"alone": alone, "together": together}


def measured(**changes: Any) -> dict[str, Any]:
    cap = {"refused": True, "message": "out of memory", "works_after": True, "neighbour_calls": 9, "calls_after": 9}
    hops = {"plasma_like": [4.0, 5.0], "pinned": [1.0, 1.0], "cuda_ipc": "RuntimeError: not here"}
    return {"failed": {}, "time_sliced": sharing(4.0), "handover": {"uint8": hops}, "cap": cap, **changes}


def test_records_say_what_was_measured() -> None:
    records = {record.case: record for record in shared_gpu.records_of(describe_run("x"), measured(mps=sharing(2.0)))}
    assert records["time_sliced_total_share"].value == 1.0 and records["mps_total_share"].value == 2.0
    call = records["time_sliced_rife_call_ms"]
    assert (call.value, call.baseline_value, call.ratio) == (40.0, 10.0, 0.25)
    assert records["handover_uint8_pinned_ms"].ratio == 4.5
    assert "handover_uint8_cuda_ipc_ms" not in records  # it failed; the raw file says why
    assert records["memory_cap_holds"].value == 1.0


@pytest.mark.parametrize("change", [{"refused": False}, {"works_after": False}, {"neighbour_calls": 0}])
def test_a_cap_that_does_not_hold_is_published_as_such(change: dict[str, Any]) -> None:
    cap = {**measured()["cap"], **change}
    records = {record.case: record for record in shared_gpu.records_of(describe_run("x"), measured(cap=cap))}
    assert records["memory_cap_holds"].value == 0.0


def test_records_can_be_made_of_a_raw_file_elsewhere(tmp_path: Path) -> None:
    run = {**describe_run("x").__dict__, "date": "2026-11-30"}
    raw, out = tmp_path / "raw.json", tmp_path / "out.json"
    raw.write_text(json.dumps({"run": run, "found": measured(failed={"mps": "not on this machine"})}))
    assert shared_gpu.main(["--from-raw", str(raw), "--out", str(out)]) == 1  # a part failed
    assert {record.case for record in read_records(out)} >= {"time_sliced_total_share", "memory_cap_holds"}


def test_a_part_that_fails_is_said_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object) -> Any:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(shared_gpu, "workers", broken)
    monkeypatch.setattr(shared_gpu.handover, "measure", lambda device, samples: {"uint8": {}})
    kept: list[dict[str, Any]] = []
    found = shared_gpu.measure("cpu", True, 100.0, lambda so_far: kept.append(dict(so_far)))
    assert found["failed"] == {"time_sliced": "RuntimeError: no such thing"} and "handover" in found
    assert "time_sliced FAILED" in capsys.readouterr().out and len(kept) == 2
    assert set(shared_gpu.measure("cpu", True, 1.0, kept.append)["failed"]) == {"time_sliced", "handover"}


def test_a_small_run_is_not_published() -> None:
    with pytest.raises(SystemExit):
        shared_gpu.main(["--device", "cpu", "--small"])


def test_a_worker_answers_and_ends() -> None:
    worker = shared_gpu.Worker("renderer", "cpu", True, dict(os.environ))
    try:
        assert worker.answer(120.0)["ready"] == "renderer"
        worker.tell(do="run", seconds=0.05, start=0.0)
        assert worker.answer(60.0)["ms"]
    finally:
        worker.stop()
    with pytest.raises(RuntimeError, match="renderer ended"):
        worker.answer(10.0)


def test_a_worker_that_cannot_start_is_an_error() -> None:
    worker = shared_gpu.Worker("nothing", "cpu", True, dict(os.environ))
    try:
        with pytest.raises(RuntimeError, match="ended"):
            worker.answer(120.0)
    finally:
        worker.stop()


def test_memory_shares_leave_nothing_over() -> None:
    assert sum(FRACTIONS.values()) <= 1.0 and set(FRACTIONS) == set(STAGES)
