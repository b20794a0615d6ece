"""One live session of a LiveAnchor server that speaks what is pushed: HTTP, WebSocket and WebRTC, without Pipecat."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import numpy as np
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError

from pipecat_liveanchor.errors import LiveAnchorServiceError, error_of
from pipecat_liveanchor.lockstep import Lockstep, Samples, Step
from pipecat_liveanchor.rtp_clock import RtpClock

CONNECT_S: Final = 20.0
ANSWER_S: Final = 5.0
REPORT_S: Final = 4.0
"""Sender reports come every 0.5 to 1.5 s."""
CLOSE_S: Final = 3.0
POLL_S: Final = 0.02


@dataclass(frozen=True)
class Picture:
    """One picture.

    Attributes:
        rgb: Bytes of `height` x `width` x 3.
        width: Pixels.
        height: Pixels.
    """

    rgb: bytes
    width: int
    height: int


class LiveAnchorSession:
    """Pushes speech to a presenter and plays what comes back, picture and voice in step.

    Args:
        base_url: Address of the server.
        http: Makes the requests; not closed here.
        on_step: Gets every step, 25 a second, from the moment that both streams have a clock.
        on_event: Gets every event of the session as the server sends it, such as `{"name": "speaking_finished", ...}`.
        on_lost: Called once where the session ends other than by `close`.
        api_key: Key of the server; None where it needs none.
        avatar_id: A registered presenter; None for the default one.
    """

    def __init__(
        self,
        base_url: str,
        http: aiohttp.ClientSession,
        on_step: Callable[[Step], Awaitable[None]],
        on_event: Callable[[dict[str, Any]], None],
        on_lost: Callable[[LiveAnchorServiceError], None],
        *,
        api_key: str | None = None,
        avatar_id: str | None = None,
    ) -> None:
        self._base, self._http = base_url.rstrip("/"), http
        self._on_step, self._on_event, self._on_lost = on_step, on_event, on_lost
        self._headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._avatar_id = avatar_id
        self._peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._clocks: dict[str, RtpClock] = {}
        self._steps = Lockstep(asyncio.get_running_loop().time)
        self._socket: aiohttp.ClientWebSocketResponse | None = None
        self._rate = 0
        self._audio_url = ""
        self._answers: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False
        self._epoch, self._cut_at_s = 0, None
        self._event_came = asyncio.Event()
        self.session_id = ""
        self.width = 0
        self.height = 0

    async def __aenter__(self) -> Self:
        """Begin the session; see `start`."""
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        """End the session."""
        await self.close()

    async def start(self) -> None:
        """Connect, and wait until both streams have a clock.

        Raises:
            LiveAnchorServiceError: The server refuses, or no connection comes about.
        """
        channel = self._peer.createDataChannel("events")
        channel.on("message", self._event)
        for kind in ("video", "audio"):
            receiver = self._peer.addTransceiver(kind, direction="recvonly").receiver
            self._clocks[kind] = RtpClock(receiver, kind)
        self._peer.on("track", lambda track: self._run(self._drain(track)))
        connected = asyncio.Event()
        self._peer.on("connectionstatechange", lambda: self._state_changed(connected))
        await self._peer.setLocalDescription(await self._peer.createOffer())
        body = {"sdp": self._peer.localDescription.sdp, "type": "offer", "drive": "push", "fps": 25}
        answer = await self._post(
            "/stream/webrtc/offer", body | ({"avatar_id": self._avatar_id} if self._avatar_id else {})
        )
        self.session_id, self._audio_url = answer["session_id"], answer["audio_url"]
        self.width, self.height = answer["width"], answer["height"]
        await self._peer.setRemoteDescription(RTCSessionDescription(answer["sdp"], answer["type"]))
        try:
            async with asyncio.timeout(CONNECT_S):
                await connected.wait()
            async with asyncio.timeout(REPORT_S):
                while not all(clock.known for clock in self._clocks.values()):  # noqa: ASYNC110  # counted in a callback
                    await asyncio.sleep(POLL_S)
        except TimeoutError as error:
            raise LiveAnchorServiceError("no media came", code="connect_timeout") from error
        self._run(self._play())

    async def push(self, pcm: bytes, sample_rate: int) -> None:
        """Say more of the current utterance, or begin one.

        Args:
            pcm: Signed 16 bit, little endian, mono.
            sample_rate: Hz, the same for the whole session.

        Raises:
            LiveAnchorServiceError: The server does not take it.
            ValueError: Another rate than before.
        """
        if self._rate and sample_rate != self._rate:
            raise ValueError(f"sample_rate: {sample_rate}, allowed is {self._rate}, as before")
        socket = await self._socket_for(sample_rate)
        await self._sent(socket.send_bytes(pcm))

    async def end(self) -> None:
        """End the utterance: what was pushed is spoken to its end."""
        if self._socket is not None:
            await self._sent(self._socket.send_json({"type": "end"}))

    async def interrupt(self) -> float:
        """Stop speaking: nothing of the old speech is played from the call on.

        Returns:
            Seconds of the utterance that the server had sent; 0 where it was silent.

        Raises:
            LiveAnchorServiceError: The server does not answer.
        """
        self._steps.cut()
        place_s: float | None = None
        try:
            if self._socket is None:
                return 0.0
            while not self._answers.empty():
                self._answers.get_nowait()
            await self._sent(self._socket.send_json({"type": "interrupt"}))
            async with asyncio.timeout(ANSWER_S):
                answer = await self._answers.get()
                while answer["epoch"] > self._epoch:  # the event of it says when that was, on the clock of the media
                    await self._event_came.wait()
            place_s = self._cut_at_s
            return float(answer["position_s"])
        except TimeoutError as error:
            raise LiveAnchorServiceError("an interruption was not answered", code="timeout") from error
        finally:
            self._steps.resume(place_s)

    def step_of(self, event: dict[str, Any]) -> int:
        """Step in which an event happened; 0 where the event does not say so."""
        return self._steps.step_of(event["ntp_s"]) if "ntp_s" in event else 0

    async def close(self) -> None:
        """End the session on both sides; harmless when repeated."""
        if self._closed:
            return
        self._closed = True
        with suppress(aiohttp.ClientError, TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                if self._socket is not None:
                    await self._socket.close()
                if self.session_id:
                    url = f"{self._base}/stream/webrtc/{self.session_id}"
                    async with self._http.delete(url, headers=self._headers):
                        pass
        with suppress(TimeoutError):  # aiortc waits for its own tasks, which a loop that ends has cancelled
            async with asyncio.timeout(CLOSE_S):
                await self._peer.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            async with self._http.post(f"{self._base}{path}", json=body, headers=self._headers) as answer:
                if answer.status >= 400:
                    raise error_of(answer.status, await answer.text(), answer.headers.get("Retry-After"))
                found: dict[str, Any] = await answer.json()
                return found
        except (aiohttp.ClientError, TimeoutError) as error:
            raise LiveAnchorServiceError(str(error) or type(error).__name__) from error

    async def _socket_for(self, sample_rate: int) -> aiohttp.ClientWebSocketResponse:
        if self._socket is None:
            url = f"{self._base}{self._audio_url}?sample_rate={sample_rate}"
            try:
                self._socket = await self._http.ws_connect(url, headers=self._headers, heartbeat=10.0)
            except (aiohttp.ClientError, TimeoutError) as error:
                raise LiveAnchorServiceError(str(error)) from error
            self._rate = sample_rate
            self._run(self._read(self._socket))
        return self._socket

    async def _sent(self, sending: Awaitable[None]) -> None:
        try:
            await sending
        except (aiohttp.ClientError, ConnectionError) as error:
            raise LiveAnchorServiceError(str(error) or "the WebSocket is closed") from error

    async def _read(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            if message.type is aiohttp.WSMsgType.TEXT:
                said = json.loads(message.data)
                if said.get("type") == "interrupted":
                    self._answers.put_nowait(said)
                elif said.get("type") == "error":
                    retryable = socket.close_code != 1008
                    self._lose(LiveAnchorServiceError(said["detail"], code=said["code"], retryable=retryable))
        self._lose(LiveAnchorServiceError("the server closed the WebSocket", code="session_ended"))

    async def _drain(self, track: MediaStreamTrack) -> None:
        clock = self._clocks[track.kind]
        with suppress(MediaStreamError):
            while True:
                frame: Any = await track.recv()
                place_s = clock.place_s(frame.pts)
                if place_s is None or not all(one.known for one in self._clocks.values()):
                    continue
                if track.kind == "audio":
                    self._steps.hear(place_s, _mono(frame))
                else:
                    self._steps.see(place_s, await asyncio.to_thread(_rgb, frame))

    async def _play(self) -> None:
        while True:
            await asyncio.sleep(self._steps.wait_s())
            if (step := self._steps.take()) is not None:
                await self._on_step(step)

    def _event(self, message: str | bytes) -> None:
        event = json.loads(message)
        if event["name"] == "interrupted":
            self._epoch, self._cut_at_s = event["epoch"], event.get("ntp_s")
            self._event_came.set()
            self._event_came.clear()
        self._on_event(event)
        if event["name"] == "ended":
            self._lose(LiveAnchorServiceError(str(event.get("detail", "")), code="session_ended"))

    def _state_changed(self, connected: asyncio.Event) -> None:
        if self._peer.connectionState == "connected":
            connected.set()
        elif self._peer.connectionState in ("failed", "closed"):
            self._lose(LiveAnchorServiceError("the connection is gone", code="peer_lost"))

    def _lose(self, error: LiveAnchorServiceError) -> None:
        if not self._closed:
            callback, self._on_lost = self._on_lost, lambda _: None
            callback(error)

    def _run(self, work: Any) -> None:
        self._tasks.append(asyncio.ensure_future(work))


def _mono(frame: Any) -> Samples:
    """One channel of a decoded Opus frame, which holds the same voice in both."""
    samples: Samples = np.asarray(frame.to_ndarray(), np.int16).reshape(-1, len(frame.layout.channels))
    return np.ascontiguousarray(samples[:, 0])


def _rgb(frame: Any) -> Picture:
    return Picture(frame.to_ndarray(format="rgb24").tobytes(), frame.width, frame.height)
