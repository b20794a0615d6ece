"""An avatar on disk: a folder with `manifest.json`, `arrays.safetensors` and `preview.jpg`; no pickle anywhere.

**Identity.** `content_id` is the SHA-256 over what the viewer can see and the renderer uses: family, control-point version,
rectangle, and every array (name, element type, shape, bytes). The name is *not* part of it, so one picture registered twice
under two names is one avatar; neither are the preview and the time.

**Atomicity.** A bundle is written to a hidden sibling folder, every file is flushed to disk, and the folder is renamed.
Readers therefore see a whole bundle or none.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engines.motion_version import CONTROL_POINTS_VERSION
from kernels.errors import ShapeError
from pipeline.avatars.arrays import check_array
from pipeline.avatars.manifest import (
    ARRAYS_FILE,
    BUNDLE_SCHEMA,
    ID_DIGITS,
    MANIFEST_FILE,
    NAME_LENGTH,
    PREVIEW_FILE,
    BundleError,
    BundleStorageError,
    FileEntry,
    Manifest,
    RectEntry,
    read_manifest,
)
from pipeline.avatars.tensor_file import DTYPES, TensorFileError, map_tensors
from pipeline.families import family_modules, find_family
from pipeline.types import CROP_SIZE, Avatar, FaceRect

TEMPORARY_PREFIX: Final = ".new-"
PREVIEW_PX: Final = 512
_PREVIEW_QUALITY: Final = 88
_TENSOR_PREFIX: Final = "tensors."


def content_id(avatar: Avatar) -> str:
    """Identity of an avatar, 32 lower-case hex digits; ignores `avatar_id` and `name`.

    Canonical form: one line of JSON (schema, family, control-point version, rectangle), then for every array in
    order of its name one line of JSON (name, element type, shape) and its C-ordered little-endian bytes.
    """
    rect = avatar.rect
    digest = hashlib.sha256()
    head = [BUNDLE_SCHEMA, avatar.family, CONTROL_POINTS_VERSION, [rect.x, rect.y, rect.w, rect.h]]
    digest.update(json.dumps(head).encode() + b"\n")
    for name, array in sorted(_arrays(avatar).items()):
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        digest.update(json.dumps([name, little.dtype.name, list(little.shape)]).encode() + b"\n")
        digest.update(little.data)
    return digest.hexdigest()[:ID_DIGITS]


def write_bundle(avatar: Avatar, target: Path) -> None:
    """Write a bundle as the folder `target`, atomically.

    Args:
        avatar: What to write; `avatar_id` must be its `content_id`.
        target: The folder to make; its parent must exist. When it already exists it is left as it is.

    Raises:
        ShapeError: An array has the wrong shape or type.
        BundleError: The id is not the content's, or the disk refuses.
    """
    from safetensors.numpy import save

    check_avatar(avatar)
    if avatar.avatar_id != content_id(avatar):
        raise BundleError(str(target), f"the id {avatar.avatar_id} is not that of the content")
    try:
        staging = Path(tempfile.mkdtemp(prefix=TEMPORARY_PREFIX, dir=target.parent))
    except OSError as error:
        raise BundleStorageError(str(target.parent), f"cannot be written ({error})") from error
    try:
        contents = {ARRAYS_FILE: save(_arrays(avatar)), PREVIEW_FILE: _preview(avatar)}
        for name, data in contents.items():
            _write(staging / name, data)
        _write(staging / MANIFEST_FILE, _manifest(avatar, contents).model_dump_json(indent=2).encode())
        _sync_folder(staging)
        staging.chmod(0o755)
        if not target.exists():
            staging.rename(target)
            _sync_folder(target.parent)
    except OSError as error:
        if not target.is_dir():  # otherwise another process was faster with the same content
            raise BundleStorageError(str(target), f"cannot be written ({error})") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def rename_avatar(folder: Path, name: str) -> None:
    """Give a bundle another name, atomically; nothing else changes.

    Raises:
        BundleError: The bundle is damaged or the disk refuses.
    """
    manifest = read_manifest(folder)
    path = folder / f".{MANIFEST_FILE}.{os.getpid()}"
    try:
        _write(path, manifest.model_copy(update={"name": name[:NAME_LENGTH]}).model_dump_json(indent=2).encode())
        path.replace(folder / MANIFEST_FILE)
    except OSError as error:
        raise BundleStorageError(str(path), f"cannot be written ({error})") from error


def load_bundle(folder: Path, deep: bool = False) -> Avatar:
    """Load an avatar; its arrays are read-only views of the memory-mapped file.

    Args:
        folder: The bundle.
        deep: Also hash every file and compare with the manifest. Otherwise sizes, the manifest and the arrays'
            description are checked, which finds everything but altered pixels.

    Raises:
        BundleSchemaError: Written by another version.
        BundleError: A file is missing, cut short or altered; the message names it.
    """
    manifest = read_manifest(folder)
    for name in (ARRAYS_FILE, PREVIEW_FILE):
        _check_file(folder / name, manifest.files.get(name), deep)
    path = folder / ARRAYS_FILE
    try:
        arrays = map_tensors(path)
        avatar = _to_avatar(manifest, arrays)
        check_avatar(avatar)
    except (TensorFileError, ShapeError, KeyError, OSError) as error:
        raise BundleError(str(path), f"is damaged ({error})") from error
    return avatar


def check_avatar(avatar: Avatar) -> None:
    """Refuse an avatar whose arrays do not have the shapes and types that `pipeline.types.Avatar` promises.

    Raises:
        ShapeError: Names the array.
    """
    canvas = avatar.canvas_rgb
    if canvas.ndim != 3 or canvas.shape[0] % 2 or canvas.shape[1] % 2:
        raise ShapeError("canvas_rgb", str(canvas.shape), "(H, W, 3) with even sides")
    check_array("canvas_rgb", canvas, np.uint8, (*canvas.shape[:2], 3))
    check_array("crop_to_canvas", avatar.crop_to_canvas, np.float32, (2, 3))
    check_array("mask", avatar.mask, np.float32, (CROP_SIZE, CROP_SIZE))
    if avatar.family in family_modules():  # what no family here can draw can still be listed, shown and removed
        find_family(avatar.family).check_tensors(avatar)
    rect = avatar.rect
    if rect.x + rect.w > canvas.shape[1] or rect.y + rect.h > canvas.shape[0]:
        raise ShapeError("rect", str(rect), f"inside {canvas.shape[1]}x{canvas.shape[0]}")


def _arrays(avatar: Avatar) -> dict[str, NDArray[np.generic]]:
    named: dict[str, NDArray[np.generic]] = {
        "canvas_rgb": avatar.canvas_rgb,
        "crop_to_canvas": avatar.crop_to_canvas,
        "mask": avatar.mask,
    }
    named |= {_TENSOR_PREFIX + name: array for name, array in avatar.tensors.items()}
    for name, array in named.items():
        if array.dtype.type not in DTYPES.values():
            raise ShapeError(name, str(array.dtype), ", ".join(np.dtype(kind).name for kind in DTYPES.values()))
    return {name: np.ascontiguousarray(array) for name, array in named.items()}


def _to_avatar(manifest: Manifest, arrays: dict[str, NDArray[np.generic]]) -> Avatar:
    canvas = arrays["canvas_rgb"]
    if canvas.shape[:2] != (manifest.height, manifest.width):
        raise ShapeError("canvas_rgb", str(canvas.shape), f"({manifest.height}, {manifest.width}, 3)")
    return Avatar(
        avatar_id=manifest.avatar_id,
        family=manifest.family,
        name=manifest.name,
        canvas_rgb=canvas,  # type: ignore[arg-type]  # check_avatar proves the element types
        rect=FaceRect(**manifest.rect.model_dump()),
        crop_to_canvas=arrays["crop_to_canvas"],  # type: ignore[arg-type]  # likewise
        mask=arrays["mask"],  # type: ignore[arg-type]  # likewise
        tensors={k.removeprefix(_TENSOR_PREFIX): v for k, v in arrays.items() if k.startswith(_TENSOR_PREFIX)},
    )


def _manifest(avatar: Avatar, contents: dict[str, bytes]) -> Manifest:
    rect = avatar.rect
    return Manifest(
        avatar_id=avatar.avatar_id,
        family=avatar.family,
        control_points_version=CONTROL_POINTS_VERSION,
        name=avatar.name[:NAME_LENGTH],
        width=int(avatar.canvas_rgb.shape[1]),
        height=int(avatar.canvas_rgb.shape[0]),
        rect=RectEntry(x=rect.x, y=rect.y, w=rect.w, h=rect.h),
        files={
            name: FileEntry(size=len(data), sha256=hashlib.sha256(data).hexdigest()) for name, data in contents.items()
        },
    )


def _check_file(path: Path, expected: FileEntry | None, deep: bool) -> None:
    if expected is None:
        raise BundleError(str(path.parent / MANIFEST_FILE), f"does not list {path.name}")
    try:
        size = path.stat().st_size
        if size != expected.size:
            raise BundleError(str(path), f"has {size} bytes, expected {expected.size}")
        if deep:
            with path.open("rb") as stream:
                if hashlib.file_digest(stream, "sha256").hexdigest() != expected.sha256:
                    raise BundleError(str(path), "was altered (its SHA-256 is not the recorded one)")
    except OSError as error:
        raise BundleError(str(path), f"cannot be read ({error.strerror})") from error


def _preview(avatar: Avatar) -> bytes:
    from PIL import Image

    image = Image.fromarray(avatar.canvas_rgb)
    image.thumbnail((PREVIEW_PX, PREVIEW_PX), Image.Resampling.BOX)
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=_PREVIEW_QUALITY)
    return stream.getvalue()


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
