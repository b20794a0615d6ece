"""The families by name: the one table that knows which there are."""

from __future__ import annotations

import importlib
from functools import cache
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from kernels.errors import InvalidInputError

if TYPE_CHECKING:
    from pipeline.family import Family

FAMILIES: Final[dict[str, str]] = {
    "mini": "pipeline.mini.family",
    "ditto": "pipeline.ditto.family",
    "musetalk": "pipeline.musetalk.family",
}
"""Name -> module that holds the family's object as `FAMILY`."""
DEFAULT_FAMILY: Final = "mini"
ENTRY_POINTS: Final = "liveanchor.families"
"""Group of entry points by which an installed package adds families of its own."""


def family_modules() -> dict[str, str]:
    """The table, and after it what installed packages add."""
    return FAMILIES | {name: module for name, module in installed_families().items() if name not in FAMILIES}


def find_family(name: str) -> Family:
    """The family of that name; its module is imported now.

    Raises:
        InvalidInputError: There is none.
    """
    module = FAMILIES.get(name) or installed_families().get(name)
    if module is None:
        raise InvalidInputError("family", repr(name[:40]), ", ".join(family_modules()))
    family: Family = importlib.import_module(module).FAMILY
    return family


@cache
def installed_families() -> dict[str, str]:
    """Name -> module of the families that installed packages bring; looked for once."""
    return {point.name: point.module for point in entry_points(group=ENTRY_POINTS)}
