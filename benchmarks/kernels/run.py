"""Speed of the picture kernels on a GPU: `python -m benchmarks.kernels`; cases of `results/h200/kernels.json`.

All numbers are device time (`benchmarks.core.gpu_timing`), baselines in the same run by the same replay, inputs rotating over sets
larger than the L2 cache. Every timed output was compared with the reference before. The numbers and their
definitions are in docs/performance.md.

`--raw FILE` keeps all measurements as JSON, other dtypes and tilings included; `--from-raw FILE` turns such a file into
records, for a GPU machine without the schema's library. Either way the numbers are the run's own.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import torch

from benchmarks.core.gpu_timing import between_events_ms, copy_bytes_per_s, replayed_ms
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from benchmarks.kernels.five_pass import eager_composite, five_pass_splice, sampling_grid
from benchmarks.kernels.inputs import (
    BATCH,
    ROI_H,
    ROI_W,
    ROI_X,
    ROI_Y,
    bench_plan,
    composite_bytes,
    composite_set,
    face_bytes,
    random_canvases,
    random_face,
    session_target,
    sets_beyond_l2,
)

SUITE = "kernels"
OUT = RESULTS_DIR / "h200" / "kernels.json"
COMMAND = "python -m benchmarks.kernels"
FACES: dict[str, tuple[torch.dtype, bool]] = {
    "float32_planar": (torch.float32, False),
    "float16_planar": (torch.float16, False),
    "uint8_packed": (torch.uint8, True),
}
PUBLISHED_FACE = "float32_planar"
"""What a renderer network hands over, and what the five-pass path was made for; the row of `nv12_splice_b8`."""

Measurements = dict[str, Any]


def measure_splice() -> Measurements:
    """Eight faces into eight canvases, every face type: ours, and the five passes."""
    from kernels.nv12.splice import nv12_splice, nv12_splice_torch

    found: Measurements = {}
    for name, (dtype, packed) in FACES.items():
        count = sets_beyond_l2(face_bytes(dtype))
        faces = [random_face(dtype, packed) for _ in range(count)]
        canvases = [random_canvases(BATCH) for _ in range(count)]
        want = nv12_splice_torch(faces[0], canvases[0].clone(), ROI_X, ROI_Y, white=255.0)
        got = nv12_splice(faces[0], canvases[0].clone(), ROI_X, ROI_Y, white=255.0)
        old = five_pass_splice(faces[0].float(), canvases[0], ROI_X, ROI_Y)
        compat = canvases[0].clone()
        nv12_splice(faces[0], compat, ROI_X, ROI_Y, white=255.0, colour="bt601", chroma="top_left")
        found[name] = {
            "bytes": face_bytes(dtype),
            "max_difference_from_reference": _difference(got, want),
            "max_difference_from_five_pass": _difference(compat, old),
            "ms": replayed_ms(
                [
                    lambda f=f, c=c: nv12_splice(f, c, ROI_X, ROI_Y, white=255.0)  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
                    for f, c in zip(faces, canvases, strict=True)
                ],
                repeats=max(1, 96 // count),
            ),
            "five_pass_ms": replayed_ms(
                [
                    lambda f=f, c=c: five_pass_splice(f, c, ROI_X, ROI_Y)  # type: ignore[misc]  # as above
                    for f, c in zip(faces, canvases, strict=True)
                ]
            ),
        }
    return found


def measure_composite() -> Measurements:
    """Eight crops of one avatar into eight canvases: ours, and grid_sample + blend + five passes."""
    from kernels.nv12.composite import composite_nv12_torch
    from kernels.nv12.composite_device import upload_plan
    from kernels.nv12.composite_triton import composite_into

    plan = bench_plan()
    uploaded = upload_plan(plan, "cuda")
    sets = [composite_set(uploaded) for _ in range(sets_beyond_l2(composite_bytes(BATCH)))]
    largest = (plan.width, plan.height)

    def ours(chosen: Any) -> None:
        composite_into(chosen.crops, chosen.addresses, chosen.affine, largest, plan.colour, plan.chroma)

    grid = sampling_grid(torch.from_numpy(plan.canvas_to_crop), ROI_H, ROI_W).cuda()
    mask = torch.from_numpy(plan.mask)[None, None].cuda()
    background = torch.from_numpy(plan.background).permute(2, 0, 1)[None].contiguous().cuda()

    def eager(chosen: Any) -> torch.Tensor:
        return eager_composite(chosen.crops, grid, mask, background, chosen.canvases, ROI_X, ROI_Y)

    ours(sets[0])
    luma, chroma = composite_nv12_torch(sets[0].crops, plan)
    height = sets[0].canvases.shape[1] // 3 * 2
    columns = slice(ROI_X, ROI_X + ROI_W)
    return {
        "bytes": composite_bytes(BATCH),
        "max_difference_from_reference": max(
            _difference(sets[0].canvases[:, ROI_Y : ROI_Y + ROI_H, columns], luma),
            _difference(sets[0].canvases[:, height + ROI_Y // 2 : height + (ROI_Y + ROI_H) // 2, columns], chroma),
        ),
        "ms": replayed_ms([lambda s=s: ours(s) for s in sets], repeats=max(1, 48 // len(sets))),  # type: ignore[misc]  # as above
        "eager_ms": replayed_ms([lambda s=s: eager(s) for s in sets]),  # type: ignore[misc]  # as above
    }


def measure_graph() -> Measurements:
    """Time one picture through the shared graph, launch after launch, against the same picture by eager launches."""
    from kernels.nv12.composite_graph import CompositeGraph

    target = session_target()
    plan = target.plan.plan
    graph = CompositeGraph(1, ROI_W, ROI_H)
    crops = torch.randint(0, 256, (1, 512, 512, 3), dtype=torch.uint8, device="cuda")
    grid = sampling_grid(torch.from_numpy(plan.canvas_to_crop), ROI_H, ROI_W).cuda()
    mask = torch.from_numpy(plan.mask)[None, None].cuda()
    background = torch.from_numpy(plan.background).permute(2, 0, 1)[None].contiguous().cuda()
    targets = [target]
    return {
        "bytes": composite_bytes(1),
        "run_ms": between_events_ms(lambda: graph.run(graph.crops, targets), count=200),
        "run_with_copy_ms": between_events_ms(lambda: graph.run(crops, targets), count=200),
        "replay_ms": between_events_ms(graph.replay, count=200),
        "eager_ms": between_events_ms(
            lambda: eager_composite(crops, grid, mask, background, target.canvas, ROI_X, ROI_Y), count=50
        ),
    }


def measure_volumes() -> Measurements:
    """The two samplings of dense motion, eight frames, float16 volumes: ours, and torch's on the repeated volume."""
    from kernels.sampling.grid_sample_3d import grid_sample_3d, grid_sample_3d_torch

    found: Measurements = {}
    axes = [torch.linspace(-1, 1, n, device="cuda") for n in (16, 64, 64)]
    z, y, x = torch.meshgrid(*axes, indexing="ij")
    identity = torch.stack([x, y, z], dim=-1)
    for name, channels, grids in (("sparse_motions", 4, 22), ("feature", 32, 1)):
        volume = torch.randn(BATCH, channels, 16, 64, 64, device="cuda").half()
        grid = identity + 0.1 * torch.randn(BATCH * grids, 1, 1, 1, 3, device="cuda")
        half_grid = grid.half()
        want = grid_sample_3d_torch(volume, grid).float()
        found[name] = {
            "relative_error": float((grid_sample_3d(volume, grid).float() - want).norm() / want.norm()),
            "ms": replayed_ms([lambda v=volume, g=grid: grid_sample_3d(v, g)], repeats=20),  # type: ignore[misc]  # as above
            "torch_half_grid_ms": replayed_ms(
                [
                    lambda v=volume, g=half_grid, k=grids: torch.nn.functional.grid_sample(  # type: ignore[misc]  # as above
                        v.repeat_interleave(k, dim=0), g, align_corners=False
                    )
                ],
                repeats=20,
            ),
            "torch_float32_ms": replayed_ms(
                [lambda v=volume, g=grid: grid_sample_3d_torch(v, g)],  # type: ignore[misc]  # as above
                repeats=10,
            ),
        }
    return found


SECTIONS: dict[str, Callable[[], Measurements]] = {
    "splice": measure_splice,
    "composite": measure_composite,
    "graph": measure_graph,
    "volumes": measure_volumes,
}


def measure(run: RunInfo, raw: Path | None) -> Measurements:
    """Everything, kept in `raw` after each section. A section that fails is named and does not lose the others."""
    found: Measurements = {"run": {**asdict(run), "date": run.date.isoformat()}, "failed": {}}
    found["copies_bytes_per_s"] = copy_bytes_per_s()
    found["copy_bytes_per_s"] = max(found["copies_bytes_per_s"].values())
    torch.cuda.empty_cache()
    for name, section in SECTIONS.items():
        try:
            found[name] = section()
        except (RuntimeError, TypeError, ValueError, AttributeError, AssertionError) as error:
            found["failed"][name] = repr(error)[:2000]
        torch.cuda.empty_cache()
        if raw is not None:
            raw.parent.mkdir(parents=True, exist_ok=True)
            raw.write_text(json.dumps(found), encoding="utf-8")
    return found


def records(found: Measurements) -> list[Any]:
    """The five published cases of one run."""
    from benchmarks.core.record import make_record

    run = RunInfo(**{**found["run"], "date": date.fromisoformat(found["run"]["date"])})
    face, composite, graph = found["splice"][PUBLISHED_FACE], found["composite"], found["graph"]
    bandwidth = found["copy_bytes_per_s"]
    eager = "eager grid_sample + blend + five-pass, same replay"

    def floor_ms(size: float) -> float:
        return float(size / bandwidth * 1e3)

    def case(name: str, unit: str, samples: list[float], **more: Any) -> Any:
        return make_record(run, suite=SUITE, case=name, unit=unit, samples=samples, **more)

    floor = floor_ms(face["bytes"])
    return [
        case(
            "nv12_splice_b8",
            "ms",
            face["ms"],
            higher_is_better=False,
            baseline="five-pass torch, same replay",
            baseline_value=_median(face["five_pass_ms"]),
            floor_value=floor,
        ),
        case(
            "nv12_splice_b8_copy_floor_share",
            "1",
            [floor / ms for ms in face["ms"]],
            higher_is_better=True,
            floor_value=1.0,
        ),
        case(
            "composite_nv12_b8",
            "ms",
            composite["ms"],
            higher_is_better=False,
            baseline=eager,
            baseline_value=_median(composite["eager_ms"]),
            floor_value=floor_ms(composite["bytes"]),
        ),
        case(
            "composite_nv12_b8_ms_per_frame",
            "ms",
            [ms / BATCH for ms in composite["ms"]],
            higher_is_better=False,
            baseline=eager,
            baseline_value=_median(composite["eager_ms"]) / BATCH,
            floor_value=floor_ms(composite["bytes"]) / BATCH,
        ),
        case(
            "composite_graph_launch_ms",
            "ms",
            graph["replay_ms"],
            higher_is_better=False,
            baseline="the same picture by eager launches, one after the other",
            baseline_value=_median(graph["eager_ms"]),
            floor_value=floor_ms(graph["bytes"]),
        ),
    ]


def summary(found: Measurements) -> str:
    """A line per number, for a terminal."""
    copies = "  ".join(f"{name} {rate / 1e12:.2f}" for name, rate in found["copies_bytes_per_s"].items())
    lines = [f"copy, TB/s: {copies}", *(f"FAILED {k}: {v}" for k, v in found["failed"].items())]
    for section in SECTIONS:
        for key, value in found.get(section, {}).items():
            if isinstance(value, dict):
                lines.append(f"{section}.{key}: " + "  ".join(f"{k} {_short(v)}" for k, v in value.items()))
            else:
                lines.append(f"{section}.{key}: {_short(value)}")
    for name, face in found.get("splice", {}).items():
        share = face["bytes"] / found["copy_bytes_per_s"] * 1e3 / _median(face["ms"])
        lines.append(
            f"splice.{name}: share {share:.3f}  ratio {_median(face['five_pass_ms']) / _median(face['ms']):.1f}"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Measure and publish; 0 done, 1 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", type=Path, help="also keep every measurement here, as JSON")
    parser.add_argument("--raw-only", action="store_true", help="write no records")
    parser.add_argument("--from-raw", type=Path, help="measure nothing, make the records of this file")
    parser.add_argument("--commit", help="what is measured, where the tree came without its history")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args(arguments)
    if options.from_raw is not None:
        found = json.loads(options.from_raw.read_text(encoding="utf-8"))
    elif not torch.cuda.is_available():
        print("no CUDA device", file=sys.stderr)
        return 1
    else:
        torch.manual_seed(0)
        found = measure(describe_run(COMMAND, device="cuda:0", commit=options.commit), options.raw)
    print(summary(found))
    if not options.raw_only:
        from benchmarks.core.record import format_table, write_records

        made = records(found)
        write_records(options.out, made)
        print(format_table(made))
    return 0


def _difference(a: torch.Tensor, b: torch.Tensor) -> int:
    return int((a.int() - b.int()).abs().max())


def _median(values: list[float]) -> float:
    return float(sorted(values)[len(values) // 2])


def _short(value: Any) -> str:
    return f"{_median(value):.5f}" if isinstance(value, list) else f"{value:.6g}"
