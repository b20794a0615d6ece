"""The default presenter in the store: drawn at first use, found again by the fingerprint of the code that draws it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pipeline.presenter
from pipeline.avatar_store import AvatarNotFoundError, AvatarStore
from pipeline.types import Avatar


def drawing_fingerprint() -> str:
    """SHA-256 over the files that draw the presenter: a changed drawing is drawn anew."""
    folder = Path(pipeline.presenter.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.iterdir() if p.suffix in {".py", ".npy"}):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def default_presenter(store: AvatarStore, home: Path) -> Avatar:
    """The default presenter out of `store`; drawn (about 3 s) and put there when it is not there yet.

    Args:
        store: Where it is kept.
        home: Data folder; a small note there remembers which id belongs to which drawing.
    """
    note = home / "default_presenter.json"
    fingerprint = drawing_fingerprint()
    try:
        remembered = json.loads(note.read_text(encoding="utf-8"))
        if remembered.get("fingerprint") == fingerprint:
            return store.get(remembered["avatar_id"])
    except (FileNotFoundError, json.JSONDecodeError, AvatarNotFoundError, AttributeError, KeyError):
        remembered = None  # no note, a damaged note, or a presenter that was deleted: draw it
    from pipeline.presenter.avatar import default_avatar

    avatar = store.put(default_avatar())
    home.mkdir(parents=True, exist_ok=True)
    part = note.with_suffix(".part")
    part.write_text(json.dumps({"fingerprint": fingerprint, "avatar_id": avatar.avatar_id}), encoding="utf-8")
    part.replace(note)
    return avatar
