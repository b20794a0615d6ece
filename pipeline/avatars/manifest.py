"""`manifest.json` of an avatar bundle: everything small about an avatar, and sizes and hashes of the other files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engines.motion_version import CONTROL_POINTS_VERSION
from engines.weights.home import HOME_ENV
from kernels.errors import LiveAnchorError

BUNDLE_SCHEMA: Final = 2
"""2: avatars of `mini` may hold the person's outline, and their rectangle is what moves, not the face crop alone."""
MANIFEST_FILE: Final = "manifest.json"
ARRAYS_FILE: Final = "arrays.safetensors"
PREVIEW_FILE: Final = "preview.jpg"
ID_DIGITS: Final = 32
NAME_LENGTH: Final = 200
_MAX_MANIFEST_BYTES: Final = 1 << 16


class BundleError(LiveAnchorError):
    """A bundle on disk cannot be used.

    Args:
        path: The file (or folder) at fault.
        reason: What is wrong with it.
    """

    code = "avatar_bundle_damaged"

    advice = "register the avatar again"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        """Say in one line: the file, the reason, what to do."""
        return f"{self.path}: {self.reason}; {self.advice}"


class BundleSchemaError(BundleError):
    """The bundle was written by another version of this project: not damaged, but not readable either."""

    code = "avatar_bundle_schema"


class BundleStorageError(BundleError):
    """The disk refuses: nothing is wrong with the avatar."""

    code = "avatar_storage"
    advice = f"its folder must be on a disk that can be written and has room; {HOME_ENV} names another"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileEntry(_Strict):
    """Size in bytes and SHA-256 of one file."""

    size: int = Field(ge=1)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class RectEntry(_Strict):
    """Where the face crop lands, canvas pixels."""

    x: int = Field(ge=0, multiple_of=2)
    y: int = Field(ge=0, multiple_of=2)
    w: int = Field(ge=2, multiple_of=2)
    h: int = Field(ge=2, multiple_of=2)


class Manifest(_Strict):
    """Content of `manifest.json`; sizes and hashes of the other files, everything small about the avatar."""

    schema_version: Literal[2] = BUNDLE_SCHEMA
    avatar_id: str = Field(pattern=f"^[0-9a-f]{{{ID_DIGITS}}}$")
    family: str = Field(pattern="^[a-z][a-z0-9_]{0,31}$")
    control_points_version: int
    name: str = Field(max_length=NAME_LENGTH)
    width: int = Field(ge=2, le=1920, multiple_of=2)
    height: int = Field(ge=2, le=1920, multiple_of=2)
    rect: RectEntry
    files: dict[Literal["arrays.safetensors", "preview.jpg"], FileEntry]


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a bundle, checked.

    Raises:
        BundleSchemaError: Written by another version.
        BundleError: Missing, unreadable or damaged.
    """
    path = folder / MANIFEST_FILE
    try:
        with path.open("rb") as stream:
            text = stream.read(_MAX_MANIFEST_BYTES + 1)
    except OSError as error:
        raise BundleError(str(path), f"cannot be read ({error.strerror})") from error
    return parse_manifest(text, str(path))


def parse_manifest(text: bytes, where: str) -> Manifest:
    """A manifest, checked.

    Args:
        text: Its JSON.
        where: Path of the file, for errors.

    Raises:
        BundleSchemaError: Written by another version.
        BundleError: Damaged.
    """
    try:
        fields = json.loads(text)
        schema = fields["schema_version"]
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise BundleError(where, "is damaged") from error
    if schema != BUNDLE_SCHEMA:
        raise BundleSchemaError(where, f"has schema {str(schema)[:20]}, this version reads {BUNDLE_SCHEMA}")
    try:
        manifest = Manifest.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise BundleError(where, f"is damaged: {field}: {first['msg']}") from error
    if manifest.control_points_version != CONTROL_POINTS_VERSION:
        found = manifest.control_points_version
        raise BundleSchemaError(where, f"has control points {found}, this version uses {CONTROL_POINTS_VERSION}")
    return manifest
