"""One server of the operator, asked over HTTP: connections are kept open, and every failure becomes one of two errors."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kernels.errors import LiveAnchorError, first_line
from pipeline.servers.settings import ServerSettings

if TYPE_CHECKING:
    import httpx

LATER: Final = (408, 425, 429, 500, 502, 503, 504)
"""Statuses after which the same request may succeed."""
_SHOWN_BYTES: Final = 2000


@dataclass(frozen=True)
class ServerErrors:
    """Makes the errors of one kind of server.

    Attributes:
        missing: Of a package that is not installed, by its name.
        unreachable: The server does not answer, or has too much work; the argument says what it did ("answered 503").
        failed: It refused, or answered something else than it was asked for; the argument is a whole clause.
        answer: What is asked for, in messages.
        quotes: Whether messages hold what the server said; not where that may hold words of people.
    """

    missing: Callable[[str], LiveAnchorError]
    unreachable: Callable[[str], LiveAnchorError]
    failed: Callable[[str], LiveAnchorError]
    answer: str
    quotes: bool = True


class ServerCaller:
    """Asks one server. It belongs to one event loop; several calls may be under way.

    Args:
        settings: Address, key, and how long the server may take.
        errors: Makes the errors.
    """

    def __init__(self, settings: ServerSettings, errors: ServerErrors) -> None:
        self._settings, self._errors = settings, errors
        self._client: httpx.AsyncClient | None = None

    def open(self) -> httpx.AsyncClient:
        """Make the client, where there is none yet; the server is not asked.

        Raises:
            LiveAnchorError: `errors.missing`, where the HTTP client is not installed.
        """
        if self._client is None:
            try:
                import httpx  # of an extra: a machine without a server needs none
            except ImportError as error:
                raise self._errors.missing("httpx") from error
            timeout = httpx.Timeout(self._settings.silent_s, connect=self._settings.connect_s)
            self._client = httpx.AsyncClient(timeout=timeout)
        return self._client

    async def close(self) -> None:
        """Close all connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    @asynccontextmanager
    async def asked(self, path: str, **request: Any) -> AsyncGenerator[httpx.Response, None]:
        """POST to one of the server's calls; the answer is read by the caller, inside the context. Redirects are not followed.

        Args:
            path: As `ServerSettings.endpoint_of` takes it.
            request: What `httpx.AsyncClient.stream` takes: `json`, or `data` and `files`.

        Raises:
            LiveAnchorError: One of `errors`; also what goes wrong while the answer is read.
        """
        client = self.open()
        key = self._settings.key.get_secret_value()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        endpoint = self._settings.endpoint_of(path)
        with self._told():
            async with client.stream("POST", endpoint, headers=headers, **request) as answer:
                if answer.is_error:
                    said = await _said(answer) if self._errors.quotes else ""
                    if answer.status_code in LATER:
                        raise self._errors.unreachable(f"answered {answer.status_code}{said}")
                    raise self._errors.failed(f"the server answered {answer.status_code}{said}")
                if not answer.is_success:
                    raise self._errors.failed(
                        f"the server answered {answer.status_code}, which is no {self._errors.answer}"
                    )
                yield answer

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Tell the client's errors as ours."""
        import httpx

        try:
            yield
        except httpx.TimeoutException as error:
            raise self._errors.unreachable(f"does not answer in time ({type(error).__name__})") from error
        except httpx.HTTPError as error:
            reason = first_line(error, 100, named=True)
            raise self._errors.unreachable(f"cannot be reached, or broke off ({reason})") from error


async def _said(answer: Any) -> str:
    """The server's own words, shortened; empty where it said nothing readable."""
    data = b""
    async for piece in answer.aiter_bytes():
        data += piece
        if len(data) > _SHOWN_BYTES:
            break
    text = " ".join(data[:_SHOWN_BYTES].decode("utf-8", "replace").split())
    return f": {text[:160]}" if text else ""
