"""The parts of the GPU graph benchmark that can be wrong without a GPU: the document, what is read, what becomes of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray.serve")

import torch

from benchmarks.core.record import BenchmarkRecord
from benchmarks.core.run_info import describe_run
from benchmarks.graph import gpu as graph_gpu
from benchmarks.graph import gpu_service as graph
from benchmarks.graph.gpu_records import records_of
from benchmarks.graph.gpu_weights import pale
from deployments.graph.calls import GpuMemory, StageStats
from kernels.errors import LiveAnchorError

GIB = 2.0**30


def session(repeated: int, **p50: float) -> dict[str, Any]:
    latency = {stage: {"p50": value, "p95": value} for stage, value in p50.items()}
    return {"frames": 200, "frames_repeated": repeated, "stage_latency_ms": latency}


def live(count: int, repeated: int, ms: float) -> dict[str, Any]:
    return {
        "wanted": count,
        "failures": [],
        "reports": [{"interval_ms": {"p99": ms}} for _ in range(count)],
        "sessions": [session(repeated, audio_features=ms, motion_diffusion=ms, renderer=ms) for _ in range(count)],
    }


def measured(**changes: Any) -> dict[str, Any]:
    local = {"files": [1.0, 1.0, 1.0], "streams": [0.2], "live": {"1": live(1, 0, 20.0)}}
    renderer = {"cap": 40 * GIB, "total": 100 * GIB, "reserved": 2 * GIB, "peak": 4 * GIB, "driver": 5 * GIB}
    one = {
        "failed": {},
        "seconds": 10.0,
        "ready_s": 60.0,
        "first_job_s": 9.0,
        "files": [2.0, 2.0, 2.0],
        "streams": [0.5],
        "parallel": {
            "4": {"seconds": 4.0, "completed": 4, "failures": []},
            "8": {"seconds": 5.0, "completed": 7, "failures": ["503"]},
        },
        "memory": {"renderer": renderer, "rife": {**renderer, "driver": 0}},
        "kill": {"jobs": 4, "completed": 4, "seconds": 8.0, "back_s": 6.0},
        "live": {"1": live(1, 20, 40.0), "4": {**live(4, 0, 40.0), "reports": []}},
        "local": local,
        **changes,
    }
    cap = {"device": "cuda", "share": 0.1, "refused": True, "works_after": True}
    return {"families": {"ditto": one}, "cap": cap, "failed": {}}


def rows(found: dict[str, Any]) -> dict[str, BenchmarkRecord]:
    return {record.case: record for record in records_of(describe_run("x"), found)}


def test_records_say_what_was_measured() -> None:
    found = rows(measured())
    assert (found["ditto_file_rtf"].value, found["ditto_file_rtf"].ratio) == (0.2, 0.5)
    assert (found["ditto_first_frame_ms"].value, found["ditto_first_frame_ms"].baseline_value) == (500.0, 200.0)
    assert (found["ditto_jobs4_frames_per_s"].value, found["ditto_jobs4_frames_per_s"].ratio) == (250.0, 2.0)
    assert found["ditto_realtime_jobs"].value == 10.0
    reserved = found["ditto_renderer_reserved_gib"]
    assert (reserved.value, reserved.baseline_value, reserved.ratio) == (4.0, 40.0, 10.0)
    assert found["ditto_renderer_driver_gib"].value == 5.0 and "ditto_rife_driver_gib" not in found
    assert found["ditto_killed_renderer_jobs_done"].value == 1.0 and found["ditto_renderer_back_s"].value == 6.0
    assert (found["ditto_killed_renderer_jobs_s"].value, found["ditto_killed_renderer_jobs_s"].ratio) == (8.0, 0.5)
    assert (found["ditto_live1_late_share"].value, found["ditto_live1_stages_ms"].value) == (0.1, 120.0)
    assert found["ditto_live1_stages_ms"].baseline_value == 60.0
    assert found["ray_memory_cap_holds"].value == 1.0


def test_what_failed_gives_no_row() -> None:
    found = rows(measured())
    assert "ditto_jobs8_frames_per_s" not in found, "one of its jobs failed"
    assert not [case for case in found if case.startswith("ditto_live4")], "no client came back"
    silent = live(1, 0, 20.0) | {"sessions": [session(0, audio_features=9.0)]}
    assert "ditto_live1_stages_ms" not in rows(measured(live={"1": silent})), "nobody was drawn yet"
    alone = rows({"families": {"ditto": {"failed": {"service": "no"}, "seconds": 10.0}}})
    assert not alone
    without = rows(measured(local={}))["ditto_file_rtf"]
    assert without.baseline is None and without.ratio is None


def test_jobs_that_a_kill_ends_are_published_as_such() -> None:
    found = rows(measured(kill={"jobs": 4, "completed": 3, "seconds": 8.0, "back_s": None}))
    assert found["ditto_killed_renderer_jobs_done"].value == 0.75
    assert not {"ditto_killed_renderer_jobs_s", "ditto_renderer_back_s"} & set(found)


@pytest.mark.parametrize("change", [{"refused": False}, {"works_after": False}, {"share": 0.0}])
def test_a_cap_that_does_not_hold_is_published_as_such(change: dict[str, Any]) -> None:
    found = measured()
    assert rows({**found, "cap": {**found["cap"], **change}})["ray_memory_cap_holds"].value == 0.0
    assert "ray_memory_cap_holds" not in rows({**found, "cap": {"device": "cpu"}})


def test_the_shipped_document_is_run_as_it_is() -> None:
    document = graph.shipped_document("ditto", Path("/weights"), 8123, 1.0)
    application = document["applications"][0]
    assert application["args"]["models"]["family"] == "ditto"
    assert application["args"]["models"]["weights_dir"] == "/weights"
    shares = {one["name"]: one["ray_actor_options"]["num_gpus"] for one in application["deployments"]}
    assert sum(shares.values()) == pytest.approx(1.0) and shares["Renderer"] == 0.4
    assert document["http_options"]["port"] == 8123
    without = graph.shipped_document("mini", None, 8123, 0.0)["applications"][0]
    assert not any(one["ray_actor_options"]["num_gpus"] for one in without["deployments"])
    assert "weights_dir" not in without["args"]["models"]


def test_what_the_driver_says_is_read() -> None:
    assert graph.parse_driver_memory("12, 500\n 13 , 2\n[N/A], 4\n14, [N/A]\n\n") == {12: 500 * 2**20, 13: 2 * 2**20}


def test_memory_is_brought_beside_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = StageStats("renderer", "r", 0, 0, 0, 0, 0, pid=7, gpu=GpuMemory(100, 40, 3, 9))
    monkeypatch.setattr(
        graph, "stage_stats", lambda stage: [replace(stats, gpu=stats.gpu if stage != "rife" else None)]
    )
    found = graph.stage_memory({7: 11})
    assert found["renderer"] == {"cap": 40, "total": 100, "reserved": 3, "peak": 9, "driver": 11}
    assert "rife" not in found, "it runs on the CPU"


def test_what_replicas_said_is_found_in_their_logs(tmp_path: Path) -> None:
    said = {"event": "runtime chosen", "runtime": "compiled", "timestamp": "2"}
    placed = {"event": "placed", "device": "cuda", "timestamp": "1"}
    (tmp_path / "deep").mkdir()
    lines = [json.dumps(said), "{ not json event", '{"event": "other"}', "plain", json.dumps(said)]
    (tmp_path / "worker-1.err").write_text("\n".join(lines))
    (tmp_path / "deep" / "worker-2.err").write_text(json.dumps(placed))
    assert graph.logged(tmp_path, ("runtime chosen", "placed")) == [placed, said]


def test_a_part_that_fails_is_said_and_kept(capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> None:
        raise LiveAnchorError("no such thing")

    found: dict[str, Any] = {"failed": {}}
    kept: list[int] = []
    plan = graph_gpu.Plan(True, 100.0, ["files"])
    graph_gpu.attempt(found, "files", plan, lambda: kept.append(1), broken)
    graph_gpu.attempt(found, "live", plan, lambda: kept.append(1), broken)
    assert found["failed"] == {"files": "LiveAnchorError: no such thing"} and kept == [1]
    assert "files FAILED" in capsys.readouterr().out
    graph_gpu.attempt(found, "files", graph_gpu.Plan(True, 0.0, ["files"]), lambda: None, lambda: None)
    assert "budget" in found["failed"]["files"]


def test_a_small_run_is_not_published() -> None:
    with pytest.raises(SystemExit):
        graph_gpu.main(["--small"])


def test_only_the_decoder_s_last_layer_is_pale() -> None:
    from engines.networks import build

    state = build("ditto/decoder").state_dict()
    made = pale(state)
    changed = {key for key, value in made.items() if value is not state[key]}
    assert changed == {"conv_img.0.weight", "conv_img.0.bias"} and made.keys() == state.keys()
    assert torch.equal(made["conv_img.0.weight"], state["conv_img.0.weight"] * 0.05)
