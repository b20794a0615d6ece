"""Everything that this machine can hold for the service, of all families and of what they share: weights and TensorRT engines."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from engines.face.weights import FACE
from engines.rife.weights import RIFE, RIFE_40
from engines.weights.sets import WeightsEntry, WheelSource
from kernels.errors import InvalidInputError
from pipeline.families import family_modules, find_family

if TYPE_CHECKING:
    from engines.tensorrt.recipes import Recipe


def weight_sets() -> dict[str, WeightsEntry]:
    """Name -> set, in the order in which `liveanchor weights list` shows them."""
    owned = [entry for name in family_modules() for entry in find_family(name).weights]
    return {entry.name: entry for entry in (FACE, *owned, RIFE, RIFE_40)}


def find_weights(name: str) -> WeightsEntry:
    """The set of that name.

    Raises:
        InvalidInputError: There is none.
    """
    sets = weight_sets()
    if name not in sets:
        raise InvalidInputError("name", repr(name[:60]), ", ".join(sets))
    return sets[name]


def set_in(folder: Path) -> WeightsEntry:
    """The one set of which a folder holds files, by their names.

    Raises:
        InvalidInputError: It holds files of no set, or of more than one.
    """
    found = [entry for entry in weight_sets().values() if any(next(folder.glob(one), None) for one in _patterns(entry))]
    if not found:
        raise InvalidInputError("DIR", str(folder), "a folder with files of a set that `weights list` prints")
    if len(found) > 1:
        raise InvalidInputError("--name", "none", ", ".join(entry.name for entry in found))
    return found[0]


def _patterns(entry: WeightsEntry) -> tuple[str, ...]:
    source = entry.source
    return tuple(file.name for file in source.files) if isinstance(source, WheelSource) else source.allow_patterns


def engine_recipes() -> list[Recipe]:
    """Every TensorRT engine that can be built, in the order in which `liveanchor engine` goes through them."""
    from engines.rife.recipes import RECIPES

    return [*(recipe for name in family_modules() for recipe in find_family(name).engines()), *RECIPES]
