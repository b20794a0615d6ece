"""The avatars of this machine: bundles in one folder, with recently used ones kept in memory.

Several processes may share the folder: bundles appear and vanish whole.
"""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from engines.home import liveanchor_home
from kernels.errors import InvalidInputError
from pipeline.avatar_bundle import TEMPORARY_PREFIX, load_bundle, rename_avatar, write_bundle
from pipeline.avatar_manifest import ID_DIGITS, NAME_LENGTH, PREVIEW_FILE, BundleError, Manifest, read_manifest
from pipeline.bounded_cache import BoundedCache
from pipeline.types import Avatar

DEFAULT_CACHE_BYTES: Final = 256 * 2**20
STALE_AFTER_S: Final = 3600.0
"""Age at which a half-written or half-deleted folder is taken for the leftover of a dead process."""
_TRASH_PREFIX: Final = ".old-"
_ID: Final = re.compile(f"[0-9a-f]{{{ID_DIGITS}}}")


class AvatarNotFoundError(InvalidInputError):
    """No avatar of that id is registered here."""

    code = "avatar_not_found"


@dataclass(frozen=True)
class AvatarSummary:
    """What a list shows: id, name, family, canvas `width` and `height` in pixels, bytes of the bundle (0: not asked)."""

    avatar_id: str
    name: str
    family: str
    width: int
    height: int
    size_bytes: int = 0


def summary_of(manifest: Manifest, size_bytes: int) -> AvatarSummary:
    """What a list shows of a bundle."""
    m = manifest
    return AvatarSummary(m.avatar_id, m.name, m.family, m.width, m.height, size_bytes)


def avatars_dir(home: Path | str | None = None) -> Path:
    """Folder of all bundles under the data folder."""
    return liveanchor_home(home) / "avatars"


def check_avatar_id(avatar_id: str) -> str:
    """The id itself, if it is one: 32 lower-case hex digits, so it can never be a path.

    Raises:
        InvalidInputError: It is not.
    """
    if not _ID.fullmatch(avatar_id):
        raise InvalidInputError("avatar_id", repr(avatar_id[:80]), f"{ID_DIGITS} lower-case hex digits")
    return avatar_id


class AvatarStore:
    """Put, get, list and delete avatars. Safe to share between threads.

    Args:
        root: Folder of the bundles; made when the first avatar is put.
        cache_bytes: Bound on the arrays kept mapped for `get`; the newest always stays.
        wall_clock: Seconds since the epoch, compared with file times to find leftovers.
    """

    def __init__(
        self, root: Path, cache_bytes: int = DEFAULT_CACHE_BYTES, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._root = root
        self._wall_clock = wall_clock
        self._cache: BoundedCache[str, Avatar] = BoundedCache(cache_bytes, _nbytes)

    @property
    def root(self) -> Path:
        """Folder of the bundles; it may not exist yet."""
        return self._root

    @property
    def bytes_cached(self) -> int:
        """Bytes of the arrays held by the cache now."""
        return self._cache.bytes_held

    def put(self, avatar: Avatar, rename: bool = True) -> Avatar:
        """Store an avatar; when its content is already here only a new, non-empty name is taken over.

        Args:
            avatar: What to store.
            rename: False: an avatar that has a name here keeps it.

        Returns:
            The stored avatar, memory-mapped.

        Raises:
            ShapeError: An array has the wrong shape or type.
            BundleError: The id is not the content's, the disk refuses, or the bundle that is already there is damaged.
        """
        folder = self._folder(avatar.avatar_id)
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BundleError(str(self._root), f"cannot be made ({error.strerror})") from error
        self._sweep()
        write_bundle(avatar, folder)
        stored = self.get(avatar.avatar_id)
        if avatar.name and avatar.name[:NAME_LENGTH] != stored.name and (rename or not stored.name):
            rename_avatar(folder, avatar.name)
            self._cache.discard(avatar.avatar_id)
            stored = self.get(avatar.avatar_id)
        return stored

    def get(self, avatar_id: str) -> Avatar:
        """Load an avatar; the first time in this process every byte is hashed, later it comes from the cache.

        Raises:
            InvalidInputError: Not an id.
            AvatarNotFoundError: No such avatar.
            BundleSchemaError: Written by another version.
            BundleError: Damaged; the message names the file.
        """
        folder = self._existing(avatar_id)
        return self._cache.get_or_build(avatar_id, lambda: self._load(avatar_id, folder))

    def list(self) -> list[AvatarSummary]:
        """All readable avatars, by name and id; damaged bundles and those of other versions are left out."""
        found = []
        for folder in self._root.iterdir() if self._root.is_dir() else ():
            if not _ID.fullmatch(folder.name):
                continue
            try:
                size_bytes = sum(file.stat().st_size for file in folder.iterdir())
                found.append(summary_of(read_manifest(folder), size_bytes))
            except (BundleError, FileNotFoundError, NotADirectoryError):  # damaged, of another version, just deleted
                continue
        return sorted(found, key=lambda summary: (summary.name, summary.avatar_id))

    def delete(self, avatar_id: str) -> None:
        """Remove an avatar. Those who hold it already keep their views; nobody else finds it any more.

        Raises:
            InvalidInputError: Not an id.
            AvatarNotFoundError: No such avatar.
            BundleError: The disk refuses.
        """
        folder = self._existing(avatar_id)
        try:
            trash = Path(tempfile.mkdtemp(prefix=_TRASH_PREFIX, dir=self._root))
            folder.rename(trash / avatar_id)
        except FileNotFoundError as error:
            raise _not_found(avatar_id) from error
        except OSError as error:
            raise BundleError(str(folder), f"cannot be removed ({error.strerror})") from error
        finally:
            self._cache.discard(avatar_id)
        shutil.rmtree(trash, ignore_errors=True)

    def preview_path(self, avatar_id: str) -> Path:
        """Path of the preview, a JPEG of at most 512 pixels a side.

        Raises:
            InvalidInputError: Not an id.
            AvatarNotFoundError: No such avatar.
            BundleError: The bundle has lost its preview.
        """
        path = self._existing(avatar_id) / PREVIEW_FILE
        if not path.is_file():
            raise BundleError(str(path), "is missing")
        return path

    def _folder(self, avatar_id: str) -> Path:
        return self._root / check_avatar_id(avatar_id)

    def _existing(self, avatar_id: str) -> Path:
        folder = self._folder(avatar_id)
        if not folder.is_dir():
            self._cache.discard(avatar_id)
            raise _not_found(avatar_id)
        return folder

    def _load(self, avatar_id: str, folder: Path) -> Avatar:
        avatar = load_bundle(folder, deep=True)
        if avatar.avatar_id != avatar_id:
            raise BundleError(str(folder), f"holds the avatar {avatar.avatar_id}")
        return avatar

    def _sweep(self) -> None:
        """Remove leftovers of processes that died while writing or deleting."""
        limit = self._wall_clock() - STALE_AFTER_S
        for pattern in (f"{TEMPORARY_PREFIX}*", f"{_TRASH_PREFIX}*"):
            for folder in self._root.glob(pattern):
                try:
                    stale = folder.stat().st_mtime < limit
                except FileNotFoundError:
                    continue
                if stale:
                    shutil.rmtree(folder, ignore_errors=True)


def _not_found(avatar_id: str) -> AvatarNotFoundError:
    return AvatarNotFoundError("avatar_id", avatar_id, "the id of a registered avatar", f"no avatar {avatar_id} here")


def _nbytes(avatar: Avatar) -> int:
    own = avatar.canvas_rgb.nbytes + avatar.crop_to_canvas.nbytes + avatar.mask.nbytes
    return own + sum(array.nbytes for array in avatar.tensors.values())
