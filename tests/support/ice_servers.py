"""STUN and TURN servers for tests: UDP sockets of this machine that answer, refuse or say nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aioice import stun

MAPPED = ("203.0.113.5", 6000)
RELAYED = ("198.51.100.9", 7000)


class IceServer(asyncio.DatagramProtocol):
    """Answers STUN bindings and, without asking for a password, TURN allocations.

    Attributes:
        answers: Whether it does; may be changed at any time.
        asked: Methods of the requests that came.
    """

    def __init__(self, answers: bool) -> None:
        self.answers = answers
        self.asked: list[stun.Method] = []

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.port = int(transport.get_extra_info("sockname")[1])

    def datagram_received(self, data: bytes, addr: Any) -> None:
        request = stun.parse_message(data)
        self.asked.append(request.message_method)
        if not self.answers:
            return
        answer = stun.Message(request.message_method, stun.Class.RESPONSE, request.transaction_id)
        answer.attributes["XOR-MAPPED-ADDRESS"] = MAPPED
        if request.message_method == stun.Method.ALLOCATE:
            answer.attributes["XOR-RELAYED-ADDRESS"] = RELAYED
            answer.attributes["LIFETIME"] = 600
        self._transport.sendto(bytes(answer), addr)


@asynccontextmanager
async def ice_server(answers: bool = True) -> AsyncIterator[IceServer]:
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(lambda: IceServer(answers), local_addr=("127.0.0.1", 0))
    try:
        yield server
    finally:
        transport.close()
