"""What coturn's arguments let a relay reach."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address


def is_denied(arguments: Sequence[str], peer: str) -> bool:
    """Whether a range of `--denied-peer-ip` holds an address, given as text, IPv4 or IPv6."""
    address = ip_address(peer)
    for one in arguments:
        option, _, value = one.partition("=")
        if option == "--denied-peer-ip":
            first, last = (int(ip_address(end)) for end in value.split("-"))
            if ip_address(value.split("-")[0]).version == address.version and first <= int(address) <= last:
                return True
    return False
