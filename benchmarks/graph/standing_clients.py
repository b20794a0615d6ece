"""Many viewers in one process who stand up again where their session's host died, as the page does.

    python -m benchmarks.graph.standing_clients --url http://127.0.0.1:8000 --count 4 --speech speech.wav

A viewer to whom no picture came for 1.2 s asks for its session, each time a second after it last asked; where the answer is 404
or 410, or twice nobody answers, it makes a new offer with the same presenter, seed and settings, at once and then after 1, 2, 4,
8 and 16 s. Twice a second it prints one JSON object with what is new: `viewers`, each with `session_id`, `pictures_at` and
`drawn_at` (when pictures were complete, and when its session's renderer was seen to have answered, monotonic seconds of this
machine), `voice_gaps` (when the voice went away, for how many seconds), `told` (when its session's quality became what),
`inserted_ms` (silence put into its microphone so far) and `lost`, whether the viewer gave up. It runs until it is told to end
(SIGTERM).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.graph.light_clients import LightViewer
from kernels.arrays import F32
from pipeline.media.audio_in import decode_audio
from pipeline.webrtc.rtc_patches import apply_patches

SILENT_S: Final = 1.2
"""Seconds without a packet after which the session is asked for; as on the page."""
ASK_EVERY_S: Final = 1.0
MAX_UNHEARD: Final = 2
"""Questions in a row that reached nobody; as on the page."""
LEAVE_S: Final = 5.0
TRIES_AFTER_S: Final = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
LOOK_EVERY_S: Final = 0.1
LOOK_UNTIL_S: Final = 0.3
"""A viewer without pictures for so long is not looked after: only what the page asks may tell the service that a host died."""
TELL_EVERY_S: Final = 0.5


@dataclass
class News:
    """What happened to one viewer since it was last told."""

    pictures_at: list[float] = field(default_factory=list)
    drawn_at: list[float] = field(default_factory=list)
    voice_gaps: list[tuple[float, float]] = field(default_factory=list)
    told: list[tuple[float, str]] = field(default_factory=list)


class StandingViewer:
    """A viewer that makes a new offer where its session is gone.

    Args:
        speech: Microphone, float32 (n,), 16 kHz; it is spoken again and again.
        fields: Fields of every offer.
        clock: Monotonic seconds between questions.
        pause: Waits for some seconds between questions.
    """

    def __init__(
        self,
        speech: F32,
        fields: dict[str, Any],
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._clock, self._pause = clock, pause
        self._speech, self._fields = speech, fields
        self._now = LightViewer(speech, fields, loops=True)
        self._news = News()
        self._told_pictures = self._told_gaps = 0
        self._drawn = 0
        self._quality = "full"
        self._inserted_ms = 0.0
        self._leaving: set[asyncio.Task[None]] = set()
        self.lost = False

    async def run(self, http: httpx.AsyncClient, over: asyncio.Event) -> None:
        """Watch until it is over, or nobody serves."""
        self.lost = not await self._stand(http, over)
        while not over.is_set() and not self.lost:
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), LOOK_EVERY_S)
            silent = time.monotonic() - max(self._now.last_picture_at, self._now.connected_at)
            if silent < LOOK_UNTIL_S:
                await self._look(http)
            elif silent >= SILENT_S and await self._is_gone(http, over):
                self._leave(http)
                self.lost = not await self._stand(http, over)
        self._leave(http)
        await asyncio.gather(*self._leaving)

    def news(self) -> dict[str, Any]:
        """What happened since the last call."""
        self._gather()
        found, self._news = self._news, News()
        return {
            "session_id": self._now.session_id,
            "pictures_at": found.pictures_at,
            "drawn_at": found.drawn_at,
            "voice_gaps": found.voice_gaps,
            "told": found.told,
            "inserted_ms": self._inserted_ms,
            "lost": self.lost,
        }

    def _gather(self) -> None:
        pictures, gaps = self._now.seen()["pictures_at"], self._now.voice_gaps
        self._news.pictures_at += pictures[self._told_pictures :]
        self._news.voice_gaps += gaps[self._told_gaps :]
        self._told_pictures, self._told_gaps = len(pictures), len(gaps)

    async def _stand(self, http: httpx.AsyncClient, over: asyncio.Event) -> bool:
        for wait_s in TRIES_AFTER_S:
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), wait_s)
            if over.is_set():
                return False
            self._now = LightViewer(self._speech, self._fields, loops=True, heard_at=self._now.heard_at)
            self._told_pictures = self._told_gaps = self._drawn = 0
            with suppress(httpx.HTTPError, TimeoutError):
                if await self._now.connect(http) < 400:
                    return True
            await self._now.close()
        return False

    async def _look(self, http: httpx.AsyncClient) -> None:
        """Note whether the session's renderer has answered since the last look."""
        try:
            answer = await http.get(f"/stream/webrtc/{self._now.session_id}/stats", timeout=ASK_EVERY_S)
        except httpx.HTTPError:
            return
        if not answer.is_success:
            return
        numbers = answer.json()
        now = time.monotonic()
        drawn = numbers["stage_calls"].get("renderer", 0) - numbers["stage_failures"].get("renderer", 0)
        if drawn > self._drawn:
            self._news.drawn_at.append(now)
        self._drawn = drawn
        self._inserted_ms = float(numbers["input_inserted_ms"])
        if numbers["quality"] != self._quality:
            self._quality = str(numbers["quality"])
            self._news.told.append((now, self._quality))

    async def _is_gone(self, http: httpx.AsyncClient, over: asyncio.Event) -> bool:
        """Ask for the session until it is known to be gone, or pictures come again."""
        unheard, since = 0, self._now.last_picture_at
        while not over.is_set() and self._now.last_picture_at == since:
            asked_at = self._clock()
            try:
                answer = await http.get(f"/stream/webrtc/{self._now.session_id}/stats", timeout=ASK_EVERY_S)
            except httpx.HTTPError:
                unheard += 1
            else:
                unheard = 0
                if answer.status_code in (404, 410):
                    return True
            if unheard >= MAX_UNHEARD:
                return True
            await self._pause(max(0.0, asked_at + ASK_EVERY_S - self._clock()))
        return False

    def _leave(self, http: httpx.AsyncClient) -> None:
        """Hang up, without waiting for a host that may be dead."""
        self._gather()

        async def leave(viewer: LightViewer) -> None:
            with suppress(httpx.HTTPError, TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await viewer.leave(http)

        leaving = asyncio.create_task(leave(self._now))
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)


async def watch(url: str, count: int, speech: F32, fields: dict[str, Any]) -> None:
    """All viewers of this process at once, until SIGTERM."""
    apply_patches()
    over = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, over.set)
    viewers = [StandingViewer(speech, fields) for _ in range(count)]
    async with httpx.AsyncClient(base_url=url, timeout=15) as http:
        watching = asyncio.gather(*(one.run(http, over) for one in viewers))
        while not watching.done():
            await asyncio.wait((watching,), timeout=TELL_EVERY_S)
            print(json.dumps({"viewers": [one.news() for one in viewers]}), flush=True)
        await watching


def main(arguments: list[str] | None = None) -> int:
    """Run some viewers and print what they see."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--speech", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args(arguments)
    fields = {"fps": 25, "seed": chosen.seed}
    asyncio.run(watch(chosen.url, chosen.count, decode_audio(chosen.speech).pcm, fields))
    return 0


if __name__ == "__main__":
    sys.exit(main())
