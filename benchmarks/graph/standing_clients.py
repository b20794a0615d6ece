"""Many viewers in one process who stand up again where their session's host died, as the page does.

    python -m benchmarks.graph.standing_clients --url http://127.0.0.1:8000 --count 4 --seconds 30 --speech speech.wav

A viewer to whom no packet came for 1.2 s asks for its session, every 0.5 s; where nobody answers, or the answer is 404, it makes a
new offer with the same presenter, seed and settings, at once and then after 1, 2, 4 and 8 s. Prints one JSON object: `viewers`,
each with the ids of its sessions (`session_ids`) and with `pictures_at`, the moments when its pictures were complete (monotonic
seconds of this machine, over all its sessions), and `lost`, how many viewers gave up.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.graph.light_clients import LightViewer
from kernels.arrays import F32
from pipeline.media.audio_in import decode_audio
from pipeline.webrtc.rtc_patches import apply_patches

SILENT_S: Final = 1.2
"""Seconds without a packet after which the session is asked for; as on the page."""
ASK_EVERY_S: Final = 0.5
TRIES_AFTER_S: Final = (0.0, 1.0, 2.0, 4.0, 8.0)


class StandingViewer:
    """A viewer that makes a new offer where its session is gone.

    Args:
        speech: Microphone, float32 (n,), 16 kHz.
        fields: Fields of every offer.
    """

    def __init__(self, speech: F32, fields: dict[str, Any]) -> None:
        self._speech, self._fields = speech, fields
        self._now = LightViewer(speech, fields)
        self._session_ids: list[str] = []
        self._pictures_at: list[float] = []
        self.lost = False

    async def run(self, http: httpx.AsyncClient, ends: float) -> dict[str, Any]:
        """Watch until a moment (monotonic seconds); what was seen."""
        if not await self._stand(http):
            self.lost = True
            return self._report()
        while time.monotonic() < ends:
            await asyncio.sleep(ASK_EVERY_S / 2)
            silent = time.monotonic() - max(self._now.last_picture_at, self._now.connected_at)
            if silent < SILENT_S or await self._is_there(http):
                continue
            await self._leave(http)
            if not await self._stand(http):
                self.lost = True
                return self._report()
        await self._leave(http)
        return self._report()

    async def _stand(self, http: httpx.AsyncClient) -> bool:
        for wait_s in TRIES_AFTER_S:
            await asyncio.sleep(wait_s)
            self._now = LightViewer(self._speech, self._fields)
            with suppress(httpx.HTTPError, TimeoutError):
                if await self._now.connect(http) < 400:
                    self._session_ids.append(self._now.session_id)
                    return True
            await self._now.close()
        return False

    async def _is_there(self, http: httpx.AsyncClient) -> bool:
        try:
            answer = await http.get(f"/stream/webrtc/{self._now.session_id}/stats", timeout=ASK_EVERY_S)
        except httpx.HTTPError:
            return False
        return answer.is_success

    async def _leave(self, http: httpx.AsyncClient) -> None:
        with suppress(httpx.HTTPError):  # its host may be dead
            await self._now.leave(http)
        self._pictures_at += self._now.seen()["pictures_at"]

    def _report(self) -> dict[str, Any]:
        return {"session_ids": self._session_ids, "pictures_at": self._pictures_at}


async def watch(url: str, count: int, seconds: float, speech: F32, fields: dict[str, Any]) -> dict[str, Any]:
    """All viewers of this process at once, for so many seconds."""
    apply_patches()
    viewers = [StandingViewer(speech, fields) for _ in range(count)]
    async with httpx.AsyncClient(base_url=url, timeout=15) as http:
        ends = time.monotonic() + seconds
        seen = await asyncio.gather(*(one.run(http, ends) for one in viewers))
    return {"viewers": seen, "lost": sum(one.lost for one in viewers)}


def main(arguments: list[str] | None = None) -> int:
    """Run some viewers and print what they saw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--speech", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=7)
    chosen = parser.parse_args(arguments)
    fields = {"fps": 25, "seed": chosen.seed}
    found = asyncio.run(watch(chosen.url, chosen.count, chosen.seconds, decode_audio(chosen.speech).pcm, fields))
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
