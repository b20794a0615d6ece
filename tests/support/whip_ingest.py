"""A WHIP ingest (RFC 9725) of this process, made with aiortc, on the test's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import av
import uvicorn
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from fastapi import FastAPI, Request, Response

from pipeline.fetch.fetcher import Fetcher
from pipeline.publish.settings import PublishSettings


@dataclass
class WhipIngest:
    """What it does and what came.

    Attributes:
        token: What it wants as `Authorization: Bearer`; any where empty.
        refusals: Statuses that the next offers are answered with, in order, each with the headers that go with it.
        codecs: Kinds of media that it takes.
        body: What it answers in place of a session description; empty for a real one.
    """

    token: str = ""
    refusals: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    takes: tuple[str, ...] = ("video", "audio")
    body: str = ""
    port: int = 0
    offers: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    peers: list[RTCPeerConnection] = field(default_factory=list)
    pictures: list[av.VideoFrame] = field(default_factory=list)
    sound: list[av.AudioFrame] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/app/whip"

    @property
    def settings(self) -> PublishSettings:
        """Settings that let it be reached."""
        return PublishSettings(networks=("127.0.0.0/8",), ports=(self.port,))

    @property
    def fetcher(self) -> Fetcher:
        return Fetcher(self.settings)

    async def post(self, request: Request) -> Response:
        self.paths.append(request.url.path)
        self.tokens.append(request.headers.get("authorization", ""))
        self.offers.append((await request.body()).decode())
        assert request.headers["content-type"] == "application/sdp"
        if self.refusals:
            status, headers = self.refusals.pop(0)
            return Response(status_code=status, headers=headers)
        if self.token and self.tokens[-1] != f"Bearer {self.token}":
            return Response(status_code=401)
        answer = self.body or await self.answer(self.offers[-1])
        return Response(answer, 201, {"Location": f"session/{len(self.peers)}"}, "application/sdp")

    async def answer(self, offer: str) -> str:
        """A peer's session description."""
        peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        peer.on("track", lambda track: self.tasks.append(asyncio.get_running_loop().create_task(self._drain(track))))
        self.peers.append(peer)
        await peer.setRemoteDescription(RTCSessionDescription(offer, "offer"))
        for transceiver in peer.getTransceivers():
            if transceiver.kind not in self.takes:
                transceiver.direction = "inactive"
        await peer.setLocalDescription(await peer.createAnswer())
        return str(peer.localDescription.sdp)

    async def delete(self, request: Request) -> Response:
        self.deleted.append(request.url.path)
        self.tokens.append(request.headers.get("authorization", ""))
        return Response(status_code=200)

    async def close(self) -> None:
        for peer in self.peers:
            await peer.close()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    async def _drain(self, track: MediaStreamTrack) -> None:
        kept: list[Any] = self.pictures if track.kind == "video" else self.sound
        with suppress(MediaStreamError):
            while True:
                kept.append(await track.recv())


@asynccontextmanager
async def whip_ingest(**more: Any) -> AsyncIterator[WhipIngest]:
    ingest = WhipIngest(**more)
    api = FastAPI()
    api.add_api_route("/app/{name}", ingest.post, methods=["POST"])
    api.add_api_route("/app/session/{number}", ingest.delete, methods=["DELETE"])
    server = uvicorn.Server(
        uvicorn.Config(api, port=0, log_level="critical", lifespan="off", timeout_graceful_shutdown=1)
    )
    task = asyncio.get_running_loop().create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  # uvicorn has nothing to wait for
        await asyncio.sleep(0.005)
    ingest.port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield ingest
    finally:
        await ingest.close()
        server.should_exit = True
        await task
