"""Whose an avatar is: small files next to the bundles, `owners/<avatar id>/<owner>`, in a folder or at any fsspec URI.

An avatar is named by its content, so the same picture may belong to several owners; each has a name of its own for it, which is
what the file holds. An avatar without such a file belongs to nobody in particular: everybody may use it.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, Final

import fsspec

from pipeline.avatars.store import avatars_dir
from pipeline.store_error import reaching

SHARED: Final = "shared"
"""Stands for an owner where an avatar that everybody may use has owners of its own, too."""
FOLDER: Final = "owners"
_MARK: Final = re.compile(r"(?:^|/)([0-9a-f]{32})/([A-Za-z0-9_-]{1,64})$")
_MAX_NAME_BYTES: Final = 4096


class AvatarOwners:
    """Notes and tells owners. Every process that reaches the place sees the same ones.

    Args:
        uri: What `deployments.host.avatars.open_avatar_store` takes: empty for LIVEANCHOR_HOME, a folder, or an fsspec URI.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri or str(avatars_dir())
        self._fs: Any
        self._fs, root = fsspec.core.url_to_fs(self._uri)
        self._root = f"{root.rstrip('/')}/{FOLDER}"

    def of(self, avatar_id: str) -> frozenset[str]:
        """Owners of an avatar, `SHARED` among them; none where it belongs to nobody in particular.

        Raises:
            StoreUnreachableError: The place does not answer.
        """
        with reaching(self._uri):
            return frozenset(owners_below(self._fs, f"{self._root}/{avatar_id}").get(avatar_id, set()))

    def all(self) -> dict[str, set[str]]:
        """Owners of every avatar that has some, by its id; avatars that are gone may be among them.

        Raises:
            StoreUnreachableError: The place does not answer.
        """
        with reaching(self._uri):
            return owners_below(self._fs, self._root)

    def add(self, avatar_id: str, owner: str, name: str) -> None:
        """Note an owner and its name for the avatar; the name of an owner that is noted already is replaced.

        Raises:
            StoreUnreachableError: The place does not take it.
        """
        with reaching(self._uri):
            self._fs.makedirs(f"{self._root}/{avatar_id}", exist_ok=True)
            self._fs.pipe_file(self._path(avatar_id, owner), name.encode("utf-8", "replace")[:_MAX_NAME_BYTES])

    def name(self, avatar_id: str, owner: str) -> str | None:
        """An owner's own name for an avatar; None where the avatar is not its own.

        Raises:
            StoreUnreachableError: The place does not answer.
        """
        with suppress(FileNotFoundError), reaching(self._uri):
            return bytes(self._fs.cat_file(self._path(avatar_id, owner))).decode("utf-8", "replace")
        return None

    def drop(self, avatar_id: str, owner: str) -> None:
        """Forget an owner; one that is not noted is no error.

        Raises:
            StoreUnreachableError: The place does not answer.
        """
        with suppress(FileNotFoundError), reaching(self._uri):
            self._fs.rm_file(self._path(avatar_id, owner))

    def forget(self, avatar_id: str) -> None:
        """Forget all owners of an avatar.

        Raises:
            StoreUnreachableError: The place does not answer.
        """
        with suppress(FileNotFoundError), reaching(self._uri):
            self._fs.rm(f"{self._root}/{avatar_id}", recursive=True)

    def changed_at(self, avatar_id: str) -> float:
        """When the newest note about an avatar was written, in seconds since the epoch; 0 without one.

        Raises:
            StoreUnreachableError: The place does not answer.
        """
        with reaching(self._uri):
            return newest_below(self._fs, f"{self._root}/{avatar_id}")

    def _path(self, avatar_id: str, owner: str) -> str:
        return f"{self._root}/{avatar_id}/{owner}"


def owners_below(fs: Any, folder: str, ending: str = "") -> dict[str, set[str]]:
    """Owners that have a file `<avatar id>/<owner><ending>` below a folder, by avatar; none where there is no such folder."""
    found: dict[str, set[str]] = {}
    with suppress(FileNotFoundError):
        fs.invalidate_cache()
        for path in fs.find(folder):
            if str(path).endswith(ending) and (mark := _MARK.search(str(path).removesuffix(ending))):
                found.setdefault(mark.group(1), set()).add(mark.group(2))
    return found


def newest_below(fs: Any, folder: str) -> float:
    """Second since the epoch at which the newest file below a folder was written; 0 where there is none."""
    newest = 0.0
    with suppress(FileNotFoundError):
        fs.invalidate_cache()
        for path in fs.find(folder):
            newest = max(newest, fs.modified(path).timestamp())
    return newest
