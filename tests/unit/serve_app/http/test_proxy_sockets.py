"""WebSockets as Ray Serve's proxies take them once `bounded_sockets` was called: no compression, no large messages."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from uvicorn.config import WS_PROTOCOLS
from websockets.exceptions import ConnectionClosedError
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.sync.client import connect

from serve_app.cluster.own import PROXY_CALLBACK, PROXY_CALLBACK_ENV
from serve_app.http.live.socket import MAX_MESSAGE_BYTES
from serve_app.http.proxy_sockets import MAX_BYTES
from tests.support.http_server import wait_for
from tests.support.paths import ROOT


@pytest.fixture
def port(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    monkeypatch.setitem(WS_PROTOCOLS, "auto", WS_PROTOCOLS["auto"])
    module, name = PROXY_CALLBACK.split(":")
    assert getattr(importlib.import_module(module), name)() == []

    async def echo(scope: object, receive: object, send: object) -> None:
        await receive()  # type: ignore[operator]
        await send({"type": "websocket.accept"})  # type: ignore[operator]
        while (message := await receive())["type"] == "websocket.receive":  # type: ignore[operator]
            await send({"type": "websocket.send", "text": str(len(message["bytes"]))})  # type: ignore[operator]

    server = uvicorn.Server(uvicorn.Config(echo, port=0, log_level="critical", lifespan="off"))  # type: ignore[arg-type]
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(30)


def test_nothing_is_unpacked(port: int) -> None:
    with connect(f"ws://127.0.0.1:{port}/", extensions=[ClientPerMessageDeflateFactory()]) as socket:
        assert socket.protocol.extensions == [], "compression was offered and not taken"
        socket.send(bytes(MAX_MESSAGE_BYTES))
        assert socket.recv(timeout=30) == str(MAX_MESSAGE_BYTES)


def test_large_messages_end_the_connection(port: int) -> None:
    with connect(f"ws://127.0.0.1:{port}/", compression=None) as socket:
        socket.send(bytes(MAX_MESSAGE_BYTES + 2048))
        with pytest.raises(ConnectionClosedError) as found:
            socket.recv(timeout=30)
        assert found.value.rcvd is not None and found.value.rcvd.code == 1009


def test_it_is_light_and_takes_what_our_own_limit_takes() -> None:
    module = PROXY_CALLBACK.split(":")[0]
    code = (
        f"import sys, {module}; print([one for one in ('numpy', 'torch', 'pydantic', 'fastapi') if one in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]", "a proxy must start quickly"
    assert MAX_MESSAGE_BYTES < MAX_BYTES < 2 * MAX_MESSAGE_BYTES


def test_ray_serve_knows_the_variable() -> None:
    constants = pytest.importorskip("ray.serve._private.constants")
    assert hasattr(constants, PROXY_CALLBACK_ENV)
