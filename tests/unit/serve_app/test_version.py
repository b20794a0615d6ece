"""The version that the service tells."""

from __future__ import annotations

from importlib import metadata

import pytest

from serve_app.version import UNINSTALLED, own_version


def test_the_installed_version_is_told() -> None:
    assert own_version() == metadata.version("liveanchor")


def test_code_that_is_not_installed_still_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    assert own_version() == UNINSTALLED
