"""Addresses of RTMP servers, taken apart: what is checked, what FFmpeg connects to, what the server is told."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import httpx

from pipeline.fetch.checked_url import UrlRefusedError, checked_url

SCHEME: Final = "rtmp://"
PORT: Final = 1935
_WITH_PORT: Final = re.compile(r":[0-9]+$")
_NO_HOST: Final = "?#@"
"""What ends a host, or begins one: a port behind it would be none."""
_ALLOWED: Final = "rtmp://host/application/key of a public host"


@dataclass(frozen=True)
class RtmpPlace:
    """Where a stream goes.

    Attributes:
        host: Scheme, host and port, in the form of an address for HTTP, which names are looked up for.
        app: The application, one or more parts of the path.
        key: The stream's name there, which is secret.
    """

    host: httpx.URL
    app: str
    key: str = field(repr=False)

    @property
    def port(self) -> int:
        """The port that was checked; httpx leaves out the one that is HTTP's own."""
        return self.host.port or 80

    def target(self, address: str) -> str:
        """What FFmpeg connects to, for an address that was checked."""
        host = f"[{address}]" if ":" in address else address
        return f"{SCHEME}{host}:{self.port}/{self.app}/{self.key}"

    @property
    def options(self) -> dict[str, str]:
        """What the server is told: the name that the caller gave, not the address that it means."""
        name = self.host.netloc.decode("ascii") + ("" if self.host.port else f":{self.port}")
        return {"rtmp_app": self.app, "rtmp_playpath": self.key, "rtmp_tcurl": f"{SCHEME}{name}/{self.app}"}


def read_place(text: str, where: str, ports: tuple[int, ...]) -> RtmpPlace:
    """Read an address.

    Args:
        text: `rtmp://host[:port]/application/key`; the last part of the path is the key.
        where: Name of the field that it came in, for errors.
        ports: Ports that may be connected to.

    Raises:
        UrlRefusedError: Another spelling or port, a user name, no application or no key.
    """
    host, _, path = text[len(SCHEME) :].partition("/")
    if any(mark in host for mark in _NO_HOST):
        raise UrlRefusedError(where, "a host with a question mark, a number sign or a user name", _ALLOWED)
    port = "" if _WITH_PORT.search(host) else f":{PORT}"
    url = checked_url(f"http://{host}{port}/{path}", where, ports)  # the same rules as for every address of a caller
    app, _, key = path.rpartition("/")
    if not app.strip("/") or not key:
        raise UrlRefusedError(where, "an address without application or key", _ALLOWED)
    return RtmpPlace(url.copy_with(raw_path=b"/"), app, key)
