"""The service on paper: `python -m benchmarks.simulate_cluster` checks a model of it against measurements and draws what it says.

A discrete-event simulation of sessions, stages, GPUs and the rules between them (`benchmarks/cluster_model`), fed with measured
stage times. It prints the rows that were measured on one and two GPUs and its own, the table of `docs/scaling.md`, and what
placement, batching, scaling and admission change; `--plot` writes the picture of that page. Seeded; nothing is timed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.cluster_model.costs import H200, H200_BEFORE, Costs, needs
from benchmarks.cluster_model.growth import Growth, grow
from benchmarks.cluster_model.plot import line_chart
from benchmarks.cluster_model.service import Cluster, File, Service, Session

WARM_S: Final = 20.0
COUNTED_S: Final = 40.0
LATE_BAR: Final = 0.01
LATE_WITHIN: Final = 0.03
FILES_WITHIN: Final = 0.1
DEFAULT_PLOT: Final = Path(__file__).resolve().parents[1] / "docs" / "images" / "scaling.svg"


@dataclass(frozen=True)
class Outcome:
    """What sessions of a simulated service saw.

    Attributes:
        admitted: Sessions that were let in.
        refused: Sessions that were not.
        late: Share of the pictures of those admitted that were late, dropped ones included.
        worst: The same of the session with most.
        came_late: Median over sessions of the share that was drawn and came late: what a session's own counter `late` says, which
            leaves dropped pictures out.
        compute_ms: Mean time that computing was given at the end.
        busy: Mean share of the time for which a GPU had work.
        motion_batch: Windows in a batch of motion.
    """

    admitted: int
    refused: int
    late: float
    worst: float
    came_late: float
    compute_ms: float
    busy: float
    motion_batch: float


def speak(cluster: Cluster, offers: int, seed: int = 0, seconds: float = COUNTED_S, over_s: float = 0.2) -> Outcome:
    """Sessions that all speak, offered within a moment.

    Args:
        cluster: The cluster that is simulated.
        offers: Number of offers.
        seed: Seed of phases.
        seconds: Seconds that are counted, after the warm-up.
        over_s: Time over which the offers and their phases are spread.
    """
    service = Service(cluster, seed)
    sessions = []
    for number in range(offers):
        home = service.admit()
        if home is not None:
            begins = service.draw.uniform(0.0, over_s)
            sessions.append(Session(service, number, home, begins, WARM_S))
            sessions[-1].start()
    service.events.run(WARM_S + seconds)
    shares = [one.late / max(one.due, 1) for one in sessions] or [0.0]
    motion = service.stages["motion"]
    return Outcome(
        admitted=len(sessions),
        refused=service.refused,
        late=sum(one.late for one in sessions) / max(sum(one.due for one in sessions), 1),
        worst=max(shares),
        came_late=median([(one.late - one.dropped) / max(one.due, 1) for one in sessions] or [0.0]),
        compute_ms=1e3 * sum(one.compute for one in sessions) / max(len(sessions), 1),
        busy=sum(gpu.busy_s for gpu in service.gpus) / len(service.gpus) / service.events.now,
        motion_batch=sum(one.chunks for one in motion) / max(sum(one.batches for one in motion), 1),
    )


def files_fps(cluster: Cluster, jobs: int, seed: int = 0, seconds: float = 20.0) -> float:
    """Frames per second of so many files at once."""
    service = Service(cluster, seed)
    made = []
    for number in range(jobs):
        made.append(File(service, number, service.admit() or 0))
        made[-1].start()
    service.events.run(seconds)
    return sum(one.frames for one in made) / seconds


def most_sessions(cluster: Cluster, limit: int = 24) -> int:
    """Most sessions per GPU that all speak with at most `LATE_BAR` late pictures each, whatever their phases (three seeds)."""
    best = 0
    for count in range(1, limit + 1):
        if any(speak(cluster, count * cluster.gpus, seed, seconds=20.0).worst > LATE_BAR for seed in range(3)):
            break
        best = count
    return best


@dataclass(frozen=True)
class Check:
    """A measured row and what the model says.

    The service's own counter of late pictures leaves out a part of the pictures that it dropped, so a measured share should lie
    between what came late and what was not there in time.

    Attributes:
        name: What was measured.
        measured: The number: a share, or frames per second.
        low: Least that the model allows.
        high: Most.
        within: How far off it may be.
    """

    name: str
    measured: float
    low: float
    high: float
    within: float

    @property
    def agrees(self) -> bool:
        """Whether the model may be believed here."""
        return self.low - self.within <= self.measured <= self.high + self.within


def checks(costs: Costs = H200_BEFORE) -> list[Check]:
    """The rows of one and two H200s at 0ee677c."""
    one = Cluster(costs)
    shared = Cluster(costs, 2, "shared", "calls")
    placed = Cluster(costs, 2, "sets", "avatar")
    late = [
        ("1 GPU, 8 sessions, late", one, 8, 0.0),
        ("1 GPU, 12 sessions, late", one, 12, 0.175),
        ("1 GPU, 16 sessions, late", one, 16, 0.39),
        ("1 GPU, 20 sessions, late", one, 20, 0.16),
        ("1 GPU, 20 sessions, late or dropped", one, 20, 0.95),
        ("2 GPUs, renderers on one, 16 sessions, late", shared, 16, 0.045),
        ("2 GPUs, renderers on one, 24 sessions, late", shared, 24, 0.35),
        ("2 GPUs, a set on each, 16 sessions, late", placed, 16, 0.013),
        ("2 GPUs, a set on each, 20 sessions, late", placed, 20, 0.047),
    ]
    found = []
    for name, where, count, measured in late:
        seen = speak(where, count)
        low = seen.late if "dropped" in name else seen.came_late
        found.append(Check(name, measured, low, seen.late, LATE_WITHIN))
    files = [
        ("1 GPU, 16 files, frames/s", one, 16, 326.0),
        ("2 GPUs, renderers on one, 32 files, frames/s", shared, 32, 397.0),
        ("2 GPUs, a set on each, 32 files, frames/s", replace(placed, routing="session"), 32, 617.0),
    ]
    for name, where, jobs, fps in files:
        made = files_fps(where, jobs)
        found.append(Check(name, fps, made, made, FILES_WITHIN * fps))
    return found


def late_curve(cluster: Cluster, counts: Sequence[int]) -> list[tuple[float, float]]:
    """Sessions per GPU against their late share, percent."""
    return [(count / cluster.gpus, 100 * speak(cluster, count, seconds=20.0).late) for count in counts]


def scaling_table(costs: Costs, tokens: int) -> str:
    """What numbers of sessions need, all speaking and four of ten, as a table in Markdown."""
    lines = [
        "| sessions | all speak: GPUs | 40 % speak (0.45): GPUs | hosts' processes | cores | egress Gbit/s | replicas | calls/s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for count in (100, 1_000, 10_000):
        every, some = needs(count, tokens, hop=costs.hop), needs(count, tokens, 0.45, costs.hop)
        lines.append(
            f"| {count} | {every.gpus} | {some.gpus} | {every.hosts} | {every.cores:.0f} | {every.egress_gbit:.2g} "
            f"| {every.replicas} | {every.calls:.0f} |"
        )
    return "\n".join(lines)


def variants() -> dict[str, Cluster]:
    """Simulate one GPU, and change it one thing after the other."""
    whole = Cluster(H200, chunk=5)
    return {
        "as measured (render calls of 4 + 1 frames, one after the other)": Cluster(H200_BEFORE),
        "shared buckets": Cluster(H200),
        "and a whole hop in one render call": whole,
        "and windows that wait 10 ms for each other": replace(whole, gather_s=0.01),
        "20 ms": replace(whole, gather_s=0.02),
        "30 ms": replace(whole, gather_s=0.03),
    }


def main(arguments: list[str] | None = None) -> int:
    """Print checks and tables; 0 always: a disagreement is a finding, not a failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", type=Path, nargs="?", const=DEFAULT_PLOT, help="write the picture of docs/scaling.md")
    chosen = parser.parse_args(arguments)
    print("| measured at 0ee677c | measured | simulated | |")
    print("|---|---|---|---|")
    for check in checks():
        said = f"{check.low:.3g}" if check.low == check.high else f"{check.low:.3g} to {check.high:.3g}"
        print(f"| {check.name} | {check.measured:g} | {said} | {'agrees' if check.agrees else 'disagrees'} |")
    print("\n| one GPU | sessions in time | delay for computing at 12, ms | motion batch at 12 |\n|---|---|---|---|")
    for name, cluster in variants().items():
        twelve = speak(cluster, 12)
        print(f"| {name} | {most_sessions(cluster)} | {twelve.compute_ms:.0f} | {twelve.motion_batch:.1f} |")
    best = variants()["30 ms"]
    for gpus in (2, 4):
        print(f"| the last, {gpus} GPUs, sessions placed | {most_sessions(replace(best, gpus=gpus))} each | | |")
    print(
        f"\narithmetic: {H200.bound():.1f} sessions a GPU with windows alone, {H200.bound(16):.1f} with sixteen together"
    )
    for name, tokens in (("windows alone", H200.tokens()), ("batches of 4", H200.tokens(4))):
        over = speak(replace(best, tokens=tokens), 3 * tokens, over_s=1.0)
        print(
            f"{tokens} tokens ({name}), 3 x as many offers in a second: {over.admitted} in, {100 * over.late:.2f} % late"
        )
    print("\n" + scaling_table(H200, H200.tokens(4)) + "\n")
    for size in (8, 64, 128):
        for spare in (0, 2):
            grown = grow(Growth(sets=size, tokens=H200.tokens(4), spare=spare))
            print(
                f"a cell of {size:3d} GPUs that scales, {spare} spare: {100 * grown.refused:.2f} % of offers refused, "
                f"{grown.mean_sets:.1f} sets on average, {100 * grown.used:.0f} % of their tokens used"
            )
    if chosen.plot is not None:
        chosen.plot.write_text(picture(), encoding="utf-8")
        print(f"wrote {chosen.plot}")
    return 0


def picture() -> str:
    """Late shares over load, as SVG."""
    counts, twice = range(2, 19, 2), range(4, 37, 4)
    best = variants()["30 ms"]
    curves = {
        "1 GPU, before": late_curve(Cluster(H200_BEFORE), counts),
        "1 GPU, buckets, hops, 30 ms": late_curve(best, counts),
        "2, both renderers on one": late_curve(replace(best, gpus=2, placement="shared", routing="calls"), twice),
        "2, avatars route calls": late_curve(replace(best, gpus=2, routing="avatar"), twice),
        "2, sessions placed": late_curve(replace(best, gpus=2), twice),
    }
    return line_chart(curves, "speaking sessions per GPU", "late pictures, %", "Simulated: ditto on H200s")


if __name__ == "__main__":
    sys.exit(main())
