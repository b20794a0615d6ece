"""An ingest as callers name it: checked before anything is sent there, and shown without its secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import httpx

from kernels.errors import InvalidInputError
from pipeline.fetch.checked_url import UrlRefusedError, checked_url
from pipeline.publish.rtmp_place import SCHEME, read_place
from pipeline.publish.settings import PublishSettings

MAX_TOKEN_CHARS: Final = 4096
_TOKEN: Final = re.compile(r"[\x21-\x7e]*")


@dataclass(frozen=True)
class PublishTarget:
    """An ingest.

    Attributes:
        url: Its address, which may hold a secret.
        token: Sent as `Authorization: Bearer`; empty for none.
    """

    url: str = field(repr=False)
    token: str = field(default="", repr=False)

    @property
    def is_rtmp(self) -> bool:
        """Whether it is an RTMP server; else a WHIP ingest."""
        return self.url.startswith(SCHEME)

    @property
    def shown(self) -> str:
        """The address up to its path, which may be secret."""
        url = httpx.URL(self.url)
        return f"{url.scheme}://{url.netloc.decode('ascii')}/..."


def check_target(target: PublishTarget, settings: PublishSettings, prefix: str = "") -> None:
    """Refuse an ingest that callers may not name; where its host leads is looked at when it is connected to.

    Args:
        target: The ingest.
        settings: What is allowed.
        prefix: What goes before `url` and `token` in errors.

    Raises:
        UrlRefusedError: Publishing is off, or the address is not one that may be asked.
        InvalidInputError: The token cannot be sent.
    """
    where = f"{prefix}url"
    if not settings.enabled:
        raise UrlRefusedError(where, "an address", "nothing: this service publishes to no ingest")
    if target.is_rtmp:
        url = read_place(target.url, where, settings.ports).host
        if target.token:
            raise InvalidInputError(f"{prefix}token", "a token", "none for RTMP, whose key is the end of url")
    else:
        url = checked_url(target.url, where, settings.ports)
    check_host(url, settings, where)
    if len(target.token) > MAX_TOKEN_CHARS or not _TOKEN.fullmatch(target.token):
        allowed = f"at most {MAX_TOKEN_CHARS} ASCII characters without blanks"
        raise InvalidInputError(f"{prefix}token", f"{len(target.token)} characters", allowed)


def check_host(url: httpx.URL, settings: PublishSettings, where: str) -> None:
    """Refuse a host that sessions may not be published to.

    Args:
        url: An address that was read.
        settings: What is allowed.
        where: Name of the field that it came in, for errors.

    Raises:
        UrlRefusedError: There are only certain hosts, and this is none of them.
    """
    if settings.hosts and url.host not in settings.hosts:
        raise UrlRefusedError(where, f"the host {url.host[:80]!r}", ", ".join(settings.hosts))
