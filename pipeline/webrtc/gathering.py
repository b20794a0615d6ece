"""How aioice finds the addresses at which clients may reach us: changes that are a part of `rtc_patches`.

* UDP ports come from a range where one is set (`port_range`), and a machine without any network uses 127.0.0.1.
* What STUN and TURN servers know is asked for by us (`helped_by`), not by aioice, which waits 5 s for a silent one, every time, and
  looks names up in the loop's own threads.
"""

from __future__ import annotations

import asyncio
import ipaddress
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from aioice import ice
from aioice.candidate import Candidate

LOOPBACK = "127.0.0.1"
Gathered = tuple[Candidate, ice.StunProtocol | None]
"""A candidate, and what receives for it where that is no socket of ours."""
Ask = Callable[[Sequence[ice.StunProtocol], int, Callable[[], ice.StunProtocol]], Awaitable[list[Gathered]]]
"""As `pipeline.webrtc.helpers.Helpers.ask`."""

_ask: ContextVar[Ask | None] = ContextVar("liveanchor_ice_helpers", default=None)
_port_range: ContextVar[range | None] = ContextVar("liveanchor_udp_ports", default=None)


def apply_patches() -> None:
    """Change aioice for this process; called once, by `rtc_patches.apply_patches`."""
    found = ice.get_host_addresses
    ice.get_host_addresses = lambda use_ipv4, use_ipv6: found(use_ipv4, use_ipv6) or ([LOOPBACK] if use_ipv4 else [])
    ice.Connection.get_component_candidates = _with_helpers(ice.Connection.get_component_candidates)  # type: ignore[method-assign]
    ice.asyncio = _AsyncioWithPorts("asyncio")  # type: ignore[attr-defined]


@contextmanager
def port_range(first: int, last: int) -> Iterator[None]:
    """Within it, connections of this task bind UDP ports first..last, both included; any port where both are 0."""
    token = _port_range.set(range(first, last + 1) if first else None)
    try:
        yield
    finally:
        _port_range.reset(token)


@contextmanager
def helped_by(ask: Ask) -> Iterator[None]:
    """Within it, connections of this task ask `ask` for what STUN and TURN servers know, once their own sockets are open."""
    token = _ask.set(ask)
    try:
        yield
    finally:
        _ask.reset(token)


def _with_helpers(stock: Any) -> Any:
    async def get_component_candidates(
        self: ice.Connection, component: int, addresses: list[str], **more: Any
    ) -> list[Candidate]:
        found: list[Candidate] = await stock(self, component, addresses, **more)
        if (ask := _ask.get()) is None:
            return found
        own = [one for one in self._protocols if one.local_candidate.component == component]
        hosts = [one for one in own if ipaddress.ip_address(one.local_candidate.host).version == 4]
        for candidate, protocol in await ask(hosts, component, lambda: ice.StunProtocol(self)):
            found.append(candidate)
            if protocol is not None:
                self._protocols.append(protocol)
        return found

    return get_component_candidates


class _AsyncioWithPorts(ModuleType):
    """What `aioice.ice` sees as `asyncio`. A loop cannot be patched itself: uvloop's takes no attributes."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    def get_running_loop(self) -> Any:
        """The running loop, or one that knows the range of ports where there is one."""
        loop, ports = asyncio.get_running_loop(), _port_range.get()
        return loop if ports is None else _LoopWithPorts(loop, ports)


class _LoopWithPorts:
    def __init__(self, loop: asyncio.AbstractEventLoop, ports: range) -> None:
        self._loop = loop
        self._ports = ports

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_datagram_endpoint(
        self, factory: Callable[[], Any], local_addr: tuple[str, int], **more: Any
    ) -> Any:
        """As the loop's; port 0 becomes a free one of the range.

        Raises:
            OSError: No port of the range is free.
        """
        host, port = local_addr
        if port:
            return await self._loop.create_datagram_endpoint(factory, local_addr=local_addr, **more)
        error: OSError | None = None
        for candidate in random.sample(self._ports, len(self._ports)):
            try:
                return await self._loop.create_datagram_endpoint(factory, local_addr=(host, candidate), **more)
            except OSError as refused:
                error = refused
        raise OSError(f"no UDP port of {self._ports[0]}..{self._ports[-1]} is free at {host}") from error
