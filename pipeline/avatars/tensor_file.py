"""Read-only, memory-mapped numpy views of a safetensors file: no copy is made, and processes share the page cache.

The `safetensors` library writes the file; its numpy reader copies every array, so the short header is read here. Every
number in it is checked against the file before an array is made.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from kernels.arrays import U8

DTYPES: Final[dict[str, type[np.generic]]] = {
    "BOOL": np.bool_,
    "U8": np.uint8,
    "I32": np.int32,
    "I64": np.int64,
    "F16": np.float16,
    "F32": np.float32,
    "F64": np.float64,
}
"""Element types that a bundle may hold."""
MAX_HEADER_BYTES: Final = 1 << 20
_LENGTH_BYTES: Final = 8
_METADATA_KEY: Final = "__metadata__"


class TensorFileError(ValueError):
    """The file is no well-formed safetensors file, or holds an element type that we do not use."""


def map_tensors(path: Path) -> dict[str, NDArray[np.generic]]:
    """All arrays of a safetensors file, by name.

    Args:
        path: The file. It must not be changed while views are alive; deleting or replacing it is harmless.

    Returns:
        Read-only C-ordered views into one memory map.

    Raises:
        OSError: The file cannot be opened.
        TensorFileError: It is damaged.
    """
    if path.stat().st_size <= _LENGTH_BYTES:
        raise TensorFileError("shorter than a header")
    data = np.asarray(np.memmap(path, dtype=np.uint8, mode="r"))
    length = int.from_bytes(data[:_LENGTH_BYTES].tobytes(), "little")
    if not 2 <= length <= min(MAX_HEADER_BYTES, data.size - _LENGTH_BYTES):
        raise TensorFileError(f"header length {length}")
    body = data[_LENGTH_BYTES + length :]
    return {
        name: _view(name, entry, body)
        for name, entry in _header(data[_LENGTH_BYTES : _LENGTH_BYTES + length].tobytes()).items()
        if name != _METADATA_KEY
    }


def held_bytes(array: NDArray[np.generic]) -> int:
    """Bytes of memory that an array holds: none where it is a view of a mapped file, which the system takes back as it likes."""
    base: object = array
    while isinstance(base, np.ndarray) and base.base is not None:
        base = base.base
    return 0 if isinstance(base, mmap.mmap) else array.nbytes


def _header(text: bytes) -> Mapping[str, Any]:
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise TensorFileError(f"header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise TensorFileError("header is not an object")
    return header


def _view(name: str, entry: Any, body: U8) -> NDArray[np.generic]:
    try:
        dtype, shape, (begin, end) = np.dtype(DTYPES[entry["dtype"]]), entry["shape"], entry["data_offsets"]
    except (KeyError, TypeError, ValueError) as error:
        raise TensorFileError(f"array {name!r} is described wrongly") from error
    numbers = [*shape, begin, end] if isinstance(shape, list) else [None]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise TensorFileError(f"array {name!r} has shape {shape!r} at {begin!r}..{end!r}")
    if end > body.size or end - begin != math.prod(shape) * dtype.itemsize:
        raise TensorFileError(f"array {name!r} does not fit: {begin}..{end} of {body.size} bytes, shape {shape}")
    return np.ndarray(shape, dtype=dtype, buffer=body.data, offset=begin)
