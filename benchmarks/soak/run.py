"""`python -m benchmarks.soak --minutes 60`: mixed work with faults, and what grew meanwhile.

On a cluster of its own: videos in the background, files, live sessions, clients that go away, and every two minutes or so a
replica of a stage or a session host that is killed. Next to it one live session whose pictures flash where its voice clicks, for
the whole time, since a face shows no flash: its sound and picture must not part. Memory is the proportional set size of all of
Ray's processes.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.core.record import BenchmarkRecord, format_table, make_record, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from benchmarks.graph.run import speech, wav_16
from benchmarks.live.click_stages import clicking_voice
from benchmarks.live.rig import ClientProcess, private_graph, sessions_left, stamped_server, wait_until_free
from benchmarks.soak.growth import Sample, growth, per_hour, table
from benchmarks.soak.load import TALK_S, Load
from benchmarks.soak.watch import Watch
from engines.weights.home import liveanchor_home
from kernels.errors import LiveAnchorError

SUITE: Final = "production"
DEFAULT_OUT: Final = RESULTS_DIR / "cpu-2core" / f"{SUITE}.json"
FILE_S: Final = 2.0
SAMPLES: Final = 360
"""Samples of a run, but none more often than every two seconds."""
FAULT_EVERY_S: Final = 120.0


@dataclass(frozen=True)
class Soaked:
    """What a run found.

    Attributes:
        samples: The service over time.
        counts: What was done, by name.
        av_offset_ms: What the client of the clicking session measured; None where too few clicks were placed, or it failed.
    """

    samples: list[Sample]
    counts: Counter[str]
    av_offset_ms: dict[str, Any] | None


def soak(minutes: float, seed: int = 0, fault_every_s: float = FAULT_EVERY_S) -> Soaked:
    """Run it.

    Args:
        minutes: How long.
        seed: Draws faults and clients' manners.
        fault_every_s: Mean seconds between two kills.

    Raises:
        LiveAnchorError: The service did not start, or the load broke.
    """
    seconds = minutes * 60
    with TemporaryDirectory(prefix="la-soak-") as name, private_graph() as url:
        folder = Path(name)
        talk, clicks = folder / "talk.wav", folder / "clicks.wav"
        talk.write_bytes(wav_16(speech(TALK_S + 10)))
        clicks.write_bytes(wav_16(clicking_voice(seconds + 30)))
        load = Load(url, wav_16(speech(FILE_S)), talk, folder, seed, fault_every_s)
        with (
            stamped_server(module="benchmarks.live.click_server") as (click_url, _),
            Watch(liveanchor_home(), time.monotonic, max(2.0, seconds / SAMPLES)) as watch,
        ):
            viewer = ClientProcess(click_url, "--seconds", f"{seconds:g}", "--speech", str(clicks))
            try:
                with load.running():
                    threading.Event().wait(seconds)
                offset = _av_offset(viewer, seconds + 300)
                try:
                    wait_until_free(url, 120.0)
                except LiveAnchorError:
                    load.counts["sessions_that_stay"] = sessions_left(url)
            finally:
                viewer.process.kill()
        return Soaked(watch.samples, load.counts, offset)


def _av_offset(viewer: ClientProcess, timeout_s: float) -> dict[str, Any] | None:
    """What the clicking client measured; None, with a word, where it failed: an hour of samples is not lost with it."""
    try:
        found: dict[str, Any] | None = viewer.report(timeout_s)["av_offset_ms"]
    except LiveAnchorError as error:
        print(f"no row for sound against picture: {error}", file=sys.stderr)
        return None
    return found


def records_of(found: Soaked, run: RunInfo) -> list[BenchmarkRecord]:
    """Rows of a run."""

    def row(case: str, unit: str, value: float, n: int) -> BenchmarkRecord:
        return make_record(run, suite=SUITE, case=case, unit=unit, samples=[value], higher_is_better=False, n=n)

    samples, counts = found.samples, found.counts
    rows = [
        row("soak_rss_growth_mib_per_h", "MiB/h", per_hour(samples, lambda one: one.memory_mib), len(samples)),
        row("soak_fd_growth", "descriptors", growth(samples, lambda one: one.descriptors), len(samples)),
        row("soak_thread_growth", "threads", growth(samples, lambda one: one.threads), len(samples)),
        row("soak_disk_growth_mib_per_h", "MiB/h", per_hour(samples, lambda one: one.disk_mib), len(samples)),
        row("soak_videos_lost", "videos", counts["videos_lost"], max(1, counts["videos_accepted"])),
        row("soak_kills", "kills", counts["stages_killed"] + counts["hosts_killed"], 1),
    ]
    if (offset := found.av_offset_ms) is not None:
        rows.append(row("soak_av_drift_ms_10min", "ms", abs(offset["drift_10min"]), int(offset["n"])))
    return rows


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how long")
    parser.add_argument("--seed", type=int, default=0, help="draws faults and clients' manners")
    parser.add_argument("--fault-every-s", type=float, default=FAULT_EVERY_S, help="mean seconds between two kills")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="results file; rows are merged by case")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 done, 1 failure."""
    args = parse(arguments)
    try:
        found = soak(args.minutes, args.seed, args.fault_every_s)
        records = records_of(found, describe_run(f"python -m benchmarks.soak --minutes {args.minutes:g}"))
    except LiveAnchorError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    print(table(found.samples, min(600.0, args.minutes * 15)))
    print(", ".join(f"{name} {count}" for name, count in sorted(found.counts.items())))
    write_records(args.out, records)
    print(format_table(records))
    return 0
