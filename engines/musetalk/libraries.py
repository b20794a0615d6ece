"""The two libraries that keep the networks, imported at first use; they come with the extra `musetalk`."""

from __future__ import annotations

import importlib
from typing import Any

from kernels.errors import LiveAnchorError


class ExtraMissingError(LiveAnchorError):
    """A library of the extra `musetalk` is not installed.

    Args:
        library: Its name.
    """

    code = "extra_missing"

    def __str__(self) -> str:
        """What to do."""
        return f"{self.args[0]} is not installed; install the extra `musetalk`"


def library(name: str) -> Any:
    """A library, or a module of one, that ships no types of its own that we could check.

    Raises:
        ExtraMissingError: It is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name.split(".")[0]:
            raise  # it is there, and something that it needs is not
        raise ExtraMissingError(error.name) from error
