"""Options that the `engine` commands share."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engines.tensorrt.library import Library


class LibraryName(StrEnum):
    """Which TensorRT to use."""

    auto = "auto"
    tensorrt = "tensorrt"
    tensorrt_rtx = "tensorrt_rtx"


def library_of(name: LibraryName, *, cross_build: bool = False) -> Library:
    """The library of an option; a build for a card that is elsewhere takes the one that can, unless another was named.

    Raises:
        TensorRtMissingError: It cannot be used here.
    """
    from engines.tensorrt.library import find_library

    if name is LibraryName.tensorrt:
        return find_library("tensorrt")
    if name is LibraryName.tensorrt_rtx or cross_build:
        return find_library("tensorrt_rtx")
    return find_library()
