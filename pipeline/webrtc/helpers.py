"""STUN and TURN servers that tell us addresses of our own: asked side by side, waited for briefly, left alone while silent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Final

import structlog
from aioice import ice, stun
from aioice.candidate import Candidate

from pipeline.live.settings import RtcSettings
from pipeline.webrtc.gathering import Gathered
from pipeline.webrtc.ice import HelperUrl, helper_urls
from pipeline.webrtc.names import Names

WAIT_S = 0.5
"""An answer waits for helpers this long at most, and not at all for those that were silent before."""
RETRY_S = 30.0
"""A silent helper is asked again after this time, then after twice as long, and so on."""
MAX_RETRY_S = 600.0
PROBE_S = 5.0
RELAY: Final = ""
"""Stands for our own address where a TURN server is asked: its answer does not depend on one."""
FAULTS: Final = (OSError, stun.TransactionError, TimeoutError, LookupError, ValueError)
"""What asking a helper may raise."""


@dataclass
class _Silence:
    """A helper that did not answer one of our addresses."""

    retry_at: float
    delay_s: float


class Helpers:
    """The STUN and TURN servers of the settings, and which of them answer. Belongs to one event loop; shared by all peers.

    Of each kind the first one is asked that was not silent before. One that does not answer in `wait_s` is remembered as silent,
    for each of our addresses by itself, since a network interface may lead nowhere; it is asked again later by a connection of
    its own, which no client waits for.

    Args:
        rtc: Names the servers.
        clock: Monotonic seconds.
        names: Turns names into addresses.
        wait_s: Longest wait of an answer.

    Raises:
        InvalidInputError: A URL that is neither STUN nor TURN.
    """

    def __init__(
        self,
        rtc: RtcSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        names: Names | None = None,
        wait_s: float = WAIT_S,
    ) -> None:
        self._servers = helper_urls(rtc)
        self._clock = clock
        self._names = names or Names(clock=clock)
        self._wait_s = wait_s
        self._silent: dict[tuple[HelperUrl, str], _Silence] = {}
        self._probes: set[asyncio.Task[None]] = set()
        self._log = structlog.get_logger("liveanchor.webrtc")

    @property
    def silent(self) -> list[str]:
        """URLs that did not answer from at least one of our addresses."""
        return sorted({server.url for server, _ in self._silent})

    async def ask(
        self, hosts: Sequence[ice.StunProtocol], component: int, make_protocol: Callable[[], ice.StunProtocol]
    ) -> list[Gathered]:
        """Candidates that the helpers know for one component of one connection.

        Args:
            hosts: Its sockets on our IPv4 addresses.
            component: Number of the component.
            make_protocol: Makes what receives from a TURN server.
        """
        asked: dict[asyncio.Task[Gathered], tuple[HelperUrl, str]] = {}
        for protocol in hosts:
            address = protocol.local_candidate.host
            if server := self._first("stun", address):
                asked[asyncio.create_task(self._ask_stun(server, protocol))] = (server, address)
        if server := self._first("turn", RELAY):
            asked[asyncio.create_task(self._ask_turn(server, component, make_protocol))] = (server, RELAY)
        self._try_again()
        if not asked:
            return []
        try:
            await asyncio.wait(asked, timeout=self._wait_s)
        finally:
            for task in asked:
                task.cancel()
        await asyncio.wait(asked)
        return [found for task, key in asked.items() if (found := self._result(task, key)) is not None]

    async def close(self) -> None:
        """Stop asking; harmless when repeated."""
        for probe in self._probes:
            probe.cancel()
        await asyncio.gather(*self._probes, return_exceptions=True)

    def _first(self, kind: str, address: str) -> HelperUrl | None:
        usable = (one for one in self._servers if one.kind == kind and (one, address) not in self._silent)
        return next(usable, None)

    async def _ask_stun(self, server: HelperUrl, protocol: ice.StunProtocol) -> Gathered:
        address = await self._names.address(server.host)
        return await ice.server_reflexive_candidate(protocol, (address, server.port))

    async def _ask_turn(
        self, server: HelperUrl, component: int, make_protocol: Callable[[], ice.StunProtocol]
    ) -> Gathered:
        return await ice.relayed_candidate(
            component=component,
            hide_related_address=False,
            protocol_factory=make_protocol,
            **await _turn(server, self._names),
        )

    def _result(self, task: asyncio.Task[Gathered], key: tuple[HelperUrl, str]) -> Gathered | None:
        if not task.cancelled() and task.exception() is None:
            return task.result()
        error = None if task.cancelled() else task.exception()
        now = self._clock()
        if key not in self._silent:
            self._silent[key] = _Silence(now + RETRY_S, RETRY_S)
            self._log.warning(
                "ice_server_silent", url=key[0].url, address=key[1], reason=repr(error) if error else "no answer"
            )
        return None

    def _try_again(self) -> None:
        now = self._clock()
        due: dict[HelperUrl, list[_Silence]] = {}
        for (server, _), silence in self._silent.items():
            if now >= silence.retry_at:
                due.setdefault(server, []).append(silence)
        for server, silences in due.items():
            for silence in silences:
                silence.delay_s = min(2 * silence.delay_s, MAX_RETRY_S)
                silence.retry_at = now + silence.delay_s
            # Without our caller's context, in which its own connection asks for helpers.
            probe = asyncio.get_running_loop().create_task(self._probe(server), context=Context())
            self._probes.add(probe)
            probe.add_done_callback(self._probes.discard)

    async def _probe(self, server: HelperUrl) -> None:
        try:
            async with asyncio.timeout(PROBE_S):
                found = await candidates_from(server, self._names)
        except FAULTS:
            return
        answered = {candidate.related_address for candidate in found if candidate.type == "srflx"}
        answered |= {RELAY for candidate in found if candidate.type == "relay"}
        for address in answered:
            if self._silent.pop((server, str(address)), None) is not None:
                self._log.info("ice_server_answers_again", url=server.url, address=address)


async def candidates_from(server: HelperUrl, names: Names) -> list[Candidate]:
    """Ask one server by a connection of its own, and return what became known: our own addresses, and of it `srflx` or `relay`.

    Args:
        server: The server.
        names: Turns its name into an address.

    Raises:
        OSError: It cannot be reached, or its name leads nowhere.
    """
    if server.kind == "stun":
        told: dict[str, Any] = {"stun_server": (await names.address(server.host), server.port)}
    else:
        told = await _turn(server, names)
    connection = ice.Connection(ice_controlling=False, **told)
    try:
        await connection.gather_candidates()
        return connection.local_candidates
    finally:
        await connection.close()


async def _turn(server: HelperUrl, names: Names) -> dict[str, Any]:
    address = await names.address(server.host)  # of a TLS server the name is kept: its certificate holds it
    username, password = server.login
    return {
        "turn_server": (server.host if server.tls else address, server.port),
        "turn_username": username,
        "turn_password": password,
        "turn_ssl": server.tls,
        "turn_transport": server.transport,
    }
