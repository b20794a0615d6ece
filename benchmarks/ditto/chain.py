"""Ditto from PCM to NV12 on the host: first frame, real-time factor of small chunks, frames per second of a file.

`python -m benchmarks.ditto.chain` makes the `ttff_*`, `chunk5_*` and `offline_fps` rows of `results/h200/ditto.json`. Wall time of
one process, warm; nothing else runs. `--raw FILE` keeps where the time of a chunk goes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from benchmarks.core.record import BenchmarkRecord, format_table, make_record, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from benchmarks.ditto.chain_parts import Chain, make_chain, random_avatar
from kernels.arrays import F32
from pipeline.ditto.audio_features import DittoAudioFeatures
from pipeline.types import MotionChunk

SUITE: Final = "ditto"
DEFAULT_OUT: Final = RESULTS_DIR / "h200" / f"{SUITE}.json"
BASELINE: Final = (
    "same chain, own modules as the reference runs them: eager fp16, batch 1, two guidance passes, nothing hoisted"
)
OFFLINE_FRAMES: Final = 165
SAMPLES: Final = {True: 30, False: 4}
"""Fast or reference -> measurements."""


def noise(count: int, seed: int) -> F32:
    """Speech stands in as noise: the time does not depend on it."""
    return (0.1 * np.random.default_rng(seed).standard_normal(count)).astype(np.float32)


def ttff_ms(chain: Chain, hop: int, samples: int) -> list[float]:
    """Milliseconds from the last sample in hand to the chunk's rectangles on the host, a fresh session each."""
    window = noise(DittoAudioFeatures(chain.encode_all, hop).window_samples, hop)
    start = chain.start(hop)
    times = []
    for sample in range(samples + 2):
        began = time.perf_counter()
        chain.speak(hop, window, start)
        if sample >= 2:
            times.append(1e3 * (time.perf_counter() - began))
    return times


def chunk_factors(chain: Chain, hop: int, samples: int) -> list[float]:
    """Seconds of video over seconds of work, chunk after chunk of one session."""
    window = noise(DittoAudioFeatures(chain.encode_all, hop).window_samples, hop)
    carry = chain.start(hop)
    factors = []
    for _ in range(samples):
        began = time.perf_counter()
        _, carry = chain.speak(hop, window, carry)
        factors.append(hop / 25.0 / (time.perf_counter() - began))
    return factors


def offline_rates(chain: Chain, samples: int) -> list[float]:
    """Frames per second of whole clips, warm."""
    pcm = noise(OFFLINE_FRAMES * 640, 3)
    chain.file(pcm)
    rates = []
    for _ in range(samples):
        began = time.perf_counter()
        frames = chain.file(pcm)
        rates.append(frames / (time.perf_counter() - began))
    return rates


def stage_ms(chain: Chain, hop: int) -> dict[str, float]:
    """Median milliseconds of each stage of one chunk."""
    audio = DittoAudioFeatures(chain.encode_all, hop)
    window, start = noise(audio.window_samples, hop), chain.start(hop)
    rows = audio.window(window, 0)
    motion, _ = chain.live[hop].step(rows, start)
    face = chain.renderer.prepare(chain.avatar.avatar_id, "bt709")
    work: dict[str, Callable[[], object]] = {
        "audio_features": lambda: audio.window(window, 0),
        "motion_diffusion": lambda: chain.live[hop].step(rows, start),
        "renderer": lambda: chain.draw(motion),
        "renderer, keypoints alone": lambda: chain.renderer.keypoints(face, motion.motion, 0),
        "renderer, first frame alone": lambda: chain.draw(MotionChunk(motion.motion[:1], 0)),
    }
    times = {}
    for name, once in work.items():
        once()
        taken = []
        for _ in range(15):
            began = time.perf_counter()
            once()
            taken.append(1e3 * (time.perf_counter() - began))
        times[name] = float(np.median(taken))
    return times


def audio_wait_record(run: RunInfo, hop: int) -> BenchmarkRecord:
    """Audio that the first chunk needs: its own frames and what the encoder looks ahead. Arithmetic, not a measurement."""
    samples = hop * 640 + 2 * 640 + 80
    return make_record(
        run,
        suite=SUITE,
        case=f"ttff_chunk{hop}_audio_wait_ms",
        unit="ms",
        samples=[samples / 16.0],
        higher_is_better=False,
    )


def main() -> None:
    """Run; every case on its own, so that one failure does not cost the others."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    parser.add_argument("--raw", type=Path)
    parser.add_argument("--commit")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="dry run of the script; its numbers mean nothing")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    run = describe_run("python -m benchmarks.ditto.chain", device=arguments.device, commit=arguments.commit)
    avatar = random_avatar()
    raw: dict[str, Any] = {}
    found: dict[tuple[str, bool], list[float]] = {}
    for fast in (True, False):
        began = time.perf_counter()
        chain = make_chain(arguments.device, avatar, fast=fast, tiny=arguments.tiny)
        raw[f"{'fast' if fast else 'reference'} chain ready after s"] = time.perf_counter() - began
        count = 1 if arguments.tiny else SAMPLES[fast]
        work: dict[str, Callable[[], list[float]]] = {
            "ttff_chunk5_ms": lambda c=chain, n=count: ttff_ms(c, 5, n),  # type: ignore[misc]  # mypy cannot infer a lambda with defaults
            "ttff_chunk10_ms": lambda c=chain, n=count: ttff_ms(c, 10, n),  # type: ignore[misc]
            "chunk5_realtime_factor": lambda c=chain, n=count: chunk_factors(c, 5, n),  # type: ignore[misc]
            "offline_fps": lambda c=chain, n=count: offline_rates(c, max(1, n // 5)),  # type: ignore[misc]
        }
        for name, measure in work.items():
            try:
                found[name, fast] = measure()
            except (RuntimeError, ValueError) as error:
                sys.stdout.write(f"{name}: {type(error).__name__}: {error}\n")
                continue
            sys.stdout.write(f"{name} {'fast' if fast else 'reference'}: {np.median(found[name, fast]):.3f}\n")
            sys.stdout.flush()
        for hop in (5, 10):
            raw[f"stages chunk {hop} {'fast' if fast else 'reference'}"] = stage_ms(chain, hop)
        sys.stdout.write(json.dumps(raw, indent=1) + "\n")
        if arguments.raw is not None:
            arguments.raw.write_text(json.dumps(raw, indent=1), encoding="utf-8")
    records = [audio_wait_record(run, hop) for hop in (5, 10)]
    for (name, fast), samples in found.items():
        if not fast:
            continue
        theirs = found.get((name, False))
        records.append(
            make_record(
                run,
                suite=SUITE,
                case=name,
                unit="ms" if name.endswith("_ms") else "1" if name.endswith("factor") else "frame/s",
                samples=samples,
                higher_is_better=not name.endswith("_ms"),
                baseline=None if theirs is None else BASELINE,
                baseline_value=None if theirs is None else float(np.median(theirs)),
            )
        )
    write_records(arguments.out, records)
    sys.stdout.write(format_table(records) + "\n")


if __name__ == "__main__":
    main()
