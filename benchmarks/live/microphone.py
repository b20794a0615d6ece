"""What the microphones of a host cost in processor time, by part, without a network: `python -m benchmarks.live.microphone`.

Sessions are sent 20 ms packets of Opus at 48 kHz over SRTP, half of them at an ordinary level, half quiet. Time is the benchmark's
own, so it runs as fast as it can, and processor time is counted. It may run beside other load, which costs caches: compare within
a run. Left out are the socket, `select` and the wake-ups of asyncio. The baseline is the chain as it was (`packet_by_packet`). The
bound is what no chain can leave out that has aiortc's transport and FFmpeg's libopus: these two alone.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from benchmarks.core.cpu_parts import CpuParts
from benchmarks.core.record import BenchmarkRecord, format_table, make_record, write_records
from benchmarks.core.run_info import RunInfo, describe_run
from benchmarks.live.microphone_path import MicrophonePath, settle
from benchmarks.live.packet_by_packet import RecomputedLevel, TwoResamplers, as_before
from benchmarks.live.sent_voice import PACKET, RATE_HZ, VoiceWire, opus_packets, spoken
from pipeline.live.voice_resampler import VoiceResampler
from pipeline.media.running_level import RunningLevel
from pipeline.webrtc.jitter_buffer import VoiceJitterBuffer
from pipeline.webrtc.microphone_line import MicrophoneLine
from pipeline.webrtc.voice_receiver import OpusDecoder, VoiceReceiver
from pipeline.webrtc.voice_thread import VoiceThread

LEVELS_DBFS: Final = (-23.0, -40.0)
OFF_THE_LOOP: Final = ("decoding", "jitter and places")
"""Parts that the thread does; before, the loop did them."""
_PARTS: Final[tuple[tuple[type, str, str], ...]] = (
    (VoiceWire, "arrives", "transport"),
    (MicrophoneLine, "_ask", "hand-over"),
    (MicrophoneLine, "_take", "hand-over"),
    (MicrophoneLine, "work", "jitter and places"),
    (VoiceReceiver, "packet", "jitter and places"),
    (VoiceReceiver, "passes", "jitter and places"),
    (VoiceJitterBuffer, "add", "jitter and places"),
    (OpusDecoder, "__call__", "decoding"),
    (VoiceResampler, "push", "resampling"),
    (TwoResamplers, "push", "resampling"),
    (RunningLevel, "hear", "level"),
    (RecomputedLevel, "hear", "level"),
    (MicrophonePath, "take", "laying down"),
    (MicrophonePath, "look", "looking for speech"),
)


async def measure(voices: Sequence[Sequence[bytes]], before: bool) -> CpuParts:
    """Play voices, each to a session of its own.

    Args:
        voices: Opus packets of 20 ms, as many for each.
        before: Take them as before.
    """
    parts, thread = CpuParts(), None if before else VoiceThread()
    with as_before() if before else nullcontext(), parts.watching(*_PARTS):
        paths = [MicrophonePath(thread) for _ in voices]
        datagrams = [
            [path.wire.protected(index, payload) for index, payload in enumerate(voice)]
            for path, voice in zip(paths, voices, strict=True)
        ]
        for index in range(len(voices[0])):
            for path, sent in zip(paths, datagrams, strict=True):
                path.step(sent[index], index * PACKET / RATE_HZ)
            if thread is not None:
                await settle(thread)
        for path in paths:
            path.close()
            if path.failure is not None:
                raise path.failure
    return parts


def records(run: RunInfo, sessions: int, seconds: float) -> tuple[list[BenchmarkRecord], str]:
    """Measure both; the rows, and a table of the parts."""
    voices = [opus_packets(spoken(seconds, LEVELS_DBFS[one % 2], one)) for one in range(sessions)]
    per_session_s = 1000 / sessions / (len(voices[0]) * PACKET / RATE_HZ)
    before, now = (asyncio.run(measure(voices, before)) for before in (True, False))
    cost = {
        one: {name: s * per_session_s for name, s in parts.seconds.items()} for one, parts in ((0, before), (1, now))
    }
    lines = [f"{'ms per session-second':28s} {'before':>8s} {'now':>8s} {'calls a second':>20s}"]
    for name in dict.fromkeys(part for _, _, part in _PARTS):
        counts = " -> ".join(f"{parts.calls[name] * per_session_s / 1000:.0f}" for parts in (before, now))
        thread = " (thread)" if name in OFF_THE_LOOP else ""
        lines.append(f"{name + thread:28s} {cost[0].get(name, 0.0):8.2f} {cost[1].get(name, 0.0):8.2f} {counts:>20s}")
    least = cost[1]["transport"] + cost[1]["decoding"]
    on_loop = sum(ms for name, ms in cost[1].items() if name not in OFF_THE_LOOP)
    rows = [
        _row(run, "microphone_cpu_ms", sum(cost[1].values()), sum(cost[0].values()), least, sessions),
        _row(run, "microphone_loop_cpu_ms", on_loop, sum(cost[0].values()), cost[1]["transport"], sessions),
    ]
    return rows, "\n".join(lines)


def _row(run: RunInfo, case: str, value: float, baseline: float, bound: float, sessions: int) -> BenchmarkRecord:
    return make_record(
        run,
        suite="live",
        case=case,
        unit="ms",
        samples=[value],
        n=sessions,
        higher_is_better=False,
        baseline="packet by packet on the event loop, same voices",
        baseline_value=baseline,
        floor_value=bound,
    )


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and write where asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=30.0, help="length of each voice")
    parser.add_argument("--out", type=Path, default=None, help="results file whose rows are replaced; none by default")
    options = parser.parse_args(arguments)
    rows, table = records(describe_run("python -m benchmarks.live.microphone"), options.sessions, options.seconds)
    sys.stdout.write(f"{table}\n\n{format_table(rows)}\n")
    if options.out is not None:
        write_records(options.out, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
