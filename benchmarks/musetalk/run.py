"""Speed and precision of MuseTalk on a GPU: `python -m benchmarks.musetalk`; rows of `results/h200/musetalk.json`.

Networks have the public sizes and weights of the formula. Every row is written as soon as it is there, so a run that is cut off
keeps what it has; a section that fails is named and does not lose the others. `--sections` takes some; what each needs is made for
it.
The numbers and their definitions are in docs/performance.md.
"""

from __future__ import annotations

import argparse
import copy
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor

from benchmarks.core.gpu_timing import between_events_ms, replayed_ms
from benchmarks.core.record import BenchmarkRecord, format_table, make_record, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from benchmarks.musetalk.end_to_end import Spent, check_length, ours, reference
from benchmarks.musetalk.networks import FLOP_PER_S, TAESD_FLOP, UNET_FLOP, VAE_FLOP, Networks
from benchmarks.musetalk.news_clip import QUIET, frame_rms, moving_avatar, news_speech
from benchmarks.musetalk.passes import BATCH, Pass, bgr_frames, faces_to_nv12
from kernels.arrays import U8
from pipeline.avatars.bundle import load_bundle
from pipeline.avatars.store import AvatarStore
from pipeline.musetalk.avatar_tensors import unpack
from pipeline.types import SAMPLE_RATE_HZ, Avatar

SUITE: Final = "musetalk"
OUT: Final = RESULTS_DIR / "h200" / f"{SUITE}.json"
COMMAND: Final = "python -m benchmarks.musetalk"
EAGER: Final = "reference's way: the library's modules, eager fp16, batch 8"
LOOP: Final = "reference's way: eager fp16, batch 8, every frame painted, resized and blended on the host"
REFERENCE_BATCH: Final = 8
PRECISION_INPUTS: Final = 16
NAN_INPUTS: Final = 200
RUNS: Final = 5


@dataclass
class Bench:
    """What sections share.

    Attributes:
        run: Machine, commit and day.
        networks: The networks, both ways.
    """

    run: RunInfo
    networks: Networks

    @cached_property
    def clip(self) -> tuple[Avatar, list[U8], Path]:
        """The avatar as a store has it, mapped; its canvases; its folder."""
        made, canvases = moving_avatar()
        home = Path(tempfile.mkdtemp(prefix="musetalk-bench-"))
        stored = AvatarStore(home).put(made)
        return load_bundle(home / stored.avatar_id), canvases, home / stored.avatar_id

    def record(self, case: str, unit: str, samples: list[float], *, up: bool = False, **more: Any) -> BenchmarkRecord:
        """A row."""
        return make_record(self.run, suite=SUITE, case=case, unit=unit, samples=samples, higher_is_better=up, **more)


Rows = Iterator[BenchmarkRecord]


def measure_unet(bench: Bench) -> Rows:
    """The painter alone, device time by graph replay; batches 1, 8 and 32."""
    made, eager = bench.networks.fast.unet, bench.networks.reference.unet
    latents, tokens = (one.half() for one in bench.networks.inputs(REFERENCE_BATCH, 8))
    timestep = torch.zeros(1, dtype=torch.long, device="cuda")
    beside = between_events_ms(lambda: eager(latents, timestep, tokens, return_dict=False), count=2, samples=8)
    for batch in (BATCH, REFERENCE_BATCH, 1):
        given = tuple(one.half() for one in bench.networks.inputs(batch, batch))
        with torch.backends.cudnn.flags(enabled=True, benchmark=True):
            ms = replayed_ms([lambda g=given: made(*g)], samples=20)  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
        yield bench.record(
            f"unet_b{batch}_ms_per_frame", "ms", [one / batch for one in ms], baseline=EAGER,
            baseline_value=_median(beside) / REFERENCE_BATCH, floor_value=1e3 * UNET_FLOP / FLOP_PER_S,
        )  # fmt: skip


def measure_taesd(bench: Bench) -> Rows:
    """The small decoder alone, likewise."""
    made, eager = bench.networks.fast.decoder, bench.networks.reference.decoder
    painted = torch.randn(REFERENCE_BATCH, 4, 32, 32, device="cuda").half()
    beside = between_events_ms(lambda: eager(painted), count=4, samples=8)
    padded = torch.zeros(BATCH, 32, 32, 8, device="cuda").half()
    padded[..., :4] = torch.randn(BATCH, 32, 32, 4, device="cuda")
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        ms = replayed_ms([lambda: made(padded)], samples=20)
    yield bench.record(
        "taesd_b32_ms_per_frame", "ms", [one / BATCH for one in ms], baseline=EAGER,
        baseline_value=_median(beside) / REFERENCE_BATCH, floor_value=1e3 * TAESD_FLOP / FLOP_PER_S,
    )  # fmt: skip


def measure_precision(bench: Bench) -> Rows:
    """Decoded pictures of fp16 against float32 eager, before rounding; and whether 200 random inputs give numbers."""
    painter, half, fast = bench.networks.painter, bench.networks.reference, bench.networks.fast
    timestep = torch.zeros(1, dtype=torch.long, device="cuda")
    ours_db, theirs_db = [], []
    for seed in range(PRECISION_INPUTS):
        latents, tokens = bench.networks.inputs(1, seed)
        want = painter.decoder(painter.unet(latents, timestep, tokens, return_dict=False)[0]) / 2 + 0.5
        other = half.decoder(half.unet(latents.half(), timestep, tokens.half(), return_dict=False)[0]) / 2 + 0.5
        got = fast.decoder(fast.unet(latents, tokens)).permute(0, 3, 1, 2)
        ours_db.append(_psnr_db(got, want))
        theirs_db.append(_psnr_db(other, want))
        outside = float(((want < 0) | (want > 1)).float().mean())
    print(f"colours: standard deviation {float(want.std()):.3f}, outside 0..1 {outside:.3f}", flush=True)
    yield bench.record(
        "musetalk_fp16_psnr_db", "dB", ours_db, up=True,
        baseline="the library's modules in fp16, eager, same float32 pictures", baseline_value=_median(theirs_db),
    )  # fmt: skip
    lost = 0
    for seed in range(0, NAN_INPUTS, 8):
        latents, tokens = bench.networks.inputs(8, 1000 + seed, scale=1.0 + seed / 100)
        lost += int((~fast.decoder(fast.unet(latents, tokens)).isfinite()).sum())
    yield bench.record("musetalk_not_finite_values", "count", [float(lost)], n=NAN_INPUTS)


def measure_passes(bench: Bench) -> Rows:
    """The picture kernels."""
    avatar, canvases, _ = bench.clip
    tensors = unpack(avatar)
    print(f"face box {tensors.box(0).width}x{tensors.box(0).height}, patch {tensors.masks.shape[1:]}", flush=True)
    found = faces_to_nv12(avatar, canvases)
    yield _pass_row(bench, "face_to_nv12_b32_ms", found, "resize, blend and whole-frame NV12 on the host, one by one")
    yield bench.record("face_to_nv12_differing_bytes", "count", [float(found.differing)], n=BATCH)
    found = bgr_frames()
    yield _pass_row(bench, "bgr_to_nv12_b32_ms", found, "the same sums in plain torch, eager")
    print(f"bgr_to_nv12: {found.differing} bytes of 2 frames differ from the torch reference", flush=True)


def measure_warm_load(bench: Bench) -> Rows:
    """Opening an avatar that the page cache has: mapped, checked, its arrays named."""
    _, _, folder = bench.clip
    times = []
    for _ in range(20):
        began = time.perf_counter()
        unpack(load_bundle(folder))
        times.append(1e3 * (time.perf_counter() - began))
    yield bench.record("avatar_warm_load_ms", "ms", times)


def measure_start(bench: Bench) -> Rows:
    """Kernels compiled and every bucket captured; first of all sections, so that on a fresh machine nothing is compiled before."""
    bench.networks.painter  # noqa: B018 - made before the clock starts
    began = time.perf_counter()
    bench.networks.compiled  # noqa: B018 - as above
    torch.cuda.synchronize()
    yield bench.record("painter_start_s", "s", [time.perf_counter() - began])


def measure_file(bench: Bench) -> Rows:
    """27 s of speech with pauses, TAESD, bypass on; the reference's loop on the first 6 s of it."""
    pcm, (avatar, canvases, _) = news_speech(), bench.clip
    speech, painter = bench.networks.speech, bench.networks.compiled
    runs: list[Spent] = [ours(pcm, avatar, speech, painter, BATCH) for _ in range(RUNS + 1)][1:]
    for one in runs:
        check_length(one)
        print(
            f"e2e {one.seconds:.3f} s, speech {one.speech_s:.3f} s, putting together {one.paste_s:.3f} s, "
            f"bypassed {one.bypassed}",
            flush=True,
        )
    part = pcm[: 6 * SAMPLE_RATE_HZ]
    beside = [reference(part, avatar, canvases, speech, bench.networks.reference) for _ in range(2)][-1]
    yield bench.record(
        "e2e_fps_27s", "frame/s", [one.fps for one in runs], up=True, baseline=LOOP, baseline_value=beside.fps
    )
    yield bench.record(
        "bypass_share_27s", "1", [runs[0].bypassed / runs[0].frames], up=True,
        baseline="the published rule: frames whose own 640 samples have RMS < 0.008",
        baseline_value=float((frame_rms(pcm) < QUIET).mean()), n=runs[0].frames,
    )  # fmt: skip


def measure_quality(bench: Bench) -> Rows:
    """The same file with the autoencoder's decoder; the reference's loop on its first 3 s."""
    pcm, (avatar, canvases, _) = news_speech(), bench.clip
    speech, painter = bench.networks.speech, bench.networks.compiled_quality
    runs = [ours(pcm, avatar, speech, painter, REFERENCE_BATCH) for _ in range(3)][1:]
    part = pcm[: 3 * SAMPLE_RATE_HZ]
    beside = [reference(part, avatar, canvases, speech, bench.networks.reference_quality) for _ in range(2)][-1]
    bound = FLOP_PER_S / (UNET_FLOP + VAE_FLOP)
    yield bench.record(
        "vae_fps_27s", "frame/s", [one.fps for one in runs], up=True, baseline=LOOP, baseline_value=beside.fps,
        floor_value=bound / (1 - runs[0].bypassed / runs[0].frames),
    )  # fmt: skip


def measure_tensorrt(bench: Bench) -> Rows:
    """Painter and decoder as engines, beside ours, where this card's library is here; else its absence is said and no row made."""
    from engines.musetalk.painter_runtime import tensorrt_runtime
    from engines.tensorrt.errors import TensorRtMissingError

    given = bench.networks.inputs(BATCH, BATCH)
    try:
        made = tensorrt_runtime(copy.deepcopy(bench.networks.painter).cpu(), bench.networks.device, (BATCH,))
    except TensorRtMissingError as error:
        print(f"no engine runs here: {error}", flush=True)
        return
    ours_ms = between_events_ms(lambda: bench.networks.compiled.run(*given), count=4, samples=8)
    ms = between_events_ms(lambda: made.run(*given), count=4, samples=8)
    yield bench.record(
        "painter_tensorrt_b32_ms_per_frame", "ms", [one / BATCH for one in ms],
        baseline="compiled, the same inputs", baseline_value=_median(ours_ms) / BATCH,
    )  # fmt: skip


def show_profile(bench: Bench) -> Rows:
    """No row: which kernels the time of the painter and of the decoder goes to, printed."""
    given = tuple(one.half() for one in bench.networks.inputs(BATCH, 1))
    painted = bench.networks.fast.unet(*given)
    _print_profile("unet", lambda: bench.networks.fast.unet(*given))
    _print_profile("decoder", lambda: bench.networks.fast.decoder(painted))
    yield from ()


SECTIONS: Final[dict[str, Callable[[Bench], Rows]]] = {
    "start": measure_start,
    "unet": measure_unet,
    "taesd": measure_taesd,
    "precision": measure_precision,
    "passes": measure_passes,
    "warm_load": measure_warm_load,
    "file": measure_file,
    "quality": measure_quality,
    "tensorrt": measure_tensorrt,
    "profile": show_profile,
}


def measure(bench: Bench, sections: list[str], out: Path) -> list[str]:
    """Run sections, write every row at once; the names of those that failed."""
    failed = []
    for name in sections:
        began = time.perf_counter()
        try:
            with torch.inference_mode():
                for row in SECTIONS[name](bench):
                    write_records(out, [row])
                    print(format_table([row]), flush=True)
        except Exception:  # noqa: BLE001  # a section of a scarce run must not lose the others; the text says what happened
            failed.append(name)
            print(f"FAILED {name}: {traceback.format_exc()[-2500:]}", flush=True)
        torch.cuda.empty_cache()
        print(f"== {name} {time.perf_counter() - began:.1f} s", flush=True)
    return failed


def main(arguments: list[str] | None = None) -> int:
    """Measure and publish; 0 done, 1 where a section failed or there is no GPU."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--commit", help="what is measured, where the tree came without its history")
    parser.add_argument("--sections", default=",".join(SECTIONS))
    options = parser.parse_args(arguments)
    wanted = options.sections.split(",")
    if unknown := [name for name in wanted if name not in SECTIONS]:
        parser.error(f"no section {unknown[0]}; there are {', '.join(SECTIONS)}")
    if not torch.cuda.is_available():
        print("no CUDA device", file=sys.stderr)
        return 1
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    bench = Bench(describe_run(COMMAND, device="cuda:0", commit=options.commit), Networks())
    return 1 if measure(bench, wanted, options.out) else 0


def _pass_row(bench: Bench, case: str, found: Pass, beside: str) -> BenchmarkRecord:
    return bench.record(
        case, "ms", found.ms, baseline=beside, baseline_value=found.beside_ms, floor_value=found.bound_ms
    )


def _print_profile(name: str, work: Callable[[], object]) -> None:
    with torch.backends.cudnn.flags(enabled=True, benchmark=True):
        work()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
            work()
            torch.cuda.synchronize()
    events = seen.key_averages()
    total = sum(one.device_time_total for one in events)
    print(f"-- {name} b{BATCH}: {total / 1e3:.3f} ms of kernels")
    for one in sorted(events, key=lambda one: -float(one.device_time_total))[:22]:
        print(f"   {one.device_time_total / 1e3:8.3f} ms  x{one.count:<4d} {one.key[:110]}", flush=True)


def _psnr_db(got: Tensor, want: Tensor) -> float:
    """Of pictures: what lies outside 0..1 is cut."""
    error = (got.double().clamp(0, 1) - want.double().clamp(0, 1)).square().mean()
    return float(-10.0 * torch.log10(error))


def _median(values: list[float]) -> float:
    return float(np.median(values))
