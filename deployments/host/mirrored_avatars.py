"""An avatar store at any fsspec URI, with a copy of its bundles on every machine that uses them.

The remote place has the same folders as a local store (`pipeline.avatars.store`). It has no times of use that could be set, so a
use of a temporary avatar is an empty file next to its bundle, `temporary/<id>.<milliseconds in hex>`: one listing tells
everything, and no process overwrites what another has written.
"""

from __future__ import annotations

import math
import re
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import fsspec

from pipeline.avatars.manifest import (
    ARRAYS_FILE,
    MANIFEST_FILE,
    PREVIEW_FILE,
    BundleError,
    parse_manifest,
    read_manifest,
)
from pipeline.avatars.quota import IN_USE_S, AvatarQuota, HeldAvatar, leaving, locked, make_room
from pipeline.avatars.store import (
    STALE_AFTER_S,
    TEMPORARY_FOLDER,
    AvatarNotFoundError,
    AvatarStore,
    AvatarSummary,
    check_avatar_id,
    summary_of,
)
from pipeline.store_error import reaching
from pipeline.types import Avatar

_FILES: Final = (ARRAYS_FILE, PREVIEW_FILE, MANIFEST_FILE)
"""Files of a bundle in the order of uploading: a bundle exists for others once its manifest does."""
_STAYS: Final = ""
_MARK: Final = re.compile(r"([0-9a-f]{32})\.([0-9a-f]{12})")
_SHELVES: Final = (_STAYS, TEMPORARY_FOLDER)
_Listing = tuple[Counter[tuple[str, str]], dict[str, list[int]]]
"""Sizes in bytes by (shelf, id), and times of use in milliseconds by id."""


class MirroredAvatarStore:
    """Keeps bundles in a remote place and copies each one here when it is first asked for. Bundles never change, nor do copies.

    Args:
        uri: fsspec URI of the folder that holds the bundles.
        local: Folder of the copies.
        wall_clock: Gives seconds since the epoch.
    """

    def __init__(self, uri: str, local: Path, wall_clock: Callable[[], float] = time.time) -> None:
        self._uri = uri
        self._local_root = local
        self._local = AvatarStore(local, wall_clock=wall_clock)
        self._wall_clock = wall_clock
        self._fs: Any
        self._fs, self._root = fsspec.core.url_to_fs(uri)

    @property
    def root(self) -> Path:
        """Folder of the copies."""
        return self._local_root

    def check_room(self, quota: AvatarQuota) -> None:
        """Raise AvatarsFullError where one more avatar could not come in now."""
        leaving(self._held(), quota, self._wall_clock())

    def put(
        self, avatar: Avatar, rename: bool = True, temporary: bool = False, quota: AvatarQuota | None = None
    ) -> Avatar:
        """Store the avatar here, then upload its files, the manifest last.

        The quota holds among the processes of this machine. An object store has no locks, so machines that put avatars at the same
        moment may exceed it by one avatar each.
        """
        avatar_id = check_avatar_id(avatar.avatar_id)
        if quota is None:
            return self._put(avatar, avatar_id, rename, temporary)
        self._local_root.mkdir(parents=True, exist_ok=True)
        with locked(self._local_root):
            if not any(self._exists(shelf, avatar_id) for shelf in _SHELVES):
                make_room(self._held, self.discard, quota, self._wall_clock())
            return self._put(avatar, avatar_id, rename, temporary)

    def _put(self, avatar: Avatar, avatar_id: str, rename: bool, temporary: bool) -> Avatar:
        if temporary:
            if self._exists(_STAYS, avatar_id):
                return self.get(avatar_id)
            with suppress(AvatarNotFoundError):
                if self._local.used_at(avatar_id) is None:  # a copy of one that stayed until it was removed
                    self._local.delete(avatar_id)
            self._mark(avatar_id)
        elif not rename:
            with suppress(AvatarNotFoundError):
                self._fetch(_STAYS, avatar_id)
        stored = self._local.put(avatar, rename, temporary)
        stays = self._local.used_at(avatar_id) is None  # another process may have seen to that meanwhile
        shelf = _STAYS if stays else TEMPORARY_FOLDER
        with reaching(self._uri):
            for name in _FILES:
                path = self._local_root / shelf / avatar_id / name
                self._fs.pipe_file(self._remote(shelf, avatar_id, name), path.read_bytes())
        if stays:
            self._remove(TEMPORARY_FOLDER, avatar_id)
        return stored

    def get(self, avatar_id: str) -> Avatar:
        """Load an avatar, after a download where this machine has no copy."""
        self._ensure_here(avatar_id)
        return self._local.get(avatar_id)

    def list(self) -> list[AvatarSummary]:
        """List the bundles of the remote place by name and id; damaged ones and ones of other versions are left out."""
        sizes, uses = self._listing()
        rows: dict[str, AvatarSummary] = {}
        for shelf, avatar_id in sorted(sizes):
            with suppress(FileNotFoundError, BundleError), reaching(self._uri):
                path = self._remote(shelf, avatar_id, MANIFEST_FILE)
                manifest = parse_manifest(self._fs.cat_file(path), path)
                used_at = _last(uses, avatar_id) if shelf else None
                rows.setdefault(avatar_id, summary_of(manifest, sizes[shelf, avatar_id], used_at))
        return sorted(rows.values(), key=lambda row: (row.name, row.avatar_id))

    def touch(self, avatar_id: str) -> None:
        """Note a use of a temporary avatar in the remote place; one that is not there any more is not used from a copy here."""
        self._ensure_here(avatar_id)
        if self._local.used_at(avatar_id) is None:
            return
        self._mark(avatar_id)
        if self._exists(TEMPORARY_FOLDER, avatar_id):
            self._local.touch(avatar_id)
        else:  # it has come to stay, or it is gone
            self._local.discard(avatar_id, math.inf)
            self._ensure_here(avatar_id)

    def used_at(self, avatar_id: str) -> float | None:
        """Tell when a temporary avatar was last used on any machine, in seconds since the epoch; None for one that stays."""
        self._ensure_here(avatar_id)
        if self._local.used_at(avatar_id) is None:
            return None
        return _last(self._listing(TEMPORARY_FOLDER)[1], avatar_id)

    def expire(self, unused_s: float) -> int:
        """Remove temporary bundles that were not used for `unused_s` seconds, marks of use that are outdated, and old copies here.

        Returns:
            Number of bundles removed.
        """
        (sizes, uses), now = self._listing(TEMPORARY_FOLDER), self._wall_clock()
        old = [avatar_id for _, avatar_id in sizes if _last(uses, avatar_id) < now - unused_s]
        removed = sum(self._remove(TEMPORARY_FOLDER, avatar_id) for avatar_id in old)
        for avatar_id, marks in uses.items():
            kept = (TEMPORARY_FOLDER, avatar_id) in sizes or _last(uses, avatar_id) > now - IN_USE_S
            for mark in sorted(marks)[: -1 if kept else None]:
                with suppress(FileNotFoundError), reaching(self._uri):
                    self._fs.rm_file(self._mark_path(avatar_id, mark))
        self._local.expire(STALE_AFTER_S)
        return removed

    def discard(self, avatar_id: str, used_at: float) -> bool:
        """Remove a temporary bundle if it was not used since `used_at`, and return whether it was removed."""
        if _last(self._listing(TEMPORARY_FOLDER)[1], check_avatar_id(avatar_id)) > used_at:
            return False
        return self._remove(TEMPORARY_FOLDER, avatar_id)

    def delete(self, avatar_id: str) -> None:
        """Remove the remote bundle, manifest first, and the copy here; copies on other machines stay until they are cleaned up."""
        found = [self._remove(shelf, check_avatar_id(avatar_id)) for shelf in _SHELVES]
        with suppress(AvatarNotFoundError):
            self._local.delete(avatar_id)
        if not any(found):
            raise AvatarNotFoundError("avatar_id", avatar_id, "the id of a registered avatar")

    def preview(self, avatar_id: str) -> bytes:
        """Read the JPEG preview from the local copy, after a download where this machine has none."""
        self._ensure_here(avatar_id)
        return self._local.preview(avatar_id)

    def _held(self) -> Sequence[HeldAvatar]:
        """What every bundle of the remote place takes."""
        sizes, uses = self._listing()
        found: dict[str, HeldAvatar] = {}
        for shelf, avatar_id in sorted(sizes):  # avatars that stay come first
            used_at = _last(uses, avatar_id) if shelf else None
            found.setdefault(avatar_id, HeldAvatar(avatar_id, sizes[shelf, avatar_id], used_at))
        return list(found.values())

    def _remote(self, shelf: str, avatar_id: str, name: str = "") -> str:
        return "/".join(part for part in (self._root, shelf, avatar_id, name) if part)

    def _mark_path(self, avatar_id: str, milliseconds: int) -> str:
        return self._remote(TEMPORARY_FOLDER, f"{avatar_id}.{milliseconds:012x}")

    def _mark(self, avatar_id: str) -> None:
        with reaching(self._uri):
            self._fs.pipe_file(self._mark_path(avatar_id, int(self._wall_clock() * 1000)), b"")

    def _listing(self, shelf: str = "") -> _Listing:
        sizes: Counter[tuple[str, str]] = Counter()
        uses: dict[str, list[int]] = {}
        with reaching(self._uri):
            self._fs.invalidate_cache(self._remote(shelf, ""))
            found = self._fs.find(self._remote(shelf, ""), detail=True)
        depth = len(_parts(self._root))
        for path, facts in found.items():
            *folders, name = _parts(str(path))[depth:]
            if folders == [TEMPORARY_FOLDER]:
                if mark := _MARK.fullmatch(name):
                    uses.setdefault(mark[1], []).append(int(mark[2], 16))
            elif len(folders) == 1 or (len(folders) == 2 and folders[0] == TEMPORARY_FOLDER):
                sizes["/".join(folders[:-1]), folders[-1]] += int(facts["size"] or 0)
        return sizes, uses

    def _exists(self, shelf: str, avatar_id: str) -> bool:
        path = self._remote(shelf, avatar_id, MANIFEST_FILE)
        with reaching(self._uri):
            self._fs.invalidate_cache(path)
            return bool(self._fs.exists(path))

    def _remove(self, shelf: str, avatar_id: str) -> bool:
        """Whether it was there. Where another process is faster, that is all right."""
        found = self._exists(shelf, avatar_id)
        if found:
            with suppress(FileNotFoundError), reaching(self._uri):
                self._fs.rm_file(self._remote(shelf, avatar_id, MANIFEST_FILE))
        if found or shelf:
            with suppress(FileNotFoundError), reaching(self._uri):
                self._fs.rm(self._remote(shelf, avatar_id), recursive=True)
        if shelf:
            self._local.discard(avatar_id, math.inf)
        return found

    def _ensure_here(self, avatar_id: str) -> None:
        with suppress(AvatarNotFoundError):
            self._local.used_at(avatar_id)
            return
        try:
            self._fetch(_STAYS, avatar_id)
        except AvatarNotFoundError:
            self._local.expire(STALE_AFTER_S)
            self._fetch(TEMPORARY_FOLDER, avatar_id)
            self._local.touch(avatar_id)

    def _fetch(self, shelf: str, avatar_id: str) -> None:
        target = self._local_root / shelf / check_avatar_id(avatar_id)
        if target.is_dir():
            return
        self._local_root.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".new-", dir=self._local_root))
        try:
            for name in reversed(_FILES):
                (staging / name).write_bytes(self._download(shelf, avatar_id, name))
            if read_manifest(staging).avatar_id != avatar_id:
                raise BundleError(f"{self._uri}/{avatar_id}", "holds another avatar")
            staging.chmod(0o755)
            target.parent.mkdir(exist_ok=True)
            if not target.exists():
                staging.rename(target)
        except OSError as error:
            if not target.is_dir():  # otherwise another process was faster with the same content
                raise BundleError(str(target), f"cannot be written ({error})") from error
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _download(self, shelf: str, avatar_id: str, name: str) -> bytes:
        try:
            with reaching(self._uri):
                return bytes(self._fs.cat_file(self._remote(shelf, avatar_id, name)))
        except FileNotFoundError as error:
            raise AvatarNotFoundError("avatar_id", avatar_id, "the id of a registered avatar") from error


def _last(uses: dict[str, list[int]], avatar_id: str) -> float:
    """Second since the epoch of the last use that is known; 0 without one."""
    return max(uses.get(avatar_id, [0])) / 1000


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
