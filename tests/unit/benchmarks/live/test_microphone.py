"""The microphone's chain against the one that it replaced: the same voice, in the same place, for less."""

from __future__ import annotations

import asyncio

import numpy as np

from benchmarks.core.run_info import describe_run
from benchmarks.live.microphone import records
from benchmarks.live.microphone_path import MicrophonePath, settle
from benchmarks.live.packet_by_packet import as_before
from benchmarks.live.sent_voice import opus_packets, spoken
from kernels.arrays import F32
from pipeline.webrtc.voice_thread import VoiceThread

SECONDS = 4


async def laid_down(packets: list[bytes], before: bool, lost: frozenset[int]) -> tuple[F32, float]:
    """The first seconds of the timeline, and the gain for the networks at its end."""
    thread = VoiceThread()
    path = MicrophonePath(None if before else thread)
    for index, payload in enumerate(packets):
        if index not in lost:
            path.step(path.wire.protected(index, payload), index * 0.02)
            await settle(thread)
    path.close()
    assert path.failure is None
    gain = float(np.ravel(path.timeline.gain(path.timeline.end - 1, 1))[0])
    return path.timeline.read(0, SECONDS * 16_000), gain


def test_the_samples_are_those_of_the_chain_before() -> None:
    packets = opus_packets(spoken(SECONDS, -38.0, 3))
    lost = frozenset((60, 61, 110, 150))
    with as_before():
        former, former_gain = asyncio.run(laid_down(packets, True, lost))
    now, gain = asyncio.run(laid_down(packets, False, lost))
    apart, whole = (float(np.mean(np.square(pcm.astype(np.float64)))) for pcm in (now - former, former))
    assert 10 * np.log10(apart / whole) < -35
    assert gain > 4.0 and abs(20 * np.log10(gain / former_gain)) < 0.2


def test_it_counts_what_both_cost() -> None:
    rows, table = records(describe_run("python -m benchmarks.live.microphone"), sessions=2, seconds=2.0)
    total, loop = rows
    assert total.case == "microphone_cpu_ms" and loop.case == "microphone_loop_cpu_ms"
    assert 0 < (loop.floor_value or 0) < loop.value < total.value and (total.floor_value or 0) < total.value
    for part in ("transport", "decoding (thread)", "resampling", "level", "looking for speech"):
        assert part in table
    assert "50 -> 25" in table, "half as many blocks as packets"
