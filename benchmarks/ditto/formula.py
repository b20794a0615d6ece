"""Ditto's networks with weights from the documented formula: right in size and range, and the same everywhere.

`LIVEANCHOR_GOLDEN_SALT` makes them other ones.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Final

from torch import nn

from engines.ditto import FAMILY
from engines.networks import build

FORMULA: Final = Path(__file__).resolve().parents[2] / "tests" / "data" / "ditto" / "fill.py"
SALT: Final = os.environ.get("LIVEANCHOR_GOLDEN_SALT", "A/")


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ditto_fill", FORMULA)
    assert spec is not None and spec.loader is not None  # noqa: S101 - the file is part of the checkout
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FILL: Final = _load()


@cache
def filled(network: str) -> nn.Module:
    """A Ditto network under the formula; filled once per process, so treat it as read-only.

    Args:
        network: Its name behind the slash, e.g. `decoder`.
    """
    module = build(f"{FAMILY}/{network}")
    FILL.fill_module(module, SALT)
    return module.requires_grad_(False)
