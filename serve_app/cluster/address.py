"""Where Ray would look for a running cluster, and whether one answers there: Ray itself waits minutes for one that is gone."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernels.errors import InvalidInputError

ADDRESS_ENV = "RAY_ADDRESS"
CLIENT_SCHEME = "ray"
REACH_S = 4.0
"""For a TCP connection: the first packet is sent again after one second and after three."""
GREET_S = 15.0
"""For the first words of gRPC once a process listens: a head that is busy is not gone."""


@dataclass(frozen=True)
class Address:
    """Where a cluster should be.

    Attributes:
        target: `host:port` of its control service (GCS) or, behind `ray://`, of its Ray Client server; IPv6 hosts in brackets.
        named: True when `RAY_ADDRESS` says so, False when Ray remembers or sees it on this machine.
    """

    target: str
    named: bool

    @property
    def host(self) -> str:
        """The host alone, without brackets."""
        return self.target.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        """The TCP port."""
        return int(self.target.rpartition(":")[2])


def find_address() -> Address | None:
    """What `ray.init(address="auto")` would connect to; None where it would find nothing, or start a cluster of its own.

    That is `RAY_ADDRESS`, or a head that runs on this machine, or the file `ray_current_cluster` in Ray's temporary folder, which
    `ray start` leaves and a crash does not remove.

    Raises:
        InvalidInputError: `RAY_ADDRESS` is no address of a cluster.
    """
    named = os.environ.get(ADDRESS_ENV, "")
    scheme, divided, rest = named.rpartition("://")
    if divided and scheme != CLIENT_SCHEME:
        raise _no_address(named)
    if divided:
        return Address(_checked(rest.partition("/")[0], named), named=True)
    from ray._private import services  # no public function says it; this is the one that ray.init asks

    heads: Any = services.find_gcs_addresses
    heads.cache_clear()  # as ray.init does: heads that are gone since the last call are not believed in
    if named and named not in ("auto", "local"):
        _checked(named, named)
    try:
        target = services.canonicalize_bootstrap_address("auto")
    except (ConnectionError, ValueError):  # nothing named, nothing runs; nothing, or half an address, is remembered
        return None
    return Address(target, named=bool(named) and named != "auto") if target else None


def _checked(target: str, named: str) -> str:
    host, _, port = target.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    if not bare or (":" in bare and bare == host) or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise _no_address(named)
    return target


def _no_address(named: str) -> InvalidInputError:
    allowed = (
        "host:port of a head node such as 10.0.0.1:6379, ray://host:10001, auto, or local for a cluster of its own"
    )
    return InvalidInputError(ADDRESS_ENV, named, allowed)


def listens(address: Address) -> bool:
    """Whether a TCP connection is taken there within `REACH_S` (for each of the host's addresses)."""
    try:
        with socket.create_connection((address.host, address.port), timeout=REACH_S):
            return True
    except (OSError, UnicodeError):  # nothing listens there, no such host, a host name that cannot be one
        return False


def speaks_grpc(address: Address) -> bool:
    """Whether Ray's protocol is spoken there within `GREET_S`: another program may have the port, or Ray may be frozen."""
    import grpc  # type: ignore[import-untyped]
    from ray._private.grpc_utils import (
        init_grpc_channel,
    )  # with the TLS and the token that Ray's environment variables name

    with init_grpc_channel(address.target) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=GREET_S)
        except grpc.FutureTimeoutError:
            return False
    return True


def answers(
    address: Address,
    listens: Callable[[Address], bool] = listens,
    speaks: Callable[[Address], bool] = speaks_grpc,
) -> bool:
    """Whether a cluster can be connected to there: at once where it is there, within seconds where it is not. Ctrl-C ends the wait.

    Args:
        address: Where to look.
        listens: Says whether anybody listens there.
        speaks: Says whether who listens speaks Ray's protocol; asked after that.
    """
    return listens(address) and speaks(address)
