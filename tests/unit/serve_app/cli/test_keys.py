"""`liveanchor keys`: what is printed where, once, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernels.errors import InvalidInputError
from serve_app.access.key_file import KeyFile
from serve_app.cli.app import app
from serve_app.cli.serve import key_note
from serve_app.config.settings import AppConfig

KEY = re.compile(r"la_key_[0-9A-Za-z]{49}\n")


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LIVEANCHOR_HOME", str(tmp_path))
    return tmp_path / "keys.json"


def run(*arguments: str) -> tuple[str, str]:
    """What a command writes to stdout and stderr."""
    result = CliRunner().invoke(app, ["keys", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    return result.stdout, result.stderr


def test_the_life_of_a_key(path: Path) -> None:
    said, told = run("list")
    assert not said and "keys create" in told
    text, told = run("create", "newsroom", "--scopes", "live, generate", "--days", "90")
    assert KEY.fullmatch(text) and "not shown again" in told and text.strip() not in told
    key = KeyFile(path).find(text.strip())
    assert key is not None and key.scopes == ("generate", "live") and key.expires_at is not None
    listed, _ = run("list")
    assert listed.split("\t")[:3] == [key.key_id, "newsroom", "generate, live"] and text.strip() not in listed
    shown, _ = run("list", "--json")
    [found] = json.loads(shown)
    assert found["key_id"] == key.key_id and found["valid"] is True and "secrets" not in found
    new, _ = run("rotate", key.key_id, "--hours", "0")
    assert KEY.fullmatch(new) and KeyFile(path).find(text.strip()) is None
    run("revoke", key.key_id)
    assert KeyFile(path).find(new.strip()) is None
    listed, _ = run("list")
    assert listed.rstrip().endswith("revoked")


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["create", "a", "--scopes", "root"], "--scopes"),
        (["create", "a", "--scopes", ","], "--scopes"),
        (["create", ""], "name"),
        (["create", "a", "--days", "0"], "--days"),
        (["revoke", "nothing"], "KEY_ID"),
        (["rotate", "nothing"], "KEY_ID"),
    ],
)
def test_what_is_refused(path: Path, arguments: list[str], field: str) -> None:
    with pytest.raises(InvalidInputError) as found:
        CliRunner().invoke(app, ["keys", *arguments], catch_exceptions=False)
    assert found.value.field == field


def test_another_file_is_a_setting(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = path.with_name("shared.json")
    monkeypatch.setenv("LIVEANCHOR_KEYS__FILE", str(other))
    run("create", "a")
    assert other.exists() and not path.exists()


def test_what_serve_says_about_keys(path: Path) -> None:
    def note(host: str, **keys: str) -> str:
        return key_note(AppConfig.model_validate({"keys": keys}), host)

    assert note("127.0.0.1") == note("localhost") == note("::1") == note("127.0.0.1", required="never") == ""
    everywhere = "0.0.0.0"  # noqa: S104  # nothing is bound
    assert "none yet" in note(everywhere) and "none yet" in note("127.0.0.1", required="always")
    assert "may do everything" in note(everywhere, required="never")
    KeyFile(path).create("a", ("live",))
    assert note("news.example") == "callers need an API key"
