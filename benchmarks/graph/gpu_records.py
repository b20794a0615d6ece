"""What `benchmarks.graph.gpu` measured, as records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from benchmarks.core.record import BenchmarkRecord, make_record
from benchmarks.core.run_info import RunInfo

SUITE: Final = "graph_gpu"
GIB: Final = 2.0**30
FPS: Final = 25.0
LIVE_STAGES: Final = ("audio_features", "motion_diffusion", "renderer")
ONE_PROCESS: Final = "the same job in one process, same run"
ALONE: Final = "one job at a time, same run"
Found = Mapping[str, Any]


def records_of(run: RunInfo, found: Found) -> list[BenchmarkRecord]:
    """Everything that was measured; what is missing has no row.

    Args:
        run: Facts that all records of this run share.
        found: `families`: family -> its measurements (`graph_gpu.measure`), and `cap` of one worker.
    """
    records = [record for family, one in found.get("families", {}).items() for record in _family(run, family, one)]
    cap = found.get("cap", {})
    if cap.get("device") == "cuda":
        held = cap["refused"] and cap["works_after"] and 0.0 < cap["share"] < 1.0
        records.append(_row(run, "ray_memory_cap_holds", "1", [float(held)], True))
    return records


def _family(run: RunInfo, family: str, found: Found) -> Iterator[BenchmarkRecord]:
    local = found.get("local", {})
    seconds = float(found["seconds"])
    for case, unit in (("ready_s", "s"), ("first_job_s", "s")):
        if case in found:
            yield _row(run, f"{family}_{case}", unit, [found[case]], False)
    if files := found.get("files"):
        base = [one / seconds for one in local.get("files", [])]
        yield _row(run, f"{family}_file_rtf", "s/s", [one / seconds for one in files], False, ONE_PROCESS, base)
    if streams := found.get("streams"):
        base = [1e3 * one for one in local.get("streams", [])]
        yield _row(run, f"{family}_first_frame_ms", "ms", [1e3 * one for one in streams], False, ONE_PROCESS, base)
    frames = seconds * FPS
    alone = [frames / one for one in files or []]
    rates = {}
    for count, one in found.get("parallel", {}).items():
        if one["completed"] == int(count):
            rates[count] = int(count) * frames / one["seconds"]
            yield _row(run, f"{family}_jobs{count}_frames_per_s", "frames/s", [rates[count]], True, ALONE, alone)
    if rates:
        most = max(rates.values()) / FPS
        yield _row(run, f"{family}_realtime_jobs", "jobs", [most], True, ALONE, [one / FPS for one in alone])
    yield from _memory(run, family, found.get("memory", {}))
    yield from _kill(run, family, found)
    yield from _live(run, family, found.get("live", {}), local.get("live", {}))


def _memory(run: RunInfo, family: str, memory: Found) -> Iterator[BenchmarkRecord]:
    for stage, one in memory.items():
        bound = "what the replica's share of the GPU allows it"
        for kind, name in (("peak", "reserved"), ("driver", "driver")):
            if one[kind]:
                case = f"{family}_{stage}_{name}_gib"
                yield _row(run, case, "GiB", [one[kind] / GIB], False, bound, [one["cap"] / GIB])


def _kill(run: RunInfo, family: str, found: Found) -> Iterator[BenchmarkRecord]:
    kill = found.get("kill")
    if kill is None:
        return
    share = kill["completed"] / kill["jobs"]
    yield _row(run, f"{family}_killed_renderer_jobs_done", "1", [share], True, n=kill["jobs"])
    undisturbed = found.get("parallel", {}).get(str(kill["jobs"]))
    if share == 1.0 and undisturbed is not None:
        base = [undisturbed["seconds"]]
        yield _row(
            run, f"{family}_killed_renderer_jobs_s", "s", [kill["seconds"]], False, "nobody killed, same run", base
        )
    if kill["back_s"] is not None:
        yield _row(run, f"{family}_renderer_back_s", "s", [kill["back_s"]], False)


def _live(run: RunInfo, family: str, live: Found, local: Found) -> Iterator[BenchmarkRecord]:
    for count, one in live.items():
        if len(one["reports"]) != int(count):
            continue  # refused or failed; the raw file says why
        base, name = local.get(count, {}), f"{family}_live{count}"
        rows = {
            "late_share": ("1", late_shares(one), late_shares(base)),
            "interval_p99_ms": ("ms", intervals_ms(one), intervals_ms(base)),
            "stages_ms": ("ms", stages_ms(one), stages_ms(base)),
        }
        for case, (unit, samples, theirs) in rows.items():
            if samples:
                yield _row(
                    run, f"{name}_{case}", unit, samples, False, "the same sessions in one process, same run", theirs
                )


def intervals_ms(live: Found) -> list[float]:
    """Per client: 99th percentile of the time between two pictures."""
    return [report["interval_ms"]["p99"] for report in live.get("reports", []) if report["interval_ms"]]


def late_shares(live: Found) -> list[float]:
    """Per session: ticks at which a spoken picture was due and had not come, over all ticks."""
    return [one["frames_repeated"] / one["frames"] for one in live.get("sessions", []) if one["frames"]]


def stages_ms(live: Found) -> list[float]:
    """Per session: the stages' median latencies one after the other, from a hop's audio to its pictures."""
    known = [one["stage_latency_ms"] for one in live.get("sessions", [])]
    return [sum(one[stage]["p50"] for stage in LIVE_STAGES) for one in known if set(LIVE_STAGES) <= set(one)]


def _row(
    run: RunInfo,
    case: str,
    unit: str,
    samples: list[float],
    higher: bool,
    baseline: str | None = None,
    baseline_samples: list[float] | None = None,
    n: int | None = None,
) -> BenchmarkRecord:
    """Make one record; a baseline without samples was not measured and is left out."""
    return make_record(
        run,
        suite=SUITE,
        case=case,
        unit=unit,
        samples=samples,
        higher_is_better=higher,
        n=n,
        baseline=baseline if baseline_samples else None,
        baseline_value=float(np.median(baseline_samples)) if baseline_samples else None,
    )
