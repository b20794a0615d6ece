"""What only a real LiveKit server can show: joining, tokens, subscription, and what a viewer gets of an interruption.

    python real_room.py --livekit-url wss://... --api-key ... --api-secret ... --liveanchor-url http://...

Joins a room as an agent, lets a presenter join, subscribes to it as any viewer does, lets it speak a tone and interrupts it. Prints
how long joining took, size and rate of the pictures, and what was heard beside what was reported.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import uuid

import aiohttp
import numpy as np
from livekit import api, rtc
from livekit.agents.voice.avatar import DataStreamAudioOutput
from livekit.plugins.liveanchor import LiveAnchorAPI

RATE_HZ = 24_000
AVATAR, AGENT = "liveanchor-avatar", "agent"


def token(options: argparse.Namespace, identity: str, room: str, **attributes: str) -> str:
    made = api.AccessToken(options.api_key, options.api_secret).with_kind("agent").with_identity(identity)
    return made.with_grants(api.VideoGrants(room_join=True, room=room)).with_attributes(attributes).to_jwt()


class Viewer:
    """Counts what comes of the presenter's tracks."""

    def __init__(self, room: rtc.Room) -> None:
        self.loud_s, self.pictures, self.size = 0.0, 0, (0, 0)
        self._tasks: list[asyncio.Task[None]] = []
        room.on("track_subscribed", self._subscribed)

    def _subscribed(self, track: rtc.Track, *_: object) -> None:
        watch = self._hear if track.kind == rtc.TrackKind.KIND_AUDIO else self._see
        self._tasks.append(asyncio.create_task(watch(track)))

    async def _hear(self, track: rtc.Track) -> None:
        async for event in rtc.AudioStream(track, sample_rate=16_000, num_channels=1):
            blocks = np.abs(np.frombuffer(event.frame.data, np.int16).astype(int))
            self.loud_s += sum(one.max() > 200 for one in blocks[: len(blocks) // 160 * 160].reshape(-1, 160)) / 100

    async def _see(self, track: rtc.Track) -> None:
        async for event in rtc.VideoStream(track, format=rtc.VideoBufferType.RGBA):
            self.pictures, self.size = self.pictures + 1, (event.frame.width, event.frame.height)


async def run(options: argparse.Namespace) -> dict[str, object]:
    name = f"liveanchor-{uuid.uuid4().hex[:8]}"
    room = rtc.Room()
    viewer = Viewer(room)
    await room.connect(options.livekit_url, token(options, AGENT, name))
    async with aiohttp.ClientSession() as http:
        server = LiveAnchorAPI(options.liveanchor_url, options.liveanchor_key, http)
        presenter = token(options, AVATAR, name, **{"lk.publish_on_behalf": AGENT})
        began = time.monotonic()
        session = await server.join(options.livekit_url, presenter, None, 25)
        found: dict[str, object] = {"join_s": round(time.monotonic() - began, 3)}
        voice = DataStreamAudioOutput(
            room, destination_identity=AVATAR, wait_remote_track=rtc.TrackKind.KIND_VIDEO, wait_playback_start=True
        )
        tone = (1500 * np.sin(np.arange(RATE_HZ // 10) * 0.05)).astype(np.int16).tobytes()
        for _ in range(60):
            await voice.capture_frame(rtc.AudioFrame(tone, RATE_HZ, 1, RATE_HZ // 10))
        voice.flush()
        pictures, since = viewer.pictures, time.monotonic()
        await asyncio.sleep(3)
        found |= {"size": viewer.size, "fps": round((viewer.pictures - pictures) / (time.monotonic() - since), 1)}
        voice.clear_buffer()
        done = await voice.wait_for_playout()
        await asyncio.sleep(1)
        found |= {"interrupted": done.interrupted, "reported_s": done.playback_position, "heard_s": viewer.loud_s}
        await server.leave(session["session_id"])
    await room.disconnect()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("livekit-url", "api-key", "api-secret", "liveanchor-url"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--liveanchor-key")
    print(json.dumps(asyncio.run(run(parser.parse_args()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
