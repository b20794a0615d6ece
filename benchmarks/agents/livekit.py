"""What a LiveKit agent is told at an interruption: `python -m benchmarks.agents.livekit` writes `livekit_*` of `agents.json`.

A real session in a room of this process (`benchmarks.agents.rooms`) speaks what an agent sends; what is heard is counted by
LiveKit's own stream of the session's own track. Both are counted in samples, so a busy machine changes nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np

from benchmarks.agents.rooms import Listener, Rooms, access_token
from benchmarks.agents.run import DEFAULT_OUT, SUITE
from benchmarks.core.record import format_table, make_record, write_records
from benchmarks.core.run_info import describe_run
from benchmarks.live.click_stages import ClickStages, grey_card
from deployments.config import SessionHostSettings
from deployments.host.live_calls import LiveOffer
from deployments.host.live_sessions import LiveSessions
from kernels.errors import LiveAnchorError
from pipeline.live.contracts import Drive
from pipeline.livekit.invitation import read_invitation
from pipeline.stages import Stages

URL: Final = "wss://live.example"
RATE_HZ: Final = 24_000
SPEECH_S: Final = 5.0
CUTS: Final = 20
WAIT_S: Final = 30.0
BLOCK_MS: Final = 10.0
"""What is heard is counted in blocks of that length."""
AS_SENT: Final = "the seconds that the session has sent, without what LiveKit's queue held, same run"


async def measure(cuts: int) -> dict[str, list[float]]:
    """Interrupt speech `cuts` times: errors of the reported position, and of the session's own count, in milliseconds."""
    rooms, stages, avatar, told = Rooms(), ClickStages(), grey_card(), list[dict[str, Any]]()
    agent = rooms.agent()

    def finished(data: Any) -> str:
        told.append(json.loads(data.payload))
        return "ok"

    async def same(session_id: str) -> Stages:
        return stages

    agent.local_participant.register_rpc_method("lk.playback_finished", finished)
    settings = SessionHostSettings.model_validate({"encoder": {"prefer": "x264", "threads": 1}})
    sessions = LiveSessions(settings, same, lambda _: avatar, stages)
    invitation = read_invitation(URL, access_token(), ("live.example",))
    with mock.patch("deployments.host.session_setup.load_rtc", lambda: rooms):  # the rooms stand in for a server
        await sessions.open(LiveOffer("s1", "", None, 25, Drive.PUSH, True, room=invitation))
    listener = Listener(rooms.joined["avatar"].local_participant)
    sent: list[float] = []
    following = asyncio.create_task(_follow(sessions, sent))
    found: dict[str, list[float]] = {"reported_ms": [], "sent_ms": []}
    try:
        for number in range(-1, cuts):  # the first one is left out: LiveKit's queue begins with it
            before, ends = listener.loud_s(), len(told)
            await _say(agent)
            await _until(lambda: listener.loud_s() - before > 0.3 + 0.037 * (number % 20))  # noqa: B023  # awaited here
            await agent.local_participant.perform_rpc(
                destination_identity="avatar", method="lk.clear_buffer", payload=""
            )
            await _until(lambda: len(told) > ends and len(sent) > ends)  # noqa: B023  # awaited here
            await listener.settle()
            heard_s = listener.loud_s() - before
            if number >= 0:
                found["reported_ms"].append(1000 * abs(told[-1]["playback_position"] - heard_s))
                found["sent_ms"].append(1000 * abs(sent[-1] - heard_s))
    finally:
        await listener.close()
        await sessions.close()
        following.cancel()
    return found


async def _follow(sessions: LiveSessions, sent: list[float]) -> None:
    async for event in sessions.events("s1", 0):
        if event.name == "speaking_finished":
            sent.append(float(event.data["position_s"]))


async def _say(agent: Any) -> None:
    tone = (1500 * np.sin(np.arange(round(SPEECH_S * RATE_HZ)) * 0.05)).astype("<i2").tobytes()
    attributes = {"sample_rate": str(RATE_HZ), "num_channels": "1"}
    stream = await agent.local_participant.stream_bytes(
        "speech", topic="lk.audio_stream", destination_identities=["avatar"], attributes=attributes
    )
    await stream.write(tone)
    await stream.aclose()


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110  # counted in other tasks
            await asyncio.sleep(0.002)


def main(arguments: list[str] | None = None) -> int:
    """Run and write the record; 0 done, 1 something failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="results file; rows are merged by case")
    parser.add_argument("--cuts", type=int, default=CUTS, help="interruptions")
    options = parser.parse_args(arguments)
    run = describe_run("python -m benchmarks.agents.livekit")
    try:
        found = asyncio.run(measure(options.cuts))
    except (LiveAnchorError, TimeoutError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    record = make_record(
        run, suite=SUITE, case="livekit_interrupt_position_error_ms", unit="ms", samples=found["reported_ms"],
        higher_is_better=False, baseline=AS_SENT, baseline_value=float(np.median(found["sent_ms"])),
        floor_value=BLOCK_MS / 2,
    )  # fmt: skip
    write_records(options.out, [record])
    print(format_table([record]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
