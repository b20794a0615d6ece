"""A service that needs keys, and clients that have some."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

from serve_app.access.key_file import KeyFile
from serve_app.access.keys import SCOPES, ApiKey, Scope
from tests.support.http_server import InProcessHost, Served, serving


class Keyed:
    """A running service that needs keys.

    Attributes:
        served: The service; its own client shows no key.
        keys: The file of keys.
        texts: The text of every key, by id.
    """

    def __init__(self, served: Served, keys: KeyFile, stack: ExitStack) -> None:
        self.served = served
        self.keys = keys
        self._stack = stack
        self.texts: dict[str, str] = {}

    def key(self, *scopes: Scope, valid_s: float | None = None) -> tuple[ApiKey, str]:
        """Make a key; all scopes but admin where none is named."""
        chosen = scopes or tuple(scope for scope in SCOPES if scope != "admin")
        key, text = self.keys.create("a test", chosen, valid_s)
        self.texts[key.key_id] = text
        return key, text

    def client(self, *scopes: Scope) -> httpx.Client:
        """Make a key and return a client that shows it."""
        return self.showing(self.key(*scopes)[1])

    def showing(self, text: str) -> httpx.Client:
        """A client that shows a key or token."""
        client = httpx.Client(
            base_url=self.served.client.base_url, headers={"Authorization": f"Bearer {text}"}, timeout=60
        )
        return self._stack.enter_context(client)


@contextmanager
def keyed(folder: Path, host: InProcessHost | None = None, **settings: Any) -> Iterator[Keyed]:
    """Serve an application that needs keys. Keys that are made later work at once; one that is revoked works for up to a second."""
    path = folder / "keys.json"
    with ExitStack() as stack:
        served = stack.enter_context(serving(folder, host, required="always", file=str(path), **settings))
        yield Keyed(served, KeyFile(path), stack)
