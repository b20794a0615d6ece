"""LiveKit rooms without a server: participants of one process; tracks, frames and sources are LiveKit's own."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import numpy as np
from livekit import rtc

AGENT = rtc.ParticipantKind.PARTICIPANT_KIND_AGENT
NO_SUCH_METHOD = 1400


def access_token(identity: str = "avatar", room: str = "studio", agent: str = "agent", **claims: Any) -> str:
    """A token that nobody signed."""
    attributes = {"lk.publish_on_behalf": agent} if agent else {}
    grants = {"sub": identity, "video": {"room": room, "roomJoin": True}, "attributes": attributes, "kind": "agent"}
    parts = [json.dumps(one).encode() for one in ({"alg": "HS256"}, grants | claims, "signature")]
    return ".".join(base64.urlsafe_b64encode(one).decode().rstrip("=") for one in parts)


class Rooms:
    """All rooms of a server that is not there. Stands in for the module `livekit.rtc`.

    Attributes:
        joined: Every participant that is in the room, by identity.
        refuses: What a connection is answered with.
        stalls: Connections never come about.
    """

    def __init__(self) -> None:
        self.joined: dict[str, FakeRoom] = {}
        self.refuses = ""
        self.stalls = False

    def __getattr__(self, name: str) -> Any:
        return getattr(rtc, name)

    @property
    def VideoSource(self) -> type[RecordingSource]:  # noqa: N802
        """A source that keeps what it is given."""
        return RecordingSource

    def Room(self) -> FakeRoom:  # noqa: N802  # the name that LiveKit gives it
        """A participant that has not joined yet."""
        return FakeRoom(self)

    def tell_others(self, identity: str, event: str, *values: Any) -> None:
        """Emit an event to everybody but one participant."""
        for one in [room for name, room in self.joined.items() if name != identity]:
            one.emit(event, *values)

    def agent(self, identity: str = "agent") -> FakeRoom:
        """An agent that is in the room already."""
        room = FakeRoom(self)
        room.join(identity, {})
        return room


class RecordingSource(rtc.VideoSource):
    """Keeps what is handed to LiveKit: its own stream of a local track cannot read NV12 (1.1.21 panics)."""

    def __init__(self, *size: int) -> None:
        super().__init__(*size)
        self.frames: list[Any] = []

    def capture_frame(self, frame: Any, **more: Any) -> None:
        """Keep a copy and hand it on."""
        self.frames.append(rtc.VideoFrame(frame.width, frame.height, frame.type, bytes(frame.data)))
        super().capture_frame(frame, **more)


class FakeRoom(rtc.EventEmitter[str]):
    """One participant's view of the room."""

    def __init__(self, rooms: Rooms) -> None:
        super().__init__()
        self._rooms = rooms
        self.name = "studio"
        self.local_participant = FakeParticipant(rooms)
        self.handlers: dict[str, Any] = {}

    @property
    def remote_participants(self) -> dict[str, Any]:
        """Everybody else, by identity."""
        me = self.local_participant.identity
        return {one: room.local_participant for one, room in self._rooms.joined.items() if one != me}

    def isconnected(self) -> bool:
        """Whether it has joined."""
        return self.local_participant.identity in self._rooms.joined

    def join(self, identity: str, attributes: dict[str, str]) -> None:
        """Become a participant."""
        self.local_participant.identity, self.local_participant.attributes = identity, attributes
        self._rooms.joined[identity] = self
        self._rooms.tell_others(identity, "participant_connected", self.local_participant)
        self._rooms.tell_others(identity, "participant_active", self.local_participant)

    async def connect(self, url: str, token: str, options: Any) -> None:
        """Join as a token says, or fail as told."""
        if self._rooms.refuses:
            raise rtc.ConnectError(self._rooms.refuses)
        if self._rooms.stalls:
            await asyncio.sleep(3600)
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        self.join(claims["sub"], claims["attributes"])

    async def disconnect(self) -> None:
        """Leave."""
        if self._rooms.joined.pop(self.local_participant.identity, None) is not None:
            self._rooms.tell_others("", "participant_disconnected", self.local_participant)

    def register_byte_stream_handler(self, topic: str, handler: Any) -> None:
        """Take streams of a topic."""
        self.handlers[topic] = handler

    def unregister_byte_stream_handler(self, topic: str) -> None:
        """Take them no more."""
        self.handlers.pop(topic, None)

    def register_text_stream_handler(self, topic: str, handler: Any) -> None:
        """Take texts of a topic."""
        self.handlers[topic] = handler

    def unregister_text_stream_handler(self, topic: str) -> None:
        """Take them no more."""
        self.handlers.pop(topic, None)


class FakeParticipant:
    """What is asked of LiveKit's local and remote participants."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self.identity, self.kind = "", AGENT
        self.attributes: dict[str, str] = {}
        self.state = rtc.ParticipantState.PARTICIPANT_STATE_ACTIVE
        self._rpc_handlers: dict[str, Any] = {}
        self.published: dict[str, tuple[Any, Any]] = {}

    @property
    def track_publications(self) -> dict[str, Any]:
        """What it publishes."""
        return {one: SimpleNamespace(kind=track.kind, sid=one) for one, (track, _) in self.published.items()}

    def register_rpc_method(self, method: str, handler: Any) -> None:
        """Answer calls of a method."""
        self._rpc_handlers[method] = handler

    async def perform_rpc(self, *, destination_identity: str, method: str, payload: str) -> str:
        """Call a method of another participant."""
        room = self._rooms.joined.get(destination_identity)
        handler = None if room is None else room.local_participant._rpc_handlers.get(method)
        if handler is None:
            raise rtc.RpcError(NO_SUCH_METHOD, "Method not supported at destination")
        answer = handler(rtc.RpcInvocationData("1", self.identity, payload, 5.0))
        return str(await answer if inspect.isawaitable(answer) else answer)

    async def publish_track(self, track: Any, options: Any) -> Any:
        """Publish a track."""
        self.published[track.name] = track, options
        self._rooms.tell_others(self.identity, "track_published", self.track_publications[track.name], self)
        return SimpleNamespace(track=track, wait_for_subscription=lambda: asyncio.sleep(0))

    async def set_attributes(self, attributes: dict[str, str]) -> None:
        """Change what others read of it."""
        self.attributes |= attributes

    async def publish_transcription(self, transcription: Any) -> None:
        """Nobody reads along."""

    async def stream_text(self, **options: Any) -> Any:
        """Begin a text that nobody reads."""
        return FakeReader(options.get("attributes") or {})

    async def stream_bytes(self, name: str, *, topic: str, destination_identities: list[str], attributes: Any) -> Any:
        """Begin a stream to others."""
        reader = FakeReader(attributes)
        for one in destination_identities:
            self._rooms.joined[one].handlers[topic](reader, self.identity)
        return reader


class FakeReader:
    """Both ends of a byte stream."""

    def __init__(self, attributes: dict[str, str]) -> None:
        self.info = SimpleNamespace(attributes=attributes)
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.closed = False

    async def write(self, data: bytes) -> None:
        """Send a piece."""
        self._pieces.put_nowait(data)

    async def aclose(self) -> None:
        """End it."""
        self._pieces.put_nowait(None)

    def close(self) -> None:
        """The reader wants no more."""
        self.closed = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        data = await self._pieces.get()
        if data is None:
            raise StopAsyncIteration
        return data


class Listener:
    """Hears what a participant publishes, by LiveKit's own stream of its track.

    Attributes:
        blocks: Largest sample of every 10 ms that were played so far.
    """

    def __init__(self, participant: FakeParticipant) -> None:
        self.blocks: list[int] = []
        voice, _ = participant.published["avatar_audio"]
        self._stream = rtc.AudioStream(voice, sample_rate=16_000, num_channels=1)
        self._task = asyncio.ensure_future(self._hear())

    def loud_s(self) -> float:
        """Seconds of sound that were played."""
        return sum(one > 200 for one in self.blocks) / 100

    async def settle(self, blocks: int = 30) -> None:
        """Hear so many more blocks: what is played now is still on its way here."""
        end = len(self.blocks) + blocks
        while len(self.blocks) < end:  # noqa: ASYNC110  # counted in another task
            await asyncio.sleep(0.005)

    async def close(self) -> None:
        """Hear no more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await self._stream.aclose()

    async def _hear(self) -> None:
        async for event in self._stream:
            samples = np.abs(np.frombuffer(event.frame.data, np.int16).astype(int))
            self.blocks += [int(one.max()) for one in samples[: len(samples) // 160 * 160].reshape(-1, 160)]
