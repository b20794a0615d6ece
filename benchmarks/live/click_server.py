"""Real live sessions over `ClickStages`, in one process: for `benchmarks.live.client` to measure lips against voice.

Microphone, drift, session, encoder and transport are the product's; only the stages are not. It speaks `POST /stream/webrtc/offer`.
"""

from __future__ import annotations

import argparse
import sys
import uuid
from typing import Any

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from benchmarks.live.click_stages import ClickStages, grey_card
from deployments.config import SessionHostSettings
from deployments.host.live_calls import LiveOffer
from deployments.host.live_sessions import LiveSessions
from pipeline.live.contracts import Drive
from pipeline.stages import Stages


class Offer(BaseModel):
    """What the product's offer begins with; further fields are ignored."""

    sdp: str
    type: str = "offer"


class ClickServer:
    """Sessions driven by their clients' microphones."""

    def __init__(self) -> None:
        self._stages = ClickStages()
        self._sessions: LiveSessions | None = None
        self.app = FastAPI()
        self.app.post("/stream/webrtc/offer")(self.offer)
        self.app.get("/usage")(self.usage)

    async def offer(self, offer: Offer) -> dict[str, Any]:
        """Begin a session; `stamp_holds` says what the stamp in its pictures means."""
        if self._sessions is None:
            avatar = grey_card()
            settings = SessionHostSettings.model_validate(
                {"encoder": {"prefer": "x264"}, "live": {"idle_ttl_s": 1e6, "max_duration_s": 1e6}}
            )
            self._sessions = LiveSessions(settings, self._same, lambda _: avatar, self._stages)
        answer = await self._sessions.open(LiveOffer(uuid.uuid4().hex, offer.sdp, None, 25, Drive.MIC, True))
        return {
            "sdp": answer.sdp,
            "type": "answer",
            "session_id": answer.session_id,
            "stamp_at": [0, 0],
            "stamp_holds": "click",
        }

    async def usage(self) -> dict[str, Any]:
        """What every session counts."""
        return {"sessions": [] if self._sessions is None else self._sessions.all_stats()}

    async def close(self) -> None:
        """End every session."""
        if self._sessions is not None:
            await self._sessions.close()

    async def _same(self, session_id: str) -> Stages:
        return self._stages


def main(arguments: list[str] | None = None) -> int:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8912)
    options = parser.parse_args(arguments)
    uvicorn.run(ClickServer().app, host="127.0.0.1", port=options.port, log_level="warning")
    return 0


if __name__ == "__main__":
    sys.exit(main())
