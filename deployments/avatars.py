"""The avatar store of a cluster: a folder that all nodes see, or any fsspec URI with a local copy beside it."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, cast

import fsspec

from kernels.errors import InvalidInputError
from pipeline.avatar_manifest import (
    ARRAYS_FILE,
    MANIFEST_FILE,
    PREVIEW_FILE,
    BundleError,
    parse_manifest,
    read_manifest,
)
from pipeline.avatar_store import (
    AvatarNotFoundError,
    AvatarStore,
    AvatarSummary,
    avatars_dir,
    check_avatar_id,
    summary_of,
)
from pipeline.families import AvatarMaker
from pipeline.store_error import StoreUnreachableError
from pipeline.types import Avatar

_FILES = (ARRAYS_FILE, PREVIEW_FILE, MANIFEST_FILE)
"""In the order of uploading: a bundle exists for others once its manifest does."""


class Avatars(Protocol):
    """What replicas need of a store; see `pipeline.avatar_store.AvatarStore` for errors."""

    def put(self, avatar: Avatar, rename: bool = True) -> Avatar:
        """Store an avatar; with `rename` False one that has a name keeps it."""
        ...

    def get(self, avatar_id: str) -> Avatar:
        """Load an avatar."""
        ...

    def list(self) -> list[AvatarSummary]:
        """All avatars."""
        ...

    def delete(self, avatar_id: str) -> None:
        """Remove an avatar."""
        ...

    def preview_path(self, avatar_id: str) -> Path:
        """A local JPEG."""
        ...


def open_avatar_store(uri: str) -> Avatars:
    """Open a store.

    Args:
        uri: Empty for LIVEANCHOR_HOME; a path or `file://` for a folder (on several nodes: one that all of them mount); any other
            fsspec URI, such as `s3://bucket/avatars`, is mirrored into LIVEANCHOR_HOME bundle by bundle, on demand.
    """
    if not uri:
        return AvatarStore(avatars_dir())
    if uri.startswith("file://") or "://" not in uri:
        return AvatarStore(Path(uri.removeprefix("file://")).expanduser())
    return MirroredAvatarStore(uri, avatars_dir())


def default_of(store: Avatars, maker: AvatarMaker) -> Avatar:
    """The family's default presenter, made into the store where it is missing."""
    return maker.default(cast(AvatarStore, store))  # it only asks for put, get, delete and root


def check_family(avatar: Avatar, family: str) -> Avatar:
    """The avatar itself, if the family that runs here can draw it.

    Raises:
        InvalidInputError: It cannot.
    """
    if avatar.family != family:
        who = avatar.name or avatar.avatar_id
        detail = f"{who} was registered for {avatar.family}, {family} runs here: register it again"
        raise InvalidInputError("avatar_id", f"an avatar of the family {avatar.family}", f"one of {family}", detail)
    return avatar


class MirroredAvatarStore:
    """Bundles in a remote place, each copied here the first time it is asked for. Bundles never change, so copies never age.

    Args:
        uri: fsspec URI of the folder that holds the bundles.
        local: Folder of the copies.
    """

    def __init__(self, uri: str, local: Path) -> None:
        self._uri = uri
        self._local_root = local
        self._local = AvatarStore(local)
        self._fs: Any
        self._fs, self._root = fsspec.core.url_to_fs(uri)

    @property
    def root(self) -> Path:
        """Folder of the copies."""
        return self._local_root

    def put(self, avatar: Avatar, rename: bool = True) -> Avatar:
        """Store here, then upload; the manifest last."""
        if not rename:
            with suppress(AvatarNotFoundError):
                self._ensure_here(avatar.avatar_id)
        stored = self._local.put(avatar, rename)
        folder = self._local_root / stored.avatar_id
        with self._reaching():
            for name in _FILES:
                self._fs.pipe_file(self._remote(stored.avatar_id, name), (folder / name).read_bytes())
        return stored

    def get(self, avatar_id: str) -> Avatar:
        """Load, after a download where this machine has no copy."""
        self._ensure_here(avatar_id)
        return self._local.get(avatar_id)

    def list(self) -> list[AvatarSummary]:
        """All readable bundles of the remote place, by name and id; those that are damaged or of other versions are left out."""
        sizes: Counter[str] = Counter()
        with self._reaching():
            self._fs.invalidate_cache(self._root)
            for path, facts in self._fs.find(self._root, detail=True).items():
                sizes[str(path).rpartition("/")[0]] += int(facts["size"] or 0)
        rows = []
        for folder, size_bytes in sizes.items():
            with suppress(FileNotFoundError, BundleError), self._reaching():
                path = f"{folder}/{MANIFEST_FILE}"
                rows.append(summary_of(parse_manifest(self._fs.cat_file(path), path), size_bytes))
        return sorted(rows, key=lambda row: (row.name, row.avatar_id))

    def delete(self, avatar_id: str) -> None:
        """Remove the remote bundle, manifest first, and the copy here; copies on other machines stay until they are cleaned up."""
        with self._reaching():
            if not self._fs.exists(self._remote(check_avatar_id(avatar_id), MANIFEST_FILE)):
                raise AvatarNotFoundError("avatar_id", avatar_id, "the id of a registered avatar")
            self._fs.rm_file(self._remote(avatar_id, MANIFEST_FILE))
            self._fs.rm(f"{self._root}/{avatar_id}", recursive=True)
        if (self._local_root / avatar_id).is_dir():
            self._local.delete(avatar_id)

    def preview_path(self, avatar_id: str) -> Path:
        """The preview in the local copy."""
        self._ensure_here(avatar_id)
        return self._local.preview_path(avatar_id)

    def _remote(self, avatar_id: str, name: str) -> str:
        return f"{self._root}/{avatar_id}/{name}"

    def _ensure_here(self, avatar_id: str) -> None:
        target = self._local_root / check_avatar_id(avatar_id)
        if target.is_dir():
            return
        self._local_root.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".new-", dir=self._local_root))
        try:
            for name in reversed(_FILES):
                (staging / name).write_bytes(self._download(avatar_id, name))
            if read_manifest(staging).avatar_id != avatar_id:
                raise BundleError(f"{self._uri}/{avatar_id}", "holds another avatar")
            staging.chmod(0o755)
            if not target.exists():
                staging.rename(target)
        except OSError as error:
            if not target.is_dir():  # otherwise another process was faster with the same content
                raise BundleError(str(target), f"cannot be written ({error})") from error
        finally:
            shutil.rmtree(staging, ignore_errors=True)

    def _download(self, avatar_id: str, name: str) -> bytes:
        try:
            with self._reaching():
                return bytes(self._fs.cat_file(self._remote(avatar_id, name)))
        except FileNotFoundError as error:
            raise AvatarNotFoundError("avatar_id", avatar_id, "the id of a registered avatar") from error

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StoreUnreachableError(self._uri, str(error)) from error
