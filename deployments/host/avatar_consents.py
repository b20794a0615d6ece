"""What was agreed to when a face was registered: `consents/<avatar id>/<owner>.json` next to the bundles, wherever they are."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import fsspec

from deployments.host.avatar_owners import SHARED
from pipeline.avatars.store import avatars_dir
from pipeline.store_error import reaching

FOLDER: Final = "consents"


@dataclass(frozen=True)
class Consent:
    """A statement.

    Attributes:
        statement: Who agreed, to what, in the words of whoever registered the face.
        given_at: When it was kept, in seconds since the epoch.
    """

    statement: str
    given_at: float


class AvatarConsents:
    """Keeps one statement for each owner of an avatar; a later one of the same owner takes its place.

    Args:
        uri: What `deployments.host.avatars.open_avatar_store` takes.
        wall_clock: Seconds since the epoch.
    """

    def __init__(self, uri: str, wall_clock: Callable[[], float] = time.time) -> None:
        self._uri = uri or str(avatars_dir())
        self._wall_clock = wall_clock
        self._fs: Any
        self._fs, root = fsspec.core.url_to_fs(self._uri)
        self._root = f"{root.rstrip('/')}/{FOLDER}"

    def keep(self, avatar_id: str, owner: str, statement: str) -> None:
        """Keep a statement.

        Raises:
            StoreUnreachableError: The place does not take it.
        """
        text = json.dumps({"statement": statement, "given_at": self._wall_clock()}, ensure_ascii=False)
        with reaching(self._uri):
            self._fs.makedirs(f"{self._root}/{avatar_id}", exist_ok=True)
            self._fs.pipe_file(self._path(avatar_id, owner), text.encode("utf-8"))

    def of(self, avatar_id: str, owner: str | None) -> tuple[Consent, ...]:
        """Statements about an avatar: those of one owner, of all for None; the newest last.

        Raises:
            StoreUnreachableError: The place does not answer.
        """
        found = []
        with suppress(FileNotFoundError), reaching(self._uri):
            self._fs.invalidate_cache()
            paths = self._fs.find(f"{self._root}/{avatar_id}") if owner is None else [self._path(avatar_id, owner)]
            for path in paths:
                facts = json.loads(self._fs.cat_file(path))
                found.append(Consent(str(facts["statement"]), float(facts["given_at"])))
        return tuple(sorted(found, key=lambda one: one.given_at))

    def drop(self, avatar_id: str, owner: str | None) -> None:
        """Forget the statement of one owner, all of them for None; none is no error.

        Raises:
            StoreUnreachableError: The place does not answer.
        """
        path = f"{self._root}/{avatar_id}" if owner is None else self._path(avatar_id, owner)
        with suppress(FileNotFoundError), reaching(self._uri):
            self._fs.rm(path, recursive=owner is None)

    def _path(self, avatar_id: str, owner: str) -> str:
        return f"{self._root}/{avatar_id}/{owner or SHARED}.json"
