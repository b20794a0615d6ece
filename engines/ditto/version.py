"""Which weights something was made with: a short digest over the files that it depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from engines.ditto.checkpoints import HUBERT_FILE, MISSING_FILE, NETWORK_FILES
from engines.weights.file import WeightsFileError
from engines.weights.record import WeightsRecord, read_record, sha256_file

SOURCE_FILES: Final = tuple(NETWORK_FILES[name] for name in ("appearance_extractor", "motion_extractor"))
"""What an avatar's features and motion depend on."""
MOTION_FILES: Final = (NETWORK_FILES["lmdm"],)
AUDIO_FILES: Final = (HUBERT_FILE,)
_DIGITS: Final = 16


def files_version(folder: Path, files: Sequence[str]) -> str:
    """Digest over files of a checkpoint folder, 16 lower-case hex digits.

    The record next to pulled weights is believed where it lists a file; other files are hashed, once per process while size and
    time of change stay: every job asks for the default presenter, whose extractors are 116 MB.

    Raises:
        WeightsFileError: A file is missing.
    """
    record = _record(folder)
    digest = hashlib.sha256()
    for name in files:
        known = record.files.get(name) if record else None
        try:
            digest.update(f"{name}|{known.sha256 if known else _hash(folder / name)}\n".encode())
        except FileNotFoundError as error:
            raise WeightsFileError(str(folder / name), "", MISSING_FILE) from error
        except OSError as error:
            raise WeightsFileError(str(folder / name), "", f"cannot be read ({error.strerror})") from error
    return digest.hexdigest()[:_DIGITS]


def _hash(path: Path) -> str:
    found = path.stat()
    return _hash_once(path, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=64)
def _hash_once(path: Path, size: int, changed_ns: int) -> str:
    return sha256_file(path)


def _record(folder: Path) -> WeightsRecord | None:
    try:
        return read_record(folder)
    except (ValidationError, OSError):
        return None
