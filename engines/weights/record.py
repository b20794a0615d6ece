"""The note next to pulled weights: which files, from where, under which licence; and the check of files against it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from engines.weights.sets import PinnedFile

RECORD_FILE: Final = "record.json"
RECORD_SCHEMA: Final = 1
_CHUNK_BYTES: Final = 1 << 20

Fault = Literal["missing", "truncated", "altered", "unreadable"]


class FileRecord(BaseModel):
    """Size in bytes and SHA-256 (lower-case hex) of one file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    size: int = Field(ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class WeightsRecord(BaseModel):
    """Content of `record.json`; written last, so its presence means that the pull was complete."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    schema_version: Literal[1] = RECORD_SCHEMA
    name: str
    source: str
    licence: str
    pulled_at: datetime
    files: dict[str, FileRecord]

    @field_validator("files")
    @classmethod
    def _stay_inside(cls, files: dict[str, FileRecord]) -> dict[str, FileRecord]:
        for name in files:
            path = PurePosixPath(name)
            if path.is_absolute() or ".." in path.parts or not path.parts:
                raise ValueError(f"{name!r} is not a path inside the folder")
        return files


@dataclass(frozen=True)
class FileFault:
    """A fault of one file, `file` relative to the weights folder."""

    file: str
    fault: Fault

    def __str__(self) -> str:
        """For instance `face_landmark.tflite is truncated`."""
        return f"{self.file} is {self.fault}"


def sha256_file(path: Path) -> str:
    """SHA-256 of a file as lower-case hex, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def describe_file(path: Path) -> FileRecord:
    """Size and hash of a file as it lies there."""
    return FileRecord(size=path.stat().st_size, sha256=sha256_file(path))


def pinned_records(files: Iterable[PinnedFile]) -> dict[str, FileRecord]:
    """What pinned files must look like, by name."""
    return {file.name: FileRecord(size=file.size, sha256=file.sha256) for file in files}


def read_record(folder: Path) -> WeightsRecord | None:
    """The record in a weights folder, None when there is none.

    Raises:
        ValidationError: (pydantic) The file is there but is not a record.
    """
    path = folder / RECORD_FILE
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    return WeightsRecord.model_validate_json(text)


def write_record(folder: Path, record: WeightsRecord) -> None:
    """Write the record atomically (temporary sibling, fsync, rename)."""
    temporary = folder / f".{RECORD_FILE}.{os.getpid()}"
    with temporary.open("w", encoding="utf-8") as stream:
        stream.write(record.model_dump_json(indent=2) + "\n")
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(folder / RECORD_FILE)


def find_faults(folder: Path, files: Mapping[str, FileRecord], deep: bool = True) -> list[FileFault]:
    """Compare files with what they must be.

    Args:
        folder: Where they lie.
        files: Path inside the folder -> what it must be.
        deep: Hash the content too; otherwise only presence and size are compared.

    Returns:
        One entry per bad file, in the order of `files`; empty when all is well.
    """
    faults: list[FileFault] = []
    for name, expected in files.items():
        path = folder / name
        try:
            size = path.stat().st_size if path.is_file() else None
            if size is None:
                faults.append(FileFault(name, "missing"))
            elif size < expected.size:
                faults.append(FileFault(name, "truncated"))
            elif size > expected.size or (deep and sha256_file(path) != expected.sha256):
                faults.append(FileFault(name, "altered"))
        except OSError:
            faults.append(FileFault(name, "unreadable"))
    return faults


def record_faults(folder: Path, deep: bool = True) -> list[FileFault] | None:
    """Faults of a folder against its own record; None when there is no record (never pulled, or not to the end)."""
    try:
        record = read_record(folder)
    except (ValidationError, OSError):
        return [FileFault(RECORD_FILE, "unreadable")]
    return None if record is None else find_faults(folder, record.files, deep)
