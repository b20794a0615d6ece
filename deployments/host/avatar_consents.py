"""What was agreed to when a face was registered: `consents/<avatar id>/<owner>.json` next to the bundles, wherever they are."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import fsspec

from deployments.host.avatar_owners import SHARED, newest_below, owners_below
from pipeline.avatars.store import avatars_dir
from pipeline.store_error import reaching

FOLDER: Final = "consents"
CONSENT: Final = "who agreed that this face is animated, and for what"
"""What a statement says, in the words of messages."""
MAX_STATEMENT_BYTES: Final = 1024
"""What a field of text in a form may have."""


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

    def all(self) -> dict[str, set[str]]:
        """Owners of statements about every avatar that has some, by its id; avatars that are gone may be among them.

        Raises:
            StoreUnreachableError: The place does not answer.
        """
        with reaching(self._uri):
            return owners_below(self._fs, self._root, ".json")

    def drop(self, avatar_id: str, owner: str | None) -> None:
        """Forget the statement of one owner, all of them for None; none is no error.

        Raises:
            StoreUnreachableError: The place does not answer.
        """
        path = f"{self._root}/{avatar_id}" if owner is None else self._path(avatar_id, owner)
        with suppress(FileNotFoundError), reaching(self._uri):
            self._fs.rm(path, recursive=owner is None)

    def changed_at(self, avatar_id: str) -> float:
        """When the newest statement about an avatar was kept, in seconds since the epoch; 0 without one.

        Raises:
            StoreUnreachableError: The place does not answer.
        """
        with reaching(self._uri):
            return newest_below(self._fs, f"{self._root}/{avatar_id}")

    def _path(self, avatar_id: str, owner: str) -> str:
        return f"{self._root}/{avatar_id}/{owner or SHARED}.json"
