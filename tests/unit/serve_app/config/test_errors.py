"""A configuration that is wrong is refused in one line that says what is wrong first, and what was meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernels.errors import InvalidInputError
from serve_app.config.settings import load_config


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("LIVEANCHOR_")]:
        monkeypatch.delenv(name)


def refused(path: Path | None = None) -> InvalidInputError:
    with pytest.raises(InvalidInputError) as error:
        load_config(path)
    return error.value


@pytest.mark.parametrize(
    ("variable", "field", "said"),
    [
        (
            "LIVEANCHOR_LIMIT__MAX_AUDIO_S",
            "LIVEANCHOR_LIMIT__MAX_AUDIO_S",
            "LIVEANCHOR_LIMIT__MAX_AUDIO_S: there is no group 'limit'; did you mean LIVEANCHOR_LIMITS__MAX_AUDIO_S? (allowed: ",
        ),
        (
            "LIVEANCHOR_ZZZ__MAX_AUDIO_S",
            "LIVEANCHOR_ZZZ__MAX_AUDIO_S",
            "LIVEANCHOR_ZZZ__MAX_AUDIO_S: there is no group 'zzz' (allowed: LIVEANCHOR_<GROUP>__<SETTING> with one of agent, ",
        ),
        (
            "LIVEANCHOR_LIMITS_MAX_AUDIO_S",
            "LIVEANCHOR_LIMITS_MAX_AUDIO_S",
            "LIVEANCHOR_LIMITS_MAX_AUDIO_S: no setting has this variable; did you mean LIVEANCHOR_LIMITS__MAX_AUDIO_S? (",
        ),
        (
            "LIVEANCHOR_LIMITS__MAX_AUDO_S",
            "limits.max_audo_s",
            "limits.max_audo_s: there is no setting 'max_audo_s' in limits, which LIVEANCHOR_LIMITS__MAX_AUDO_S would set; "
            "did you mean max_audio_s? (allowed: ",
        ),
    ],
)
def test_a_misspelt_variable_is_named_first(
    monkeypatch: pytest.MonkeyPatch, variable: str, field: str, said: str
) -> None:
    monkeypatch.setenv(variable, "7")
    error = refused()
    assert error.field == field and str(error).startswith(said)


def test_a_misspelt_setting_of_a_file_names_the_nearest(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("limts: {}", encoding="utf-8")
    assert str(refused(path)).startswith("limts: there is no setting 'limts'; did you mean limits? (allowed: agent, ")
    path.write_text("limits: {quux: 1}", encoding="utf-8")
    assert "there is no setting 'quux' in limits (allowed: " in str(refused(path))


def test_a_file_that_is_no_yaml_is_one_short_line_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text("# Title\n\n```\nliveanchor: run: it\n```\n", encoding="utf-8")
    error = refused(path)
    assert error.field == "config" and error.got == str(path)
    assert str(error).startswith(f"config: {path} is no YAML (") and "line 3, column 1)" in str(error)
    assert len(str(error)) < len(str(path)) + 160 and "\n" not in str(error)
    path.write_bytes(b"a: \xff")
    assert "no text in UTF-8, byte 3" in str(refused(path))
    path.write_bytes(b"a: \x00")
    assert "is no YAML (" in str(refused(path)) and "\n" not in str(refused(path))
