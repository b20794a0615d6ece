"""Addresses of files as callers give them: what is no plain http(s) address of a host and port that may be asked is refused."""

from __future__ import annotations

import re
from typing import Final

import httpx

from kernels.errors import InvalidInputError

MAX_URL_CHARS: Final = 2048
_PORTS: Final = {"http": 80, "https": 443}
PLAIN: Final = re.compile(r"[\x21-\x5b\x5d-\x7e]+")
"""ASCII without blanks, control characters and the backslash, which some programs read as a slash."""
_NUMBER: Final = re.compile(r"(?:0[xX][0-9a-fA-F]*|[0-9]+)\.?")
_IPV4: Final = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})")
URL_ALLOWED: Final = "an http or https address of a public host, without user name and password"


class UrlRefusedError(InvalidInputError):
    """An address that is not fetched."""

    code = "url_refused"


def checked_url(text: str, field: str, ports: tuple[int, ...]) -> httpx.URL:
    """Read an address.

    Args:
        text: The address.
        field: Name of the field that it came in, for errors.
        ports: Ports that may be connected to.

    Raises:
        UrlRefusedError: Another scheme, user name, port or spelling.
    """

    def refused(why: str) -> UrlRefusedError:
        return UrlRefusedError(field, why, URL_ALLOWED)

    if len(text) > MAX_URL_CHARS or not PLAIN.fullmatch(text):
        raise refused(f"{len(text)} characters, or one that no address has as it is")
    try:
        url = httpx.URL(text)
        port = _PORTS.get(url.scheme, 0) if url.port is None else url.port
    except (httpx.InvalidURL, ValueError) as error:
        raise refused("a text that cannot be read as an address") from error
    if url.scheme not in _PORTS:
        raise refused(f"the scheme {url.scheme[:20]!r}")
    if url.userinfo or "@" in text.partition("//")[2].partition("/")[0]:
        raise refused("an address with a user name")
    if not url.host:
        raise refused("an address without a host")
    last = url.host.rstrip(".").rpartition(".")[2]
    if _NUMBER.fullmatch(last) and not _IPV4.fullmatch(url.host):
        raise refused("a number as a host, which programs read in different ways")
    if port not in ports:
        raise refused(f"the port {port}")
    return url
