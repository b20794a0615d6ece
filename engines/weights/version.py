"""Which weights something was made with: a short digest over the files that it depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from engines.weights.file import WeightsFileError
from engines.weights.record import WeightsRecord, read_record, sha256_file

_DIGITS: Final = 16


def digest_of_files(folder: Path, files: Sequence[str], missing: str) -> str:
    """Digest over files of a weights folder, 16 lower-case hex digits.

    The record next to pulled weights is believed where it lists a file; other files are hashed, once per process while size and
    time of change stay: every job asks for the default presenter, whose extractors may be large.

    Args:
        folder: Where they lie.
        files: Their paths inside it.
        missing: What an operator does about a file that is not there.

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
            raise WeightsFileError(str(folder / name), "", missing) from error
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
