"""Whole tiers skip where an optional package is missing; where it is promised, that must be noticed."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.support.require import missing


@pytest.mark.parametrize(
    "module", ["ray", "fastapi", "websockets", "triton", "onnx", "onnxruntime", "aiortc", "hibari"]
)
def test_what_make_test_installs_is_here(module: str) -> None:
    if find_spec(module) is None:
        missing("EXTRAS", f"{module} is not installed; `make test` installs every extra that tests need")
