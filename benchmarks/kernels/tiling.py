"""Which tiling is fastest: `python -m benchmarks.kernels.tiling FILE.json`. Writes every variant's time; publishes nothing.

A variant that does not compile or run is reported as such and the others go on.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from benchmarks.core.gpu_timing import replayed_ms
from benchmarks.kernels.inputs import (
    BATCH,
    ROI_X,
    ROI_Y,
    bench_plan,
    composite_bytes,
    composite_set,
    face_bytes,
    random_canvases,
    random_face,
    sets_beyond_l2,
)
from kernels.nv12.colour import BT709
from kernels.nv12.composite_device import upload_plan
from kernels.nv12.composite_triton import composite_into
from kernels.nv12.splice_triton import Tiling, splice
from kernels.sampling.grid_sample_3d_triton import sample

PIXEL_TILINGS = [(128, 4, 4), (128, 8, 4), (128, 2, 4), (256, 4, 8), (512, 1, 4), (128, 2, 2)]
WORD_TILINGS = [(64, 4, 4), (64, 2, 4), (32, 4, 4), (64, 1, 2), (64, 2, 2), (32, 8, 4)]
TAIL_TILINGS = [(64, 1, 1), (128, 1, 2), (128, 1, 1), (64, 2, 2), (64, 1, 2), (128, 2, 4), (32, 2, 1), (256, 1, 4)]
VOLUME_TILINGS = [(256, 4), (128, 4), (512, 4), (128, 2)]


def main() -> None:
    """Measure all variants."""
    path = Path(sys.argv[1])
    times: dict[str, float | str] = {}
    for name, dtype, packed, tilings in (
        ("float32_planar", torch.float32, False, PIXEL_TILINGS),
        ("float16_planar", torch.float16, False, PIXEL_TILINGS),
        ("uint8_packed", torch.uint8, True, WORD_TILINGS),
    ):
        count = sets_beyond_l2(face_bytes(dtype))
        faces = [random_face(dtype, packed) for _ in range(count)]
        canvases = [random_canvases(BATCH) for _ in range(count)]
        for shape in tilings:
            tiling = Tiling(*shape)
            launches: list[Callable[[], object]] = [
                lambda f=f, c=c, t=tiling: splice(f, c, ROI_X, ROI_Y, 1.0, BT709, "mean", tiling=t)  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
                for f, c in zip(faces, canvases, strict=True)
            ]
            _keep(times, path, f"{name} {shape}", launches, max(1, 60 // count))
    plan = bench_plan()
    uploaded = upload_plan(plan, "cuda")
    sets = [composite_set(uploaded) for _ in range(sets_beyond_l2(composite_bytes(BATCH)))]
    largest = (plan.width, plan.height)
    for shape in TAIL_TILINGS:
        tiling = Tiling(*shape)
        launches = [
            lambda s=s, t=tiling: composite_into(  # type: ignore[misc]  # as above
                s.crops, s.addresses, s.affine, largest, plan.colour, plan.chroma, tiling=t
            )
            for s in sets
        ]
        _keep(times, path, f"composite {shape}", launches, 2)
    volume = torch.randn(BATCH, 4, 16, 64, 64, device="cuda").half()
    grid = torch.rand(BATCH * 22, 16, 64, 64, 3, device="cuda") * 0.05 + _identity()
    for block, warps in VOLUME_TILINGS:
        launches = [lambda b=block, w=warps: sample(volume, grid, block=b, warps=w)]  # type: ignore[misc]  # as above
        _keep(times, path, f"sparse_motions {(block, warps)}", launches, 10)


def _identity() -> torch.Tensor:
    z, y, x = torch.meshgrid(*(torch.linspace(-1, 1, n, device="cuda") for n in (16, 64, 64)), indexing="ij")
    return torch.stack([x, y, z], dim=-1)


def _keep(
    times: dict[str, float | str], path: Path, name: str, launches: Sequence[Callable[[], object]], repeats: int
) -> None:
    try:
        samples = replayed_ms(launches, repeats=repeats, samples=12)
        times[name] = sorted(samples)[len(samples) // 2]
        print(f"{name}: {times[name]:.5f} ms")
    except (RuntimeError, ValueError, TypeError) as error:
        times[name] = repr(error)[:300]
        print(f"{name}: {times[name]}")
    path.write_text(json.dumps(times, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
