"""The version of this code."""

from __future__ import annotations

from importlib import metadata
from typing import Final

UNINSTALLED: Final = "0+source"


def own_version() -> str:
    """As installed; `0+source` where the code lies on the path alone, as a Ray `working_dir` does."""
    try:
        return metadata.version("liveanchor")
    except metadata.PackageNotFoundError:
        return UNINSTALLED
