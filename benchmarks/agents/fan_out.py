"""What a session costs its host whose fifty viewers are at a real SFU: `whip_viewers`, `host_cpu_ratio_50_to_1`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import httpx

from benchmarks.agents.janus import janus_server
from benchmarks.agents.settings import DIRECT
from benchmarks.agents.subscribers import Subscriber
from benchmarks.agents.whip_front import TOKEN, whip_front
from benchmarks.core.record import BenchmarkRecord
from benchmarks.live.rig import ClientProcess, replica_pids, wait_until_free
from kernels.errors import LiveAnchorError

if TYPE_CHECKING:
    from benchmarks.agents.run import Rig

VIEWERS: Final = 50
ROUNDS: Final = 3
SECONDS: Final = 10.0
LEAST_FPS: Final = 20.0
"""A subscriber with fewer pictures per second, of 25, does not count as one that watches."""
HOST: Final = "SessionHost"
_SUBSCRIBERS: Final = "benchmarks.agents.subscribers"


def whip(rig: Rig) -> Iterator[BenchmarkRecord]:
    """`whip_viewers`, `host_cpu_ratio_50_to_1`.

    One idle session is published to Janus. Windows with one subscriber there and with fifty follow each other; the ratio is that of
    the processor time that all session hosts took, and its bound is 1: nothing more at the host. The baseline is the same ratio for
    viewers whom the host serves itself (WHEP), of which there are ten, not fifty.
    """
    with janus_server() as janus_url, whip_front(janus_url, rig.front_port), session(rig) as session_id:
        begun = httpx.post(
            f"{rig.url}/stream/webrtc/{session_id}/publish",
            json={"url": f"http://127.0.0.1:{rig.front_port}/whip", "token": TOKEN},
            timeout=60,
        ).raise_for_status()
        if begun.json()["state"] != "live":
            raise LiveAnchorError(f"the session is not at the SFU: {begun.json()['error']}")
        watching, ratios, direct = [], [], []
        for _ in range(ROUNDS):
            one, many = (_watched(janus_url, count) for count in (1, VIEWERS))
            watching.append(float(sum(fps >= LEAST_FPS for fps in many["fps"])))
            ratios.append(many["cores"] / one["cores"])
        for _ in range(ROUNDS):
            own = _watched(f"{rig.url}/stream/whep/{session_id}", DIRECT, "--whep")
            direct.append(own["cores"] / _watched(janus_url, 1)["cores"])
        yield rig.record("whip_viewers", "1", watching, higher_is_better=True, floor_value=float(VIEWERS))
        yield rig.record(
            "host_cpu_ratio_50_to_1", "1", ratios, floor_value=1.0,
            baseline=f"{DIRECT} viewers that the host serves itself (WHEP), same run", baseline_value=median(direct),
        )  # fmt: skip


def _watched(url: str, count: int, *options: str) -> dict[str, Any]:
    pids = [str(pid) for pid in replica_pids(HOST)]
    arguments = ("--count", str(count), "--seconds", str(SECONDS), *options, "--pids", *pids)
    return ClientProcess(url, *arguments, module=_SUBSCRIBERS).report()


@contextmanager
def session(rig: Rig) -> Iterator[str]:
    """Id of a session whose own client counts packets too, as long as the block runs."""
    loop, speaker = asyncio.new_event_loop(), Subscriber()
    thread = threading.Thread(target=loop.run_forever, name="speaker")
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(_begin(rig, speaker), loop).result(60)
    finally:
        asyncio.run_coroutine_threadsafe(speaker.close(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        wait_until_free(rig.url)


async def _begin(rig: Rig, speaker: Subscriber) -> str:
    body = {"sdp": await speaker.offer(), "type": "offer", "drive": "push", "avatar_id": rig.avatar_id}
    async with httpx.AsyncClient(base_url=rig.url, timeout=60) as http:
        answer = (await http.post("/stream/webrtc/offer", json=body)).raise_for_status().json()
    await speaker.accept(answer["sdp"])
    return str(answer["session_id"])
