"""A configuration tree (plain values, numpy arrays) as JSON next to a safetensors file, and the way there from a pickle.

A public configuration pickle is read once, by `engines.ditto.plain_pickle`; afterwards only the converted files are read.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from engines.ditto.plain_pickle import read_plain_pickle
from engines.weights.file import WeightsFileError
from engines.weights.home import liveanchor_home

CONFIGS: Final = "ditto_cfg"
CONVERTED: Final = "converted"
PICKLES: Final[dict[str, tuple[str, ...]]] = {
    "offline": ("v0.4_hubert_cfg_pytorch.pkl", "v0.4_hubert_cfg_trt.pkl"),
    "online": ("v0.4_hubert_cfg_trt_online.pkl",),
}
"""Mode -> file names of public configurations, the preferred one first."""
_ARRAY_KEY: Final = "$array"
_TUPLE_KEY: Final = "$tuple"
_SOURCE_KEY: Final = "$source_sha256"


def converted_folder(folder: Path) -> Path:
    """Where files derived from a checkpoint folder are kept: inside it, or under LIVEANCHOR_HOME when it is read-only."""
    if os.access(folder, os.W_OK):
        return folder / CONVERTED
    digest = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]
    return liveanchor_home() / CONVERTED / f"{folder.name}-{digest}"


def find_pickle(folder: Path, mode: str) -> Path | None:
    """The public configuration pickle of a mode, `offline` or `online`; None when the folder has none."""
    found = (folder / CONFIGS / name for name in PICKLES[mode])
    return next((path for path in found if path.is_file()), None)


def read_config_tree(folder: Path, mode: str, cache: Path | None = None) -> dict[str, Any]:
    """The configuration of a mode as a tree; the pickle is converted the first time and whenever it changes.

    Args:
        folder: Checkpoint folder.
        mode: `offline` or `online`.
        cache: Where converted files lie; None means `converted_folder(folder)`.

    Returns:
        The tree, empty when the folder has no configuration of that mode.

    Raises:
        UnsafePickleError: The pickle asks for more than data.
        WeightsFileError: A file cannot be read, or is no configuration.
    """
    pickle = find_pickle(folder, mode)
    if pickle is None:
        return {}
    target = (cache or converted_folder(folder)) / mode
    try:
        data = pickle.read_bytes()
    except OSError as error:
        raise WeightsFileError(str(pickle), "", f"cannot be read ({error.strerror})") from error
    digest = hashlib.sha256(data).hexdigest()
    tree = _read_converted(target)
    if tree is None or tree.pop(_SOURCE_KEY, "") != digest:
        tree = read_plain_pickle(data, str(pickle))
        if not isinstance(tree, dict) or not isinstance(tree.get("default_kwargs"), dict):
            raise WeightsFileError(str(pickle), "default_kwargs", "is missing: this is no Ditto configuration")
        try:
            write_tree(target, {**tree, _SOURCE_KEY: digest})
        except OSError as error:
            raise WeightsFileError(str(target), "", f"cannot be written ({error.strerror})") from error
    return tree


def write_tree(target: Path, tree: dict[str, Any]) -> None:
    """Write a tree as `target.json` and `target.safetensors`, each atomically, the JSON last."""
    from safetensors.numpy import save

    arrays: dict[str, NDArray[Any]] = {}
    described = _describe(tree, "", arrays)
    target.parent.mkdir(parents=True, exist_ok=True)
    # an empty file is no safetensors file for every release of the library
    content = save(arrays or {"none": np.zeros(1, np.uint8)})
    for suffix, data in ((".safetensors", content), (".json", json.dumps(described, indent=1).encode())):
        temporary = target.with_name(f".{target.name}{suffix}.{os.getpid()}")
        temporary.write_bytes(data)
        temporary.replace(target.with_name(target.name + suffix))


def read_tree(target: Path) -> dict[str, Any]:
    """Read what `write_tree` wrote.

    Raises:
        WeightsFileError: A file is missing or damaged.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    path = target.with_name(f"{target.name}.json")
    try:
        arrays = load(target.with_name(f"{target.name}.safetensors").read_bytes())
        tree = _restore(json.loads(path.read_bytes()), arrays)
    except (OSError, ValueError, KeyError, SafetensorError) as error:
        raise WeightsFileError(str(path), "", f"is damaged ({error})") from error
    if not isinstance(tree, dict):
        raise WeightsFileError(str(path), "", "is no configuration")
    return tree


def _read_converted(target: Path) -> dict[str, Any] | None:
    """The converted tree; None when it is missing or damaged (it is then made again)."""
    try:
        return read_tree(target)
    except WeightsFileError:
        return None


def _describe(value: Any, name: str, arrays: dict[str, NDArray[Any]]) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        arrays[name] = np.ascontiguousarray(value)
        return {_ARRAY_KEY: name, "shape": list(value.shape)}
    if isinstance(value, dict):
        return {str(key): _describe(item, f"{name}.{key}", arrays) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_describe(item, f"{name}.{index}", arrays) for index, item in enumerate(value)]
        return {_TUPLE_KEY: items} if isinstance(value, tuple) else items
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return value


def _restore(value: Any, arrays: dict[str, NDArray[Any]]) -> Any:
    if isinstance(value, dict):
        if _ARRAY_KEY in value:
            return arrays[value[_ARRAY_KEY]].reshape(value["shape"])
        if _TUPLE_KEY in value:
            return tuple(_restore(item, arrays) for item in value[_TUPLE_KEY])
        return {key: _restore(item, arrays) for key, item in value.items()}
    return [_restore(item, arrays) for item in value] if isinstance(value, list) else value
