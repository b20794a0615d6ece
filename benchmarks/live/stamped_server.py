"""A server of stamped pictures for `benchmarks.live.client`: our transport, or aiortc's own encoders (`--path aiortc`).

It speaks the same `POST /stream/webrtc/offer` as the product, without sessions or stages, so that the transport alone is timed.
`GET /usage` gives its processor time.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import time
from dataclasses import asdict
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks.live import aiortc_encoder
from benchmarks.live.stamped_scene import StampedScene
from kernels.arrays import F32
from pipeline.config import EncoderSettings
from pipeline.live.contracts import VideoTick, VoiceTick
from pipeline.live.settings import RtcSettings
from pipeline.webrtc.hub import LiveHub
from pipeline.webrtc.peer import LivePeer


class Offer(BaseModel):
    """What the product's offer begins with; further fields are ignored."""

    sdp: str
    type: str = "offer"


def now_us() -> int:
    """Unix time in microseconds, lowest 48 bits."""
    return time.time_ns() // 1000 & (1 << 48) - 1


class StampedServer:
    """Sends the same scene to every client.

    Args:
        scene: What is sent.
        kbps: Bit rate of our path.
        own: Our transport, or aiortc's encoders.
    """

    def __init__(self, scene: StampedScene, kbps: int, own: bool) -> None:
        self._scene = scene
        self._own = own
        self._rtc = RtcSettings(min_kbps=kbps, start_kbps=kbps, max_kbps=kbps)
        self._began = time.monotonic()
        self._hub: LiveHub | None = None
        self._task: asyncio.Task[None] | None = None
        self._peers: list[Any] = []
        self.heard_samples = 0
        self.app = FastAPI()
        self.app.post("/stream/webrtc/offer")(self.offer)
        self.app.get("/usage")(self.usage)

    async def offer(self, offer: Offer) -> dict[str, Any]:
        """Begin a session; `stamp_at` says where the stamped face lies."""
        if self._own:
            hub = self._running_hub()
            peer = LivePeer(hub, self._rtc, on_microphone=self._hear)
            sdp = await peer.answer(offer.sdp)
            self._peers.append(peer)
        else:
            connection, sdp = await aiortc_encoder.answer(self._scene, self._began, offer.sdp, now_us)
            self._peers.append(connection)
        place = [self._scene.rect.x, self._scene.rect.y]
        return {"sdp": sdp, "type": "answer", "session_id": str(len(self._peers)), "stamp_at": place}

    async def usage(self) -> dict[str, Any]:
        """Processor time of this process, and what our path counted."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        counts = {} if self._hub is None else asdict(self._hub.stats())
        peers = [asdict(peer.stats()) for peer in self._peers if isinstance(peer, LivePeer)]
        return {"cpu_s": used.ru_utime + used.ru_stime, "at": time.monotonic(), "hub": counts, "peers": peers}

    async def close(self) -> None:
        """End every session."""
        if self._task is not None:
            self._task.cancel()
        for peer in self._peers:
            await peer.close()
        if self._hub is not None:
            await self._hub.close()

    def _hear(self, samples: F32, place: int, age_s: float) -> int:
        self.heard_samples = place + len(samples)
        return 0

    def _running_hub(self) -> LiveHub:
        if self._hub is None:
            self._hub = LiveHub(self._scene.canvas, self._scene.fps, EncoderSettings(prefer="x264"), self._rtc)
            self._task = asyncio.create_task(self._tick(self._hub))
        return self._hub

    async def _tick(self, hub: LiveHub) -> None:
        index = max(0, round((time.monotonic() - self._began) * self._scene.fps))
        while True:
            await asyncio.sleep(max(0.0, self._began + index / self._scene.fps - time.monotonic()))
            hub.video(VideoTick(index, index / self._scene.fps, self._scene.picture(index, now_us())))
            pcm = self._scene.voice(index)
            hub.voice(VoiceTick(pcm, index * len(pcm), bool(np.any(pcm))))
            index += 1


def main(arguments: list[str] | None = None) -> int:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8911)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--height", type=int, default=512)
    parser.add_argument("--fps", type=int, default=25)
    parser.add_argument("--kbps", type=int, default=4000)
    parser.add_argument("--path", choices=("own", "aiortc"), default="own")
    options = parser.parse_args(arguments)
    scene = StampedScene(options.width, options.height, options.fps)
    server = StampedServer(scene, options.kbps, options.path == "own")
    uvicorn.run(server.app, host="127.0.0.1", port=options.port, log_level="warning")
    return 0


if __name__ == "__main__":
    sys.exit(main())
