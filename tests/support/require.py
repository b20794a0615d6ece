"""Tools that some tests need: skipped with a reason where they are missing, a failure where they are promised."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(tool: str, reason: str) -> NoReturn:
    """Skip this test, or fail it under `LIVEANCHOR_REQUIRE_<TOOL>=1`, as continuous integration sets it.

    Args:
        tool: `FACE`, `BROWSER`, `SYNTHESIS`, `EXTRAS`, `RIFE`, `S3`, `SFU` or `TURN`.
        reason: What is missing and how to get it.
    """
    if os.environ.get(f"LIVEANCHOR_REQUIRE_{tool}") == "1":
        pytest.fail(reason)
    pytest.skip(reason)
