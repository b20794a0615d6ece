"""The real application over real sessions on the test's own loop; its sessions join the rooms of `benchmarks.agents.rooms`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from benchmarks.agents.click_service import click_service
from benchmarks.agents.rooms import Listener, Rooms

IDENTITY = "liveanchor-avatar"


@dataclass
class Service:
    """A running service.

    Attributes:
        url: Its address.
        rooms: Where its sessions are.
    """

    url: str
    rooms: Rooms

    def listener(self) -> Listener:
        return Listener(self.rooms.joined[IDENTITY].local_participant)

    async def until(self, condition: Any) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110  # it happens in other tasks
                await asyncio.sleep(0.005)


@asynccontextmanager
async def service(folder: Path, **live: Any) -> AsyncIterator[Service]:
    rooms = Rooms()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("deployments.host.session_setup.load_rtc", lambda: rooms)
        app = click_service(folder, {"livekit_hosts": ("live.example",)} | live)
        server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical", lifespan="off"))
        serving = asyncio.ensure_future(server.serve())
        while not server.started:  # noqa: ASYNC110  # uvicorn has nothing to wait for
            await asyncio.sleep(0.01)
        try:
            yield Service(f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", rooms)
        finally:
            server.should_exit = True
            await serving
