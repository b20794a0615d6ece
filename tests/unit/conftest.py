"""Unit tests start no Ray: what needs a cluster is a test of `tests/ray`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import NoReturn

import pytest


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """`ray.init` raises, also where Ray calls it by itself; Ray is not imported for that."""
    if (ray := sys.modules.get("ray")) is not None:
        monkeypatch.setattr(ray, "init", _refuse)
    yield
    if (ray := sys.modules.get("ray")) is not None:  # a test may have been the first to import it
        assert not ray.is_initialized(), "this unit test started Ray: it belongs into tests/ray"


def _refuse(*args: object, **options: object) -> NoReturn:
    raise AssertionError("ray.init in a unit test: it belongs into tests/ray")
