"""How soon a text is heard and seen, by a client in a process of its own; prints one JSON object.

A time begins just before `POST .../speak` is sent. It ends when the first voice packet arrives whose 20 ms are louder than
-40 dBFS (RMS), or when the first of two pictures with an open mouth is decoded. Both are upper bounds of what CASES define,
which ends where a packet is sent. Between texts the presenter is silent for two seconds. Every text is also spoken the way it was
before there was text: the client lets the same voice speak all of it, then sends the file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any, Final

import av
import httpx
import numpy as np
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError

from benchmarks.live.interrupt import VoicePackets
from benchmarks.live.mouth import LATEST_S, REST_S, Apertures, mesh_apertures, openings
from kernels.arrays import F32, U8
from pipeline.voices.choice import find_voice
from pipeline.voices.sentences import sentences
from pipeline.voices.settings import VoiceSettings
from pipeline.voices.speaking import speak
from pipeline.voices.voice import Voice
from pipeline.voices.whole_text import speak_whole
from pipeline.webrtc.rtc_patches import apply_patches

LEVEL: Final = 0.01
"""RMS of a packet that is heard: -40 dBFS."""
QUIET_S: Final = 2.0
LISTEN_S: Final = 3.0
WAIT_S: Final = 30.0
PICTURES: Final = round((REST_S + LATEST_S + 1.0) * 25)
TEXTS: Final = (
    "Good evening. Here is the news of the day.",
    "Many people came to see the new bridge. It opens to traffic tomorrow morning.",
    "Prices fell again last month, for the third time in a row. Analysts had expected as much.",
    "Thank you for calling, my name is Anna. How may I help you today?",
    "Unfortunately your order has been delayed by two days. We are sorry about that.",
    "The weather stays mild until Friday, when heavy rain will reach the coast. Temperatures drop at the weekend.",
    "Please have your booking number at hand. It begins with two letters.",
    "Before the meeting begins, let me show you what has changed since last week. There are three points.",
    "Both teams scored late in the game. It ended two to two.",
    "Now to the markets. Shares closed a little higher than yesterday.",
)


def is_heard(samples: F32) -> bool:
    """Whether a packet's samples, -1..1, are louder than -40 dBFS."""
    return float(np.sqrt(np.mean(np.square(samples)))) > LEVEL


class Viewer:
    """Watches and listens to one session.

    Args:
        http: Talks to the service.
        apertures: Measures mouths in pictures.
    """

    def __init__(self, http: httpx.AsyncClient, apertures: Apertures) -> None:
        apply_patches()
        self._http, self._apertures = http, apertures
        self._pc = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._pc.addTransceiver("video", direction="recvonly")
        self._voice = VoicePackets(self._pc.addTransceiver("audio", direction="recvonly").receiver, is_heard)
        self._pictures: deque[tuple[float, U8]] = deque(maxlen=PICTURES)
        self._drains: list[asyncio.Task[None]] = []
        self._pc.on("track", lambda track: self._drains.append(asyncio.ensure_future(self._drain(track))))
        self.path = ""

    async def begin(self, avatar_id: str) -> None:
        """Open a session that speaks what is pushed."""
        await self._pc.setLocalDescription(await self._pc.createOffer())
        body = {"sdp": self._pc.localDescription.sdp, "drive": "push"} | ({"avatar_id": avatar_id} if avatar_id else {})
        answer = (await self._http.post("/stream/webrtc/offer", json=body)).raise_for_status().json()
        await self._pc.setRemoteDescription(RTCSessionDescription(answer["sdp"], answer["type"]))
        self.path = f"/stream/webrtc/{answer['session_id']}"

    async def end(self) -> None:
        """Close the session."""
        await self._http.delete(self.path)
        await self._pc.close()
        await asyncio.gather(*self._drains, return_exceptions=True)

    async def once(self, send: Callable[[], Awaitable[None]]) -> tuple[float, float | None]:
        """Milliseconds until something that is sent is heard, and until it is seen; None where no mouth was seen to open."""
        await self._until_quiet()
        first, began = len(self._voice.heard), time.monotonic()
        await send()
        async with asyncio.timeout(WAIT_S):
            while not (loud := [at for at, is_loud in self._voice.heard[first:] if is_loud]):  # noqa: ASYNC110  # counted elsewhere
                await asyncio.sleep(0.002)
        await asyncio.sleep(max(0.0, began + LISTEN_S - time.monotonic()))
        kept = [one for one in self._pictures if one[0] <= began + LATEST_S]
        (opened,) = await asyncio.to_thread(openings, kept, [began], self._apertures)
        return 1000 * (loud[0] - began), opened

    async def _until_quiet(self) -> None:
        async with asyncio.timeout(WAIT_S):
            while True:
                last = max((at for at, loud in self._voice.heard if loud), default=0.0)
                if self._pictures and time.monotonic() - last > QUIET_S:
                    return
                await asyncio.sleep(0.02)

    async def _drain(self, track: Any) -> None:
        try:
            while True:
                frame = await track.recv()
                if isinstance(frame, av.VideoFrame):
                    self._pictures.append((time.monotonic(), np.asarray(frame.to_ndarray(), np.uint8)))
        except MediaStreamError:
            return


async def first_piece_ms(voice: Voice, text: str) -> float:
    """Milliseconds that the voice alone takes for the first sound of a text."""
    began = time.perf_counter()
    async with aclosing(speak(voice, sentences(text, soon=True))) as pieces:
        await anext(pieces)
    return 1000 * (time.perf_counter() - began)


async def measure(url: str, count: int, avatar_id: str, weights: Path) -> dict[str, list[float | None]]:
    """Speak `count` texts, each as text and as a file."""
    voice = find_voice(VoiceSettings())
    await voice.warm()
    found: dict[str, list[float | None]] = {
        "sound_ms": [],
        "lip_ms": [],
        "file_sound_ms": [],
        "file_lip_ms": [],
        "voice_ms": [],
    }
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        viewer = Viewer(http, mesh_apertures(weights))
        await viewer.begin(avatar_id)

        async def send_text(text: str) -> None:
            (await http.post(f"{viewer.path}/speak", json={"text": text})).raise_for_status()

        async def send_file(text: str) -> None:
            spoken = await speak_whole(voice, text, 60.0)
            (await http.post(f"{viewer.path}/speak", files={"audio": spoken.wav})).raise_for_status()

        for number in range(-1, count):  # the first text is left out: the voice may still be loading
            text = TEXTS[number % len(TEXTS)]
            sound, lip = await viewer.once(lambda: send_text(text))  # noqa: B023  # called before the next one
            file_sound, file_lip = await viewer.once(lambda: send_file(text))  # noqa: B023  # called before the next one
            if number >= 0:
                rows = (sound, lip, file_sound, file_lip, await first_piece_ms(voice, text))
                for name, value in zip(found, rows, strict=True):
                    found[name].append(value)
        await viewer.end()
    await voice.close()
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--avatar-id", default="")
    parser.add_argument("--weights", type=Path, required=True, help="folder with the face mesh")
    options = parser.parse_args(arguments)
    print(json.dumps(asyncio.run(measure(options.url, options.count, options.avatar_id, options.weights))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
