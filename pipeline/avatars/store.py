"""The avatars of this machine: bundles in one folder, with recently used ones kept in memory.

Several processes may share the folder: bundles appear and vanish whole.

A temporary avatar is a bundle in the folder's own folder `temporary`, whose modification time says when it was last used. What
removes temporary ones works there alone, so it cannot remove an avatar that was registered, whatever happens meanwhile.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from engines.weights.home import liveanchor_home
from kernels.errors import InvalidInputError
from pipeline.avatars.bundle import TEMPORARY_PREFIX, load_bundle, rename_avatar, write_bundle
from pipeline.avatars.manifest import (
    ID_DIGITS,
    NAME_LENGTH,
    PREVIEW_FILE,
    BundleError,
    BundleStorageError,
    Manifest,
    read_manifest,
)
from pipeline.avatars.quota import AvatarQuota, HeldAvatar, leaving, locked, make_room
from pipeline.bounded_cache import BoundedCache
from pipeline.types import Avatar

DEFAULT_CACHE_BYTES: Final = 256 * 2**20
STALE_AFTER_S: Final = 3600.0
"""Age at which a half-written or half-deleted folder is taken for the leftover of a dead process."""
TEMPORARY_FOLDER: Final = "temporary"
_TRASH_PREFIX: Final = ".old-"
T = TypeVar("T")
_ID: Final = re.compile(f"[0-9a-f]{{{ID_DIGITS}}}")


class AvatarNotFoundError(InvalidInputError):
    """No avatar of that id is registered here."""

    code = "avatar_not_found"


@dataclass(frozen=True)
class AvatarSummary:
    """What a list shows: id, name, family, canvas `width` and `height` in pixels, bytes of the bundle (0: not asked).

    `used_at` is None for an avatar that stays, else the second since the epoch at which a temporary one was last used.
    """

    avatar_id: str
    name: str
    family: str
    width: int
    height: int
    size_bytes: int = 0
    used_at: float | None = None


def summary_of(manifest: Manifest, size_bytes: int, used_at: float | None = None) -> AvatarSummary:
    """What a list shows of a bundle."""
    m = manifest
    return AvatarSummary(m.avatar_id, m.name, m.family, m.width, m.height, size_bytes, used_at)


def avatars_dir(home: Path | str | None = None) -> Path:
    """Folder of all bundles under the data folder."""
    return liveanchor_home(home) / "avatars"


def is_avatar_id(text: str) -> bool:
    """Whether a text can be the id of an avatar."""
    return _ID.fullmatch(text) is not None


def check_avatar_id(avatar_id: str) -> str:
    """The id itself, if it is one: 32 lower-case hex digits, so it can never be a path.

    Raises:
        InvalidInputError: It is not.
    """
    if not is_avatar_id(avatar_id):
        raise InvalidInputError("avatar_id", repr(avatar_id[:80]), f"{ID_DIGITS} lower-case hex digits")
    return avatar_id


class AvatarStore:
    """Put, get, list and delete avatars. Safe to share between threads.

    Args:
        root: Folder of the bundles; made when the first avatar is put.
        cache_bytes: Bound on the arrays kept mapped for `get`; the newest always stays.
        wall_clock: Seconds since the epoch, compared with file times to find leftovers and what is not used.
    """

    def __init__(
        self, root: Path, cache_bytes: int = DEFAULT_CACHE_BYTES, wall_clock: Callable[[], float] = time.time
    ) -> None:
        self._root = root
        self._temporary = root / TEMPORARY_FOLDER
        self._wall_clock = wall_clock
        self._cache: BoundedCache[Path, Avatar] = BoundedCache(cache_bytes, _nbytes)

    @property
    def root(self) -> Path:
        """Folder of the bundles; it may not exist yet."""
        return self._root

    @property
    def bytes_cached(self) -> int:
        """Bytes of the arrays held by the cache now."""
        return self._cache.bytes_held

    def check_room(self, quota: AvatarQuota) -> None:
        """Refuse where one more avatar could not come in now; no room is made for it yet.

        Raises:
            AvatarsFullError: There would be no room.
        """
        leaving(self._held(), quota, self._wall_clock())

    def put(
        self, avatar: Avatar, rename: bool = True, temporary: bool = False, quota: AvatarQuota | None = None
    ) -> Avatar:
        """Store an avatar; when its content is already here only a new, non-empty name is taken over.

        Args:
            avatar: The avatar to store.
            rename: Whether an avatar that has a name here takes the new one over.
            temporary: Whether the avatar may expire unused. An avatar that stays already goes on staying; a temporary one that is
                put without this stays from then on.
            quota: Bounds that hold whatever other threads and processes put meanwhile; unused temporary avatars are removed to
                make room. An avatar that is here already needs none.

        Returns:
            The stored avatar, memory-mapped.

        Raises:
            AvatarsFullError: The quota does not allow one more.
            ShapeError: An array has the wrong shape or type.
            BundleError: The id is not the content's, the disk refuses, or the bundle that is already there is damaged.
        """
        check_avatar_id(avatar.avatar_id)
        if quota is None:
            return self._put(avatar, rename, temporary)
        _make_folder(self._root)
        with locked(self._root):
            if not any((place / avatar.avatar_id).is_dir() for place in (self._root, self._temporary)):
                make_room(self._held, self.discard, quota, self._wall_clock())
            return self._put(avatar, rename, temporary)

    def _put(self, avatar: Avatar, rename: bool, temporary: bool) -> Avatar:
        folder = self._root / avatar.avatar_id
        stays = folder.is_dir()
        if temporary and not stays:
            folder = self._temporary / avatar.avatar_id
        self._sweep()
        if not (temporary and stays):
            _write(avatar, folder)
        if temporary:
            try:
                self.touch(avatar.avatar_id)
            except AvatarNotFoundError:  # it was here, and another process has removed it in this moment
                folder = self._temporary / avatar.avatar_id
                _write(avatar, folder)
        else:
            self.discard(avatar.avatar_id, math.inf)
        stored = self.get(avatar.avatar_id)
        if avatar.name and avatar.name[:NAME_LENGTH] != stored.name and (rename or not stored.name):
            rename_avatar(folder, avatar.name)
            self._cache.discard(folder)
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
        return self._read(
            avatar_id, lambda folder: self._cache.get_or_build(folder, lambda: self._load(avatar_id, folder))
        )

    def list(self) -> list[AvatarSummary]:
        """All readable avatars, by name and id; damaged bundles and those of other versions are left out."""
        found: dict[str, AvatarSummary] = {}
        for folder in (*self._bundles(self._temporary), *self._bundles(self._root)):  # in this order none is missed
            try:
                used_at = folder.stat().st_mtime if folder.parent == self._temporary else None
                size_bytes = sum(file.stat().st_size for file in folder.iterdir())
                found[folder.name] = summary_of(read_manifest(folder), size_bytes, used_at)
            except (BundleError, FileNotFoundError, NotADirectoryError):  # damaged, of another version, just deleted
                continue
        return sorted(found.values(), key=lambda summary: (summary.name, summary.avatar_id))

    def touch(self, avatar_id: str) -> None:
        """Note that an avatar is in use now, so that a temporary one stays.

        Raises:
            InvalidInputError: Not an id.
            AvatarNotFoundError: No such avatar.
            BundleError: The disk refuses.
        """
        folder, now = self._existing(avatar_id), self._wall_clock()
        if folder.parent == self._temporary:
            try:
                os.utime(folder, (now, now))
            except FileNotFoundError as error:
                raise _not_found(avatar_id) from error
            except OSError as error:
                raise BundleStorageError(str(folder), f"cannot be marked as used ({error.strerror})") from error

    def used_at(self, avatar_id: str) -> float | None:
        """Second since the epoch at which a temporary avatar was last used; None for one that stays.

        Raises:
            InvalidInputError: Not an id.
            AvatarNotFoundError: No such avatar.
        """
        folder = self._existing(avatar_id)
        try:
            return folder.stat().st_mtime if folder.parent == self._temporary else None
        except FileNotFoundError as error:
            raise _not_found(avatar_id) from error

    def expire(self, unused_s: float) -> int:
        """Remove the temporary avatars that were not used for `unused_s` seconds; how many there were.

        Raises:
            BundleError: The disk refuses to let one go; the others have gone.
        """
        before, removed, refused = self._wall_clock() - unused_s, 0, None
        for folder in self._bundles(self._temporary):
            try:
                removed += self.discard(folder.name, before)
            except BundleError as error:
                refused = error
        if refused is not None:
            raise refused
        return removed

    def discard(self, avatar_id: str, used_at: float) -> bool:
        """Remove a temporary avatar that was last used at `used_at` or before; whether it was there.

        Raises:
            InvalidInputError: Not an id.
            BundleError: The disk refuses.
        """
        folder = self._temporary / check_avatar_id(avatar_id)
        try:
            if folder.stat().st_mtime > used_at:
                return False
            self._remove(folder)
        except (FileNotFoundError, AvatarNotFoundError):  # another process was faster
            return False
        return True

    def delete(self, avatar_id: str) -> None:
        """Remove an avatar. Callers that hold it already keep their views; it is not found any more.

        Raises:
            InvalidInputError: Not an id.
            AvatarNotFoundError: No such avatar.
            BundleError: The disk refuses.
        """
        self._existing(avatar_id)
        for folder in (self._root / avatar_id, self._temporary / avatar_id):
            if folder.is_dir():
                self._remove(folder)

    def preview(self, avatar_id: str) -> bytes:
        """The preview, a JPEG of at most 512 pixels a side.

        Raises:
            InvalidInputError: Not an id.
            AvatarNotFoundError: No such avatar.
            BundleError: The bundle has lost its preview.
        """
        return self._read(avatar_id, _preview)

    def _held(self) -> Sequence[HeldAvatar]:
        """What every bundle takes, damaged ones and those of other versions included."""
        found: dict[str, HeldAvatar] = {}
        for folder in (*self._bundles(self._temporary), *self._bundles(self._root)):  # in this order none is missed
            with suppress(FileNotFoundError, NotADirectoryError):  # just deleted
                used_at = folder.stat().st_mtime if folder.parent == self._temporary else None
                size_bytes = sum(file.stat().st_size for file in folder.iterdir())
                found[folder.name] = HeldAvatar(folder.name, size_bytes, used_at)
        return list(found.values())

    def _read(self, avatar_id: str, read: Callable[[Path], T]) -> T:
        folder = self._existing(avatar_id)
        try:
            return read(folder)
        except BundleError:
            if folder.is_dir():
                raise
        return read(self._existing(avatar_id))  # it was removed while it was read, but may have come to stay

    def _existing(self, avatar_id: str) -> Path:
        name = check_avatar_id(avatar_id)
        stays, temporary = self._root / name, self._temporary / name
        for folder in (stays, temporary, stays):  # again: it may have come to stay between the two looks
            if folder.is_dir():
                return folder
            self._cache.discard(folder)
        raise _not_found(avatar_id)

    def _bundles(self, place: Path) -> Iterator[Path]:
        """What looks like a bundle by its name."""
        return (folder for folder in (place.iterdir() if place.is_dir() else ()) if _ID.fullmatch(folder.name))

    def _remove(self, folder: Path) -> None:
        trash = self._root
        try:
            trash = Path(tempfile.mkdtemp(prefix=_TRASH_PREFIX, dir=self._root))
            folder.rename(trash / folder.name)
        except FileNotFoundError as error:
            raise _not_found(folder.name) from error
        except OSError as error:
            raise BundleStorageError(str(folder), f"cannot be removed ({error.strerror})") from error
        finally:
            self._cache.discard(folder)
            if trash != self._root:
                shutil.rmtree(trash, ignore_errors=True)

    def _load(self, avatar_id: str, folder: Path) -> Avatar:
        avatar = load_bundle(folder, deep=True)
        if avatar.avatar_id != avatar_id:
            raise BundleError(str(folder), f"holds the avatar {avatar.avatar_id}")
        return avatar

    def _sweep(self) -> None:
        """Remove leftovers of processes that died while writing or deleting."""
        limit = self._wall_clock() - STALE_AFTER_S
        for pattern in (f"{TEMPORARY_PREFIX}*", f"{_TRASH_PREFIX}*", f"{TEMPORARY_FOLDER}/{TEMPORARY_PREFIX}*"):
            for folder in self._root.glob(pattern):
                try:
                    stale = folder.stat().st_mtime < limit
                except FileNotFoundError:
                    continue
                if stale:
                    shutil.rmtree(folder, ignore_errors=True)


def _write(avatar: Avatar, folder: Path) -> None:
    """`write_bundle`, after its parent has been made."""
    _make_folder(folder.parent)
    write_bundle(avatar, folder)


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BundleStorageError(str(folder), f"cannot be made ({error.strerror})") from error


def _preview(folder: Path) -> bytes:
    path = folder / PREVIEW_FILE
    try:
        return path.read_bytes()
    except OSError as error:
        raise BundleError(str(path), f"cannot be read ({error.strerror})") from error


def _not_found(avatar_id: str) -> AvatarNotFoundError:
    return AvatarNotFoundError("avatar_id", avatar_id, "the id of a registered avatar", f"no avatar {avatar_id} here")


def _nbytes(avatar: Avatar) -> int:
    own = avatar.canvas_rgb.nbytes + avatar.crop_to_canvas.nbytes + avatar.mask.nbytes
    return own + sum(array.nbytes for array in avatar.tensors.values())
