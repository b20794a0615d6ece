"""Fetches files from addresses that strangers name (server-side request forgery is what it keeps out).

A name is looked up once, every address that it has is checked, and the connection goes to one of these addresses, with the name in
`Host`, in TLS and in the certificate's check: what the name means a moment later changes nothing (DNS rebinding). Each redirect
passes the same checks. Proxies of the environment are not used. Bytes are counted as they come, and are never unpacked.
"""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import httpx

from kernels.errors import InvalidInputError
from pipeline.fetch.addresses import is_allowed, networks_of
from pipeline.fetch.checked_url import URL_ALLOWED, UrlRefusedError, checked_url
from pipeline.fetch.settings import FetchSettings

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""(name, port) -> every IP address of the name, as text."""
NAME_S: Final = 5.0
"""Seconds within which a name must be looked up, the wait for a thread included."""
_THREADS: Final = ThreadPoolExecutor(16, "fetched-name")
"""Where the system's resolver is waited for: up to 20 s for names that strangers choose, so not in the loop's own pool, and not
with the names of ICE servers (`pipeline.webrtc.names`)."""
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_HEADERS: Final = {"User-Agent": "LiveAnchor", "Accept": "*/*", "Accept-Encoding": "identity"}


class UrlUnreachableError(InvalidInputError):
    """An address may be fetched, and what it names cannot be had."""

    code = "url_unreachable"


async def system_addresses(name: str, port: int) -> list[str]:
    """Ask the system's resolver.

    Raises:
        OSError: There is no such name.
    """
    ask = partial(socket.getaddrinfo, name, port, type=socket.SOCK_STREAM)
    found = await asyncio.get_running_loop().run_in_executor(_THREADS, ask)
    return [str(entry[4][0]) for entry in found]


class Fetcher:
    """Fetches files for callers.

    Args:
        settings: What may be fetched.
        resolve: Looks names up.
        name_s: Seconds within which a name must be looked up.
    """

    def __init__(self, settings: FetchSettings, resolve: Resolve = system_addresses, name_s: float = NAME_S) -> None:
        self._settings = settings
        self._networks = networks_of(settings.networks)
        self._resolve = resolve
        self._name_s = name_s
        self._tls = httpx.create_ssl_context(trust_env=False)  # once: it reads all certificates

    async def fetch(self, url: str, field: str, max_bytes: int, charge: Callable[[int], None]) -> bytes:
        """Fetch a file.

        Args:
            url: Its address, as it came.
            field: Name of the field that it came in, for errors.
            max_bytes: Largest file.
            charge: Told the number of bytes of each piece before it is kept; what it raises ends the fetching.

        Raises:
            UrlRefusedError: The address, or one that it redirects to, is not fetched.
            UrlUnreachableError: There is no such file, it is too large, or does not come in time.
        """
        body = io.BytesIO()
        try:
            async with asyncio.timeout(self._settings.timeout_s), self.open(url, field) as answer:
                _check_head(answer, field, max_bytes)
                async for piece in answer.aiter_raw():
                    if body.tell() + len(piece) > max_bytes:
                        raise _too_large(field, max_bytes)
                    charge(len(piece))
                    body.write(piece)
        except TimeoutError as error:
            raise UrlUnreachableError(
                field, "an address that answers too slowly", f"a file that comes within {self._settings.timeout_s:g} s"
            ) from error
        except httpx.HTTPError as error:
            raise _unreachable(field) from error
        return body.getvalue()

    def check(self, url: str, field: str) -> httpx.URL:
        """Read an address that is to be reached later; what its name means is checked then.

        Raises:
            UrlRefusedError: The address is not reached.
        """
        if not self._settings.enabled:
            raise UrlRefusedError(field, "an address", "none: this service reaches no addresses that callers name")
        return checked_url(url, field, self._settings.ports)

    @asynccontextmanager
    async def open(
        self, url: str, field: str, method: str = "GET", headers: Mapping[str, str] | None = None, content: bytes = b""
    ) -> AsyncGenerator[httpx.Response, None]:
        """Send a request and yield its answer, whose body is not read yet. Only `GET` follows redirects. Bound its time.

        Raises:
            UrlRefusedError: The address, or one that it redirects to, is not fetched.
            UrlUnreachableError: The name has no address or is not found in time, or there are too many redirects.
            httpx.HTTPError: The connection failed.
        """
        target = self.check(url, field)
        sent = dict(_HEADERS) | dict(headers or {})
        async with httpx.AsyncClient(
            verify=self._tls, trust_env=False, follow_redirects=False, timeout=self._settings.timeout_s
        ) as client:
            for _ in range(self._settings.max_redirects + 1):
                request = await self._request(client, method, target, field, sent, content)
                answer = await client.send(request, stream=True)
                try:
                    if method != "GET" or answer.status_code not in _REDIRECTS:
                        yield answer
                        return
                    target = self._next(target, answer.headers.get("location", ""), field)
                finally:
                    await answer.aclose()
        raise UrlUnreachableError(field, "an address with too many redirects", "the address of the file itself")

    async def _request(
        self,
        client: httpx.AsyncClient,
        method: str,
        url: httpx.URL,
        field: str,
        headers: Mapping[str, str],
        content: bytes,
    ) -> httpx.Request:
        """A request to one address that was checked."""
        name = url.raw_host.decode("ascii")
        address = await self.address_of(url, field)
        host = url.netloc.decode("ascii")
        return client.build_request(
            method,
            url.copy_with(host=address),
            headers={**headers, "Host": host},
            content=content or None,
            extensions={"sni_hostname": name},
        )

    async def address_of(self, url: httpx.URL, field: str) -> str:
        """Look a host up and return one of its addresses, all of which were checked.

        Raises:
            UrlRefusedError: One of them may not be reached.
            UrlUnreachableError: There is none, or it is not found in time.
        """
        port = url.port or (443 if url.scheme == "https" else 80)
        name = url.raw_host.decode("ascii")
        try:
            async with asyncio.timeout(self._name_s):
                addresses = await self._resolve(name, port)
        except TimeoutError as error:
            allowed = f"a name that is found within {self._name_s:g} s"
            raise UrlUnreachableError(field, "a host whose name is not found in time", allowed) from error
        except (OSError, UnicodeError) as error:  # a label that is too long is no OSError
            raise _unreachable(field) from error
        if not addresses:
            raise _unreachable(field)
        if not all(is_allowed(one, self._networks) for one in addresses):
            raise UrlRefusedError(field, "the address of a host that is not public", URL_ALLOWED)
        return addresses[0]

    def redirected(self, url: str, location: str, field: str) -> str:
        """The address that a `Location` means, for requests whose redirects `open` does not follow.

        Args:
            url: What was asked.
            location: The header, which may be relative.
            field: Name of the field that the address came in, for errors.

        Raises:
            UrlRefusedError: It is not fetched.
        """
        return str(self._next(httpx.URL(url), location, field))

    def _next(self, url: httpx.URL, location: str, field: str) -> httpx.URL:
        try:
            target = url.join(location)
        except (httpx.InvalidURL, ValueError) as error:
            raise UrlRefusedError(field, "a redirect that cannot be read", URL_ALLOWED) from error
        if url.scheme == "https" and target.scheme != "https":
            raise UrlRefusedError(field, "a redirect from https to another scheme", URL_ALLOWED)
        return checked_url(str(target), field, self._settings.ports)


def _check_head(answer: httpx.Response, field: str, max_bytes: int) -> None:
    if answer.status_code != 200:
        raise UrlUnreachableError(field, f"an address that answers {answer.status_code}", "the address of a file")
    if answer.headers.get("content-encoding", "identity").lower() != "identity":
        raise UrlUnreachableError(field, "an answer that is compressed, which was not asked for", "the file as it is")
    length = answer.headers.get("content-length", "0")
    if length.isascii() and length.isdigit() and int(length[:18]) > max_bytes:
        raise _too_large(field, max_bytes)


def _too_large(field: str, max_bytes: int) -> UrlUnreachableError:
    return UrlUnreachableError(field, f"a file of more than {max_bytes} bytes", f"at most {max_bytes} bytes")


def _unreachable(field: str) -> UrlUnreachableError:
    return UrlUnreachableError(field, "an address that does not answer", "the address of a file that can be fetched")
