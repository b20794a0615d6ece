"""What voice agents wait for, through the Ray graph: `python -m benchmarks.agents` makes `results/cpu-2core/agents.json`.

Starts a cluster and measuring clients of its own on this machine; server and clients share its cores. Text is spoken by the
embedded voice (extra `speech`); the part `whip` needs Debian's package `janus`, the part `relay` `coturn`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.agents.fan_out import whip
from benchmarks.agents.relay import relay
from benchmarks.agents.settings import fields
from benchmarks.core.record import BenchmarkRecord, format_table, make_record, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from benchmarks.live.rig import ClientProcess, private_graph, register_presenters, wait_until_free
from engines.weights.home import face_weights_dir
from kernels.errors import LiveAnchorError
from pipeline.live.deadlines import LEAST_PREROLL_FRAMES
from pipeline.types import MOTION_FPS
from serve_app.cluster.own import free_port

SUITE: Final = "agents"
DEFAULT_OUT: Final = RESULTS_DIR / "cpu-2core" / f"{SUITE}.json"
TEXTS: Final = 20
PACKET_MS: Final = 20.0
FRAME_MS: Final = 1000.0 / MOTION_FPS
AS_A_FILE: Final = "all of the text spoken first by the same voice, then sent as a file, same run"


@dataclass(frozen=True)
class Rig:
    """Holds the running graph.

    Attributes:
        run: Facts that all records of this run share.
        url: Address of the graph.
        avatar_id: Presenter of 512 x 512 pixels.
        count: Texts to speak.
        front_port: Port of this machine to which the graph may publish sessions.
        turn_port: Port of this machine at which its clients look for a TURN server.
    """

    run: RunInfo
    url: str
    avatar_id: str
    count: int
    front_port: int
    turn_port: int

    def record(
        self, case: str, unit: str, samples: list[float], higher_is_better: bool = False, **more: Any
    ) -> BenchmarkRecord:
        """Make the record of one case."""
        return make_record(
            self.run, suite=SUITE, case=case, unit=unit, samples=samples, higher_is_better=higher_is_better, **more
        )


def text(rig: Rig) -> Iterator[BenchmarkRecord]:
    """`text_to_first_sound_ms`, `text_to_first_lip_ms`.

    The bound of the sound is what the voice alone takes for its first piece, the frame by which the mouth begins before the sound,
    and the packet that holds it; that of the lips is the voice and one picture.
    """
    options = ("--count", str(rig.count), "--avatar-id", rig.avatar_id, "--weights", str(face_weights_dir()))
    found = ClientProcess(rig.url, *options, module="benchmarks.agents.text_client").report()
    wait_until_free(rig.url)
    voice_ms = sorted(found["voice_ms"])[len(found["voice_ms"]) // 2]
    floors = {"sound": voice_ms + LEAST_PREROLL_FRAMES * FRAME_MS + PACKET_MS, "lip": voice_ms + FRAME_MS}
    for kind, floor in floors.items():
        values, before = _seen(found[f"{kind}_ms"]), _seen(found[f"file_{kind}_ms"])
        yield rig.record(
            f"text_to_first_{kind}_ms", "ms", values, floor_value=floor,
            baseline=AS_A_FILE, baseline_value=sorted(before)[len(before) // 2],
        )  # fmt: skip


def _seen(values: list[float | None]) -> list[float]:
    """Without those where no mouth was seen to open; they may be few."""
    found = [one for one in values if one is not None]
    if len(found) < 0.9 * len(values):
        raise LiveAnchorError(f"only {len(found)} of {len(values)} texts were seen")
    return found


CASES: Final[dict[str, Callable[[Rig], Iterator[BenchmarkRecord]]]] = {"text": text, "whip": whip, "relay": relay}


def main(arguments: list[str] | None = None) -> int:
    """Run and write the records; 0 done, 1 something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="results file; rows are merged by case")
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES), help="parts to run")
    parser.add_argument("--count", type=int, default=TEXTS, help="texts to speak")
    options = parser.parse_args(arguments)
    run, failed = describe_run("python -m benchmarks.agents"), 0
    front_port, turn_port = free_port(), free_port()
    with private_graph(fields(front_port, turn_port)) as url:
        rig = Rig(run, url, register_presenters(url)["512x512"], options.count, front_port, turn_port)
        for name in options.only:
            try:
                for record in CASES[name](rig):
                    write_records(options.out, [record])
                    print(format_table([record]), flush=True)
            except (LiveAnchorError, httpx.HTTPError, LookupError, TypeError) as error:
                failed = 1
                print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    return failed
