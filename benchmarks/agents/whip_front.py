"""A small WHIP front for a Janus: what a streaming service puts before its SFU."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from fastapi import FastAPI, Request, Response

from benchmarks.agents.janus import JanusClient, janus_client
from kernels.errors import LiveAnchorError

TOKEN: Final = "stream-key"  # noqa: S105  # of a Janus that lives as long as a measurement
START_S: Final = 20.0


class WhipFront:
    """Takes publishers at `/whip` and hands them to the room of a Janus.

    Args:
        janus_url: The WebSocket of Janus.

    Attributes:
        published: Offers that were answered.
        deleted: Publishers that left by DELETE.
    """

    def __init__(self, janus_url: str) -> None:
        self._janus_url = janus_url
        self._janus: JanusClient | None = None
        self.published = 0
        self.deleted = 0

    async def serve(self, port: int, started: threading.Event, stop: threading.Event) -> None:
        """Serve on a port of 127.0.0.1 until `stop` is set."""
        api = FastAPI()
        api.add_api_route("/whip", self._publish, methods=["POST"])
        api.add_api_route("/whip/{handle}", self._leave, methods=["DELETE"])
        config = uvicorn.Config(api, port=port, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        async with janus_client(self._janus_url) as self._janus:
            await self._janus.make_room()
            serving = asyncio.create_task(server.serve())
            while not server.started:  # noqa: ASYNC110  # uvicorn has nothing to wait for
                await asyncio.sleep(0.01)
            started.set()
            await asyncio.to_thread(stop.wait)
            server.should_exit = True
            await serving

    async def _publish(self, request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {TOKEN}":
            return Response(status_code=401)
        if self._janus is None:
            return Response(status_code=503)
        handle = await self._janus.attach()
        try:
            answer = await self._janus.publish(handle, (await request.body()).decode())
        except LiveAnchorError:
            await self._janus.detach(handle)
            return Response(status_code=409)
        self.published += 1
        return Response(answer, 201, {"Location": f"whip/{handle}"}, "application/sdp")

    async def _leave(self, handle: int) -> Response:
        if self._janus is not None:
            await self._janus.detach(handle)
            self.deleted += 1
        return Response(status_code=200)


@contextmanager
def whip_front(janus_url: str, port: int) -> Iterator[WhipFront]:
    """A front in a thread of this process, with its room.

    Raises:
        LiveAnchorError: It does not start.
    """
    front, started, stop = WhipFront(janus_url), threading.Event(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(front.serve(port, started, stop)), name="whip-front")
    thread.start()
    try:
        if not started.wait(START_S):
            raise LiveAnchorError("the WHIP front did not start")
        yield front
    finally:
        stop.set()
        thread.join()
