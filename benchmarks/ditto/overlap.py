"""Chunks of many sessions through one renderer: shared buckets against one chunk after the other, as the stage drew them before.

`python -m benchmarks.ditto.overlap` makes the `sessions16_*` rows of `results/h200/ditto.json`: wall time of one process, warm,
pictures on the host included. As many chunks are in work as the `Renderer` replica keeps.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import torch

from benchmarks.core.gpu_timing import between_events_ms
from benchmarks.core.record import BenchmarkRecord, format_table, make_record, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from benchmarks.ditto.chain_parts import CHUNK, VERSION, random_avatar
from engines.ditto.config import DittoConfig
from engines.ditto.render_runtime import SourceRuntime, compiled_runtime, example
from engines.motion_layout import MOTION_DIM
from engines.networks import build
from engines.networks.ditto.decoder import SpadeDecoder
from engines.networks.ditto.warp_network import WarpNetwork
from kernels.arrays import F32
from kernels.nv12.composite import composite_nv12
from pipeline.ditto.avatar_tensors import unpack
from pipeline.ditto.motion_fields import MotionFields, from_vector
from pipeline.ditto.motion_stitch import IMAGE_KEYS, MotionStitch, StitchOptions
from pipeline.ditto.renderer import DittoEngines, DittoRenderer
from pipeline.session.overlap import DrawOrder
from pipeline.stages import RenderRequest
from pipeline.types import Avatar, MotionChunk

SUITE: Final = "ditto"
DEFAULT_OUT: Final = RESULTS_DIR / "h200" / f"{SUITE}.json"
COMMAND: Final = "python -m benchmarks.ditto.overlap"
BASELINE: Final = "same networks, one chunk after the other: keypoints on the host, pageable copies"
SESSIONS: Final = 16
AVATARS: Final = 4
FRAMES: Final = 5
"""Frames of a chunk: the hop of a live session."""


@dataclass(frozen=True)
class Rate:
    """What a way of drawing reached in one run.

    Attributes:
        fps: Frames per second.
        cpu_ms: Processor time of this process per frame, milliseconds.
    """

    fps: float
    cpu_ms: float


def build_renderer(device: str, dtype: torch.dtype) -> tuple[DittoRenderer, DittoEngines, list[Avatar]]:
    """The product's renderer over random weights, what it runs, and presenters for it."""
    first = random_avatar()
    avatars = [replace(first, avatar_id=f"{index:032x}") for index in range(AVATARS)]
    networks = (
        cast(WarpNetwork, build("ditto/warp_network", seed=1)),
        cast(SpadeDecoder, build("ditto/decoder", seed=2)),
    )
    engines = DittoEngines(
        synthesis=compiled_runtime(*networks, device, dtype=dtype),
        stitch=build("ditto/stitch_network").requires_grad_(False),
        config=DittoConfig(),
        version=VERSION,
        batch=CHUNK,
    )
    return DittoRenderer({one.avatar_id: one for one in avatars}.__getitem__, engines), engines, avatars


def requests(avatars: list[Avatar], chunks: int) -> list[RenderRequest]:
    """Chunks of sessions that take turns."""
    draw = np.random.default_rng(5)
    made = []
    for index in range(chunks):
        motion = (0.02 * draw.standard_normal((FRAMES, MOTION_DIM))).astype(np.float32)
        avatar = avatars[index % SESSIONS % len(avatars)]
        made.append(RenderRequest(avatar.avatar_id, MotionChunk(motion, index // SESSIONS * FRAMES), None, 25, "bt709"))
    return made


def shared(renderer: DittoRenderer, asked: list[RenderRequest]) -> None:
    """Draw all, the way of the `Renderer` replica."""
    loop = renderer.overlapped()
    room = loop.frames_in_work
    flying: deque[tuple[int, Future[Any]]] = deque()
    for request in asked:
        while flying and sum(frames for frames, _ in flying) >= room:
            flying.popleft()[1].result()
        flying.append((len(request.motion.motion), loop.submit(DrawOrder(request))))
    for _, future in flying:
        future.result()
    loop.close()


class OneByOne:
    """Draws a chunk as the stage did before: some thirty small calls for keypoints, the networks, two copies that spin.

    Args:
        renderer: Prepares faces.
        synthesis: Draws.
        stitch: The stitching network, on the CPU.
    """

    def __init__(self, renderer: DittoRenderer, synthesis: SourceRuntime, stitch: torch.nn.Module) -> None:
        self._renderer, self._synthesis, self._network = renderer, synthesis, stitch
        self._nothing = self._fields(np.zeros((1, MOTION_DIM), np.float32))
        self._sources: dict[str, list[dict[str, F32]]] = {}

    def draw(self, request: RenderRequest) -> None:
        """Pictures of one chunk, on the host."""
        face, motion = self._renderer.prepare(request.avatar_id, request.colour), request.motion
        source = self._sources.setdefault(request.avatar_id, unpack(face.avatar).source_motion())
        options = StitchOptions(is_image=True, keys=IMAGE_KEYS)
        steps = MotionStitch(source, options, self._stitch, d0=self._nothing, first_frame=motion.first_frame)
        points = [torch.from_numpy(one) for one in steps.steps(self._fields(motion.motion))]
        assert face.resident is not None and face.canvas.plan is not None  # noqa: S101 - a picture
        crops = self._synthesis.draw(face.resident, *points)
        for planes in composite_nv12(crops, face.canvas.plan):
            planes.cpu().numpy()

    def _stitch(self, source: F32, driving: F32) -> F32:
        with torch.inference_mode():
            return cast(F32, self._network(torch.from_numpy(source), torch.from_numpy(driving)).numpy())

    @staticmethod
    def _fields(rows: F32) -> MotionFields:
        fields = from_vector(rows)
        fields["scale"] -= np.float32(1.0)
        return fields


def rates(work: Callable[[], None], frames: int, runs: int) -> list[Rate]:
    """Wall and processor time of repeated runs, after one that is not counted."""
    found = []
    for run in range(runs + 1):
        used, began = _cpu_s(), time.perf_counter()
        work()
        seconds = time.perf_counter() - began
        if run:
            found.append(Rate(frames / seconds, 1e3 * (_cpu_s() - used) / frames))
    return found


def bucket_ms(synthesis: SourceRuntime) -> float:
    """Device time of a bucket of eight per frame, milliseconds."""
    volume, source, driving = (one.cuda() for one in example(CHUNK))
    resident = synthesis.source(volume)
    return float(np.median(between_events_ms(lambda: synthesis.draw(resident, source, driving), count=4, per=CHUNK)))


def records_of(run: RunInfo, ours: list[Rate], theirs: list[Rate], bound_ms: float | None) -> list[BenchmarkRecord]:
    """Rows: frames per second (bound: the device's time of a bucket alone) and processor time per frame."""
    rows = {
        f"sessions{SESSIONS}_frames_per_s": ("frame/s", [one.fps for one in ours], [one.fps for one in theirs], True),
        f"sessions{SESSIONS}_cpu_ms_per_frame": ("ms", [one.cpu_ms for one in ours], [o.cpu_ms for o in theirs], False),
    }
    return [
        make_record(
            run,
            suite=SUITE,
            case=case,
            unit=unit,
            samples=samples,
            higher_is_better=higher,
            baseline=BASELINE,
            baseline_value=float(np.median(base)),
            floor_value=1e3 / bound_ms if higher and bound_ms else None,
        )
        for case, (unit, samples, base, higher) in rows.items()
    ]


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main(arguments: list[str] | None = None) -> int:
    """Measure, write, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--commit")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--chunks", type=int, default=20 * SESSIONS)
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args(arguments)
    if chosen.device == "cpu" and chosen.out.resolve() == DEFAULT_OUT.resolve():
        parser.error("a run on a CPU is not for publishing: name another --out")
    torch.set_num_threads(1)
    run = describe_run(COMMAND, device=chosen.device, commit=chosen.commit)
    renderer, engines, avatars = build_renderer(
        chosen.device, torch.float32 if chosen.device == "cpu" else torch.float16
    )
    synthesis = engines.synthesis
    assert isinstance(synthesis, SourceRuntime)  # noqa: S101 - what was built
    asked, frames = requests(avatars, chosen.chunks), chosen.chunks * FRAMES
    before = OneByOne(renderer, synthesis, engines.stitch)

    def one_by_one() -> None:
        for request in asked:
            before.draw(request)

    theirs = rates(one_by_one, frames, chosen.runs)
    ours = rates(lambda: shared(renderer, asked), frames, chosen.runs)
    records = records_of(run, ours, theirs, bucket_ms(synthesis) if chosen.device != "cpu" else None)
    write_records(chosen.out, records)
    print(format_table(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
