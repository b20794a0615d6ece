"""Presenters that the project makes itself: made once per machine and version, then read from the store."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.types import Avatar

if TYPE_CHECKING:
    from pipeline.avatars.store import AvatarStore


def keep_presenter(store: AvatarStore, pointer_file: str, version: str, make: Callable[[], Avatar]) -> Avatar:
    """A presenter that the project makes itself: from the store, or made and put there.

    Args:
        store: Where to keep it.
        pointer_file: Name of the note in the store's folder that says which avatar it is.
        version: Version of what `make` makes; another version makes it anew.
        make: Makes it.

    Raises:
        BundleError: The store cannot be written.
    """
    known = _read_pointer(store.root / pointer_file, version)
    if known is not None:
        kept = _kept(store, known)
        if kept is not None:
            return kept
    avatar = store.put(make())
    _write_pointer(store.root / pointer_file, version, avatar.avatar_id)
    return avatar


def _kept(store: AvatarStore, avatar_id: str) -> Avatar | None:
    """The stored presenter; None when it was deleted, is of another schema, or was damaged (then it is removed)."""
    from kernels.errors import InvalidInputError
    from pipeline.avatars.manifest import BundleError, BundleSchemaError

    try:
        return store.get(avatar_id)
    except (InvalidInputError, BundleSchemaError):
        return None
    except BundleError:
        store.delete(avatar_id)
        return None


@cache
def drawing_version() -> str:
    """Hash of the code and the table that make the picture and its crop: another drawing, another version."""
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for path in (*sorted(package.glob("*.py")), package / "template.npy", package.parent / "avatars" / "face_crop.py"):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _read_pointer(path: Path, version: str) -> str | None:
    try:
        pointer = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(pointer, dict) or pointer.get("drawing") != version:
        return None
    known = pointer.get("avatar_id")
    return known if isinstance(known, str) else None


def _write_pointer(path: Path, version: str, avatar_id: str) -> None:
    """Write it whole or not at all: several processes may share the folder."""
    handle, name = tempfile.mkstemp(prefix=path.name, dir=path.parent)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump({"drawing": version, "avatar_id": avatar_id}, stream)
    Path(name).replace(path)
