"""Which IP addresses belong to the public internet.

Sources: the IANA registries of special-purpose addresses, as `ipaddress` has them, and the forms of IPv6 that carry an IPv4 address
inside: mapped (RFC 4291, 2.5.5.2), compatible (2.5.5.1), 6to4 (RFC 3056), Teredo (RFC 4380), NAT64 (RFC 6052, RFC 8215).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
_COMPATIBLE: Final = IPv6Network("::/96")
_NAT64: Final = IPv6Network("64:ff9b::/96")
_SPECIAL: Final = (
    IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"), IPv6Network("64:ff9b:1::/48"), IPv6Network("2001::/23"),
    IPv6Network("3fff::/20"), IPv6Network("5f00::/16"),
)  # fmt: skip
"""Special-purpose networks that Python 3.11 does not know whole."""


def is_public(address: Address) -> bool:
    """Whether an address, and every address that it carries inside, is one of the public internet."""
    return all(_public(one) for one in (address, *_inside(address)))


def is_allowed(text: str, networks: Iterable[Network]) -> bool:
    """Whether a connection to an address may be made: a public one, or one of networks that the operator allows.

    Args:
        text: The address, as a resolver writes it; an IPv6 address may name a zone.
        networks: What is allowed besides.
    """
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return any(address in network for network in networks) or is_public(address)


def networks_of(texts: Iterable[str]) -> tuple[Network, ...]:
    """Read networks such as `10.1.0.0/16`.

    Raises:
        ValueError: One is none.
    """
    return tuple(ip_network(text) for text in texts)


def _public(address: Address) -> bool:
    if address in _COMPATIBLE or address in _NAT64 or (isinstance(address, IPv6Address) and address.ipv4_mapped):
        return True  # what it carries inside is looked at on its own
    if any(address in network for network in _SPECIAL):
        return False
    site_local = isinstance(address, IPv6Address) and address.is_site_local
    return address.is_global and not (address.is_multicast or address.is_reserved or site_local)


def _inside(address: Address) -> Iterator[IPv4Address]:
    if isinstance(address, IPv4Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _COMPATIBLE or address in _NAT64:
        yield IPv4Address(int(address) & 0xFFFFFFFF)
