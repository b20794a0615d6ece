"""A Janus for measurements and tests: a selective forwarding unit, Debian's package `janus`, with a client for its room.

Facts about its protocol: the manual of Janus' VideoRoom plugin. It never offers 127.0.0.1, so media go over an address of this
machine's network card.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from benchmarks.agents.own_server import listening, program
from kernels.errors import LiveAnchorError
from serve_app.cluster.own import free_port

ROOM: Final = "show"
FEED: Final = "anchor"
VIDEO_ROOM: Final = "janus.plugin.videoroom"
ADMIN: Final = "room-admin"
NAME: Final = "janus"
ANSWER_S: Final = 20.0
KEEP_ALIVE_S: Final = 20.0
_CONFIGURATION: Final = {
    "janus.jcfg": """
        general: {{ configs_folder = "{folder}"; admin_secret = "{admin}"; debug_level = 3; session_timeout = 60
            plugins_folder = "{library}/plugins"; transports_folder = "{library}/transports"
            events_folder = "{library}/events"; loggers_folder = "{library}/loggers" }}
        nat: {{ full_trickle = false }}
        media: {{ rtp_port_range = "20000-21000" }}
        plugins: {{ disable = "{others}" }}
        transports: {{ disable = "libjanus_http.so,libjanus_mqtt.so,libjanus_nanomsg.so,libjanus_pfunix.so,libjanus_rabbitmq.so" }}
        events: {{ broadcast = false }}
    """,
    "janus.transport.websockets.jcfg": 'general: {{ ws = true; ws_port = {port}; ws_ip = "127.0.0.1" }}',
    "janus.plugin.videoroom.jcfg": 'general: {{ admin_key = "{admin}"; string_ids = true }}',
}


@contextmanager
def janus_server() -> Iterator[str]:
    """Address of the WebSocket of a Janus that runs as long as the block.

    Raises:
        LiveAnchorError: It is not installed, or does not start.
    """
    path = program(NAME, "janus")
    library = next(Path("/usr/lib").glob("*/janus"), Path("/usr/lib/janus"))
    others = ",".join(one.name for one in (library / "plugins").glob("*.so") if "videoroom" not in one.name)
    with tempfile.TemporaryDirectory(prefix="la-janus-") as folder:
        port = free_port()
        for name, text in _CONFIGURATION.items():
            filled = text.format(folder=folder, library=library, others=others, admin=ADMIN, port=port)
            (Path(folder) / name).write_text(filled, encoding="utf-8")
        with listening([path, "-F", folder, "-N"], port):
            yield f"ws://127.0.0.1:{port}"


class JanusClient:
    """One session at Janus over its WebSocket. Belongs to one event loop.

    Args:
        socket: The connection.
    """

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._session: dict[str, Any] = {}
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._keep_alive())]

    async def open(self) -> None:
        """Begin the session."""
        self._session = {"session_id": (await self._ask({"janus": "create"}))["data"]["id"]}

    async def close(self) -> None:
        """Stop reading."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def attach(self) -> int:
        """A new handle of the video room: one publisher's or one subscriber's."""
        return int((await self._ask({"janus": "attach", "plugin": VIDEO_ROOM}))["data"]["id"])

    async def detach(self, handle: int) -> None:
        """Let a handle go."""
        await self._ask({"janus": "detach", "handle_id": handle})

    async def message(self, handle: int, body: dict[str, Any], jsep: dict[str, str] | None = None) -> dict[str, Any]:
        """Ask the room for something; answers the event or result, which may hold `jsep`.

        Raises:
            LiveAnchorError: Janus says no.
        """
        asked: dict[str, Any] = {"janus": "message", "handle_id": handle, "body": body}
        answer = await self._ask(asked | ({"jsep": jsep} if jsep else {}))
        data = answer.get("plugindata", {}).get("data", {})
        if "error" in data:
            raise LiveAnchorError(f"janus: {data['error']}")
        return answer

    async def make_room(self) -> None:
        """A room for one publisher of H.264 and Opus."""
        body = {
            "request": "create", "room": ROOM, "admin_key": ADMIN, "publishers": 1, "videocodec": "h264",
            "h264_profile": "42e01f", "audiocodec": "opus", "bitrate": 4_000_000, "fir_freq": 0,
        }  # fmt: skip
        await self.message(await self.attach(), body)

    async def publish(self, handle: int, offer: str) -> str:
        """Take a publisher's offer and answer it."""
        await self.message(handle, {"request": "join", "ptype": "publisher", "room": ROOM, "id": FEED})
        answer = await self.message(handle, {"request": "publish"}, {"type": "offer", "sdp": offer})
        return str(answer["jsep"]["sdp"])

    async def subscribe(self, handle: int) -> str:
        """The offer for one more subscriber."""
        body = {"request": "join", "ptype": "subscriber", "room": ROOM, "streams": [{"feed": FEED}]}
        return str((await self.message(handle, body))["jsep"]["sdp"])

    async def start(self, handle: int, answer: str) -> None:
        """Let media flow to a subscriber."""
        await self.message(handle, {"request": "start"}, {"type": "answer", "sdp": answer})

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        transaction = str(next(self._numbers))
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[transaction] = future
        await self._send(request, transaction)
        async with asyncio.timeout(ANSWER_S):
            answer = await future
        if answer["janus"] == "error":
            raise LiveAnchorError(f"janus: {answer['error'].get('reason')}")
        return answer

    async def _send(self, request: dict[str, Any], transaction: str) -> None:
        await self._socket.send(json.dumps(request | self._session | {"transaction": transaction}))

    async def _read(self) -> None:
        async for text in self._socket:
            answer = json.loads(text)
            future = self._waiting.get(answer.get("transaction", ""))
            if future is not None and answer["janus"] != "ack" and not future.done():  # after "ack" the event follows
                future.set_result(answer)

    async def _keep_alive(self) -> None:
        while True:
            await asyncio.sleep(KEEP_ALIVE_S)
            await self._send({"janus": "keepalive"}, "")  # answered by "ack" alone


@asynccontextmanager
async def janus_client(url: str) -> AsyncIterator[JanusClient]:
    """A session at the Janus of an address."""
    async with connect(url, subprotocols=[Subprotocol("janus-protocol")]) as socket:
        client = JanusClient(socket)
        try:
            await client.open()
            yield client
        finally:
            await client.close()
