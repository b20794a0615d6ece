"""Live sessions through the Ray graph: `python -m benchmarks.live` makes `results/cpu-2core/live.json`.

Starts a cluster and measuring clients of its own on this machine; server and clients share its cores. `--only CASE` repeats a part,
`--drift-s` shortens the ten minutes of the A/V measure. Baselines come from aiortc's own encoders (`benchmarks.live.stamped_server
--path aiortc`) in the same run, where there is such a thing; `..._stamped_...` are both paths with the same drawn scene. The A/V
offset is measured in real sessions whose stages draw a flash where the client's microphone clicks
(`benchmarks.live.click_server`): a face of `mini` shows no flash.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import httpx
import numpy as np

from benchmarks.core.record import BenchmarkRecord, format_table, make_record, write_records
from benchmarks.core.run_info import RESULTS_DIR, RunInfo, describe_run
from benchmarks.graph.run import speech, wav_16
from benchmarks.live.click_stages import clicking_voice
from benchmarks.live.rig import (
    ClientProcess,
    cpu_share,
    private_graph,
    register_presenters,
    replica_pids,
    stamped_server,
    wait_until_free,
    words_and_pauses,
)
from engines.weights.home import face_weights_dir
from kernels.errors import LiveAnchorError

SUITE: Final = "live"
DEFAULT_OUT: Final = RESULTS_DIR / "cpu-2core" / f"{SUITE}.json"
OFFERS: Final = 20
SUSTAINED_S: Final = 60.0
WORDS: Final = 12
INTERRUPTS: Final = 20
SHARE_S: Final = 15.0
MAX_SPEAKERS: Final = 4
GOOD_INTERVAL_MS: Final = 60.0
STOCK: Final = "aiortc's own encoder path, a drawn scene of this size, same run"
STOCK_SAME: Final = "aiortc's own encoder path, same scene and run"
STOCK_REPORTS: Final = "aiortc's own encoders and sender reports, a flash and a click of a drawn scene, same run"
LIPS_PARTS: Final = ("chunk", "look_ahead", "compute")
"""Parts of the session's own delay: a hop of audio, what the speech encoder must hear after it, time kept for computing."""


class Rig:
    """The running graph and what the cases share.

    Args:
        run: Facts that all records of this run share.
        url: Address of the graph.
        avatars: Avatar ids by size.
        folder: Folder for files that clients read.
        drift_s: Length of the A/V measure in seconds.
    """

    def __init__(self, run: RunInfo, url: str, avatars: dict[str, str], folder: Path, drift_s: float) -> None:
        self.run = run
        self.url = url
        self.avatars = avatars
        self.drift_s = drift_s
        self.speech = folder / "speech.wav"
        self.speech.write_bytes(wav_16(speech(SUSTAINED_S + 30)))
        self.words = folder / "words.wav"
        self.words.write_bytes(wav_16(words_and_pauses(WORDS)))

    def client(self, seconds: float, size: str = "512x512", *options: str, speech: Path | None = None) -> ClientProcess:
        """A client of the graph that speaks all the time, unless it is given something else to say."""
        return ClientProcess(
            self.url, "--seconds", f"{seconds:g}", "--speech", str(speech or self.speech),
            "--field", f"avatar_id={self.avatars[size]}", *options,
        )  # fmt: skip

    def record(self, case: str, unit: str, samples: list[float], higher: bool = False, **more: Any) -> BenchmarkRecord:
        """Make the record of one case."""
        return make_record(
            self.run, suite=SUITE, case=case, unit=unit, samples=samples, higher_is_better=higher, **more
        )


def offers(rig: Rig) -> Iterator[BenchmarkRecord]:
    """`offer_answer_p50_ms`, `first_frame_ms`: sessions one after the other, the first one left out."""
    reports = []
    for _ in range(OFFERS + 1):
        reports.append(rig.client(0.3).report())
        wait_until_free(rig.url)
    reports = reports[1:]
    yield rig.record("offer_answer_p50_ms", "ms", [one["offer_answer_ms"] for one in reports])
    yield rig.record("first_frame_ms", "ms", [one["first_frame_ms"] for one in reports])


def sustained(rig: Rig) -> Iterator[BenchmarkRecord]:
    """`sustained_fps`, `frame_interval_p99_ms`, `transport_p50_ms` of one long session."""
    stock, own = _stamped("512", "512", "--path", "aiortc"), _stamped("512", "512")
    report = rig.client(SUSTAINED_S + 2).report()
    wait_until_free(rig.url)
    yield rig.record("sustained_fps", "frames/s", [report["fps"]], higher=True, n=report["pictures"])
    yield rig.record("frame_interval_p99_ms", "ms", [report["interval_ms"]["p99"]], n=report["pictures"])
    yield _transport(rig, "transport_p50_ms", report["clock_ms"], report, stock, STOCK)
    yield _transport(rig, "transport_stamped_p50_ms", own["stamp_ms"], own, stock, STOCK_SAME)


def sustained_50(rig: Rig) -> Iterator[BenchmarkRecord]:
    """`sustained_fps_50`, `frame_interval_p99_50_ms`: one session at 50 frames/s, doubled in motion space."""
    fast = rig.client(22.0, "512x512", "--field", "fps=50").report()
    wait_until_free(rig.url)
    yield rig.record("sustained_fps_50", "frames/s", [fast["fps"]], higher=True, n=fast["pictures"])
    yield rig.record("frame_interval_p99_50_ms", "ms", [fast["interval_ms"]["p99"]], n=fast["pictures"])


def tall(rig: Rig) -> Iterator[BenchmarkRecord]:
    """`transport_1080x1920_p50_ms`, `session_1080x1920_cpu_share`: one session at full size that speaks all the time."""
    (stock, stock_share), (own, own_share) = _stamped_tall("--path", "aiortc"), _stamped_tall()
    client = rig.client(SHARE_S + 14, "1080x1920")
    time.sleep(8)
    share = cpu_share(replica_pids("SessionHost"), SHARE_S)
    report = client.report()
    wait_until_free(rig.url)
    yield _transport(rig, "transport_1080x1920_p50_ms", report["clock_ms"], report, stock, STOCK)
    yield _transport(rig, "transport_stamped_1080x1920_p50_ms", own["stamp_ms"], own, stock, STOCK_SAME)
    yield rig.record("session_1080x1920_cpu_share", "cores", [share], baseline=STOCK, baseline_value=stock_share)
    yield rig.record(
        "stamped_1080x1920_cpu_share", "cores", [own_share], baseline=STOCK_SAME, baseline_value=stock_share
    )


def lips(rig: Rig) -> Iterator[BenchmarkRecord]:
    """`speech_to_lips_p50_ms` and its parts, which add up to it, from words after pauses.

    `microphone` is what the others leave: packets and jitter buffer on the way in, the wait for the next picture, the mouth's own
    opening.
    `stages` is not a part: what the stages really took.
    """
    length = WORDS * 2.0 + 8
    client = rig.client(length, "512x512", "--mouths", str(face_weights_dir()), speech=rig.words)
    time.sleep(length * 0.6)
    stats = httpx.get(f"{rig.url}/stream/webrtc/stats", timeout=20).json()["sessions"][0]
    report = client.report()
    wait_until_free(rig.url)
    opened = [one for one in report["mouth"] if one is not None]
    if len(opened) < WORDS // 2:
        raise LiveAnchorError(f"only {len(opened)} of {len(report['mouth'])} mouths opened")
    whole, transport = float(np.median(opened)), report["clock_ms"]["p50"]
    yield rig.record("speech_to_lips_p50_ms", "ms", opened)
    parts = {name: float(stats["delay_parts_ms"][name]) for name in LIPS_PARTS} | {"transport": transport}
    parts["microphone"] = whole - sum(parts.values())
    parts["stages"] = sum(float(one["p50"]) for one in stats["stage_latency_ms"].values())
    for name, value in parts.items():
        yield rig.record(f"speech_to_lips_{name}_ms", "ms", [value])


def av_offset(rig: Rig) -> Iterator[BenchmarkRecord]:
    """`av_offset_abs_ms`, `av_drift_ms_10min`: flash and click, client's clock 200 ppm fast, 2 % of packets lost."""
    stock = _stamped("512", "512", "--path", "aiortc")["av_offset_ms"]
    voice = rig.speech.with_name("clicks.wav")
    voice.write_bytes(wav_16(clicking_voice(rig.drift_s + 30)))
    with stamped_server(module="benchmarks.live.click_server") as (url, _):
        options = ("--seconds", f"{rig.drift_s:g}", "--ppm", "200", "--loss", "0.02", "--speech", str(voice))
        report = ClientProcess(url, *options).report(rig.drift_s + 120)
    found = report["av_offset_ms"]
    if found is None or found["n"] < 0.5 * rig.drift_s:
        raise LiveAnchorError(f"too few flashes found their clicks: {found}")
    yield rig.record(
        "av_offset_abs_ms", "ms", [found["p95_abs"]], n=int(found["n"]),
        baseline=STOCK_REPORTS if stock else None, baseline_value=stock["p95_abs"] if stock else None,
    )  # fmt: skip
    yield rig.record("av_drift_ms_10min", "ms", [abs(found["drift_10min"])], n=int(found["n"]))


def interruptions(rig: Rig) -> Iterator[BenchmarkRecord]:
    """`interrupt_p95_ms`: an upper bound, taken at the client."""
    options = ("--count", str(INTERRUPTS), "--avatar-id", rig.avatars["512x512"])
    found = ClientProcess(rig.url, *options, module="benchmarks.live.interrupt").report()["interrupt_ms"]
    wait_until_free(rig.url)
    yield rig.record("interrupt_p95_ms", "ms", found, value=float(np.percentile(found, 95)))


def dead_peer(rig: Rig) -> Iterator[BenchmarkRecord]:
    """`dead_peer_s`: from SIGKILL of the client until the place is free."""
    taken = []
    for _ in range(3):
        client = rig.client(60.0)
        time.sleep(6)
        client.process.send_signal(signal.SIGKILL)
        taken.append(wait_until_free(rig.url))
        client.process.wait()
    yield rig.record("dead_peer_s", "s", taken, value=max(taken))


def idle(rig: Rig) -> Iterator[BenchmarkRecord]:
    """`idle_cpu_share`: all replicas of the graph with one connected session that is silent, less the graph alone."""
    pids = [
        pid for name in ("SessionHost", "Renderer", "MotionDiffusion", "AudioFeatures") for pid in replica_pids(name)
    ]
    alone = cpu_share(pids, SHARE_S)
    client = ClientProcess(
        rig.url, "--seconds", f"{SHARE_S + 12:g}", "--field", "drive=push",
        "--field", f"avatar_id={rig.avatars['512x512']}",
    )  # fmt: skip
    time.sleep(8)
    share = cpu_share(pids, SHARE_S) - alone
    client.report()
    wait_until_free(rig.url)
    speaking = rig.client(SHARE_S + 14)
    time.sleep(8)
    baseline = cpu_share(pids, SHARE_S) - alone
    speaking.report()
    wait_until_free(rig.url)
    yield rig.record(
        "idle_cpu_share",
        "cores",
        [share],
        baseline="the same session while it speaks, same run",
        baseline_value=baseline,
    )


def speakers(rig: Rig) -> Iterator[BenchmarkRecord]:
    """`speaking_sessions`: most that all keep frame intervals p99 <= 60 ms, clients on the same cores."""
    yield from _speakers(rig, "speaking_sessions")


def speakers_soon(rig: Rig) -> Iterator[BenchmarkRecord]:
    """`speaking_sessions_hop4`: the same with the defaults, whose delay is 160 ms shorter."""
    yield from _speakers(rig, "speaking_sessions_hop4")


def _speakers(rig: Rig, case: str) -> Iterator[BenchmarkRecord]:
    good, worst = 0, 0.0
    for count in range(1, MAX_SPEAKERS + 1):
        clients = [rig.client(20.0) for _ in range(count)]
        try:
            intervals = [one.report()["interval_ms"]["p99"] for one in clients]
        except LiveAnchorError as error:
            print(f"{count} sessions: {error} (refused, no headroom)", file=sys.stderr, flush=True)
            break
        finally:
            wait_until_free(rig.url)
        print(f"{count} sessions: frame interval p99 {max(intervals):.1f} ms", file=sys.stderr, flush=True)
        if max(intervals) > GOOD_INTERVAL_MS:
            break
        good, worst = count, max(intervals)
    yield rig.record(case, "sessions", [float(good)], higher=True)
    if good:
        yield rig.record(f"{case}_interval_p99_ms", "ms", [worst])


def _transport(
    rig: Rig, case: str, found: dict[str, float], report: dict[str, Any], stock: dict[str, Any], baseline: str
) -> BenchmarkRecord:
    return rig.record(
        case, "ms", [found["p50"]], spread=(found["p5"], found["p95"]), n=report["pictures"],
        baseline=baseline, baseline_value=stock["stamp_ms"]["p50"],
    )  # fmt: skip


def _stamped_tall(*options: str) -> tuple[dict[str, Any], float]:
    """A client's report at 1080 x 1920, and the cores that the server used meanwhile."""
    with stamped_server("--width", "1080", "--height", "1920", *options) as (url, pid):
        client = ClientProcess(url, "--seconds", f"{SHARE_S + 8:g}", "--stamp-at", "0,0")
        time.sleep(5)
        share = cpu_share([pid], SHARE_S)
        return client.report(), share


def _stamped(width: str, height: str, *options: str) -> dict[str, Any]:
    with stamped_server("--width", width, "--height", height, *options) as (url, _):
        return ClientProcess(url, "--seconds", "12", "--stamp-at", "0,0").report()


CASES: Final[dict[str, Callable[[Rig], Iterator[BenchmarkRecord]]]] = {
    "offers": offers,
    "sustained": sustained,
    "sustained_50": sustained_50,
    "tall": tall,
    "lips": lips,
    "interruptions": interruptions,
    "dead_peer": dead_peer,
    "idle": idle,
    "speakers_soon": speakers_soon,
    "speakers": speakers,
    "av_offset": av_offset,
}


GRAPHS: Final[tuple[tuple[tuple[str, ...], dict[str, int] | None], ...]] = (
    (("offers", "sustained", "tall", "lips", "interruptions", "dead_peer", "idle", "speakers_soon"), {}),
    (("speakers", "sustained_50"), {"hop_frames": 8, "chunk_frames": 8}),
    (("av_offset",), None),
)
"""Cases, and the settings of `live` of the graph that they run on; None: no graph.

Capacity, and 50 frames/s, are measured as an operator would set it who wants sessions or pictures rather than the shortest delay:
windows and chunks of 8 frames. `speakers_soon` is the same with the defaults.
"""


def _run_cases(rig: Rig, names: list[str], out: Path) -> int:
    failed = 0
    for name in names:
        try:
            for record in CASES[name](rig):
                write_records(out, [record])
                print(format_table([record]), flush=True)
        except (LiveAnchorError, httpx.HTTPError, LookupError, TypeError) as error:
            failed = 1
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
    return failed


def main(arguments: list[str] | None = None) -> int:
    """Run and write the records; 0 done, 1 something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="results file; rows are merged by case")
    parser.add_argument("--only", nargs="*", choices=list(CASES), default=list(CASES), help="parts to run")
    parser.add_argument("--drift-s", type=float, default=600.0, help="length of the A/V measure")
    options = parser.parse_args(arguments)
    run, failed = describe_run("python -m benchmarks.live"), 0
    for names, fields in GRAPHS:
        wanted = [name for name in options.only if name in names]
        if not wanted:
            continue
        with ExitStack() as stack:
            folder, url, avatars = Path(stack.enter_context(TemporaryDirectory())), "", {}
            if fields is not None:
                url = stack.enter_context(private_graph({"live": {"max_sessions": MAX_SPEAKERS, **fields}}))
                avatars = register_presenters(url)
                time.sleep(10)  # idle loops of the new presenters are being drawn
            failed |= _run_cases(Rig(run, url, avatars, folder, options.drift_s), wanted, options.out)
    return failed
