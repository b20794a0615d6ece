"""What is wrong with a configuration, in one line that names the setting or variable and, where one is near, what was meant."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable
from pathlib import Path

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticCustomError
from pydantic_settings import SettingsError

from kernels.errors import InvalidInputError, first_line

ENV_PREFIX = "LIVEANCHOR_"
NESTED = "__"
MISSPELT = "misspelt_variable"
SECRET_FIELDS = ("credential", "key", "turn_secret")
"""Settings whose values are secrets; a test looks for further ones."""
_USER_INFO = re.compile(r"://[^/@\s]*@")


def misspelt_variable(name: str, groups: Iterable[str], meant: str = "") -> PydanticCustomError:
    """For a variable that no setting has.

    Args:
        name: The variable.
        groups: What settings there are at the top.
        meant: The variable that was meant; the nearest one of `groups` when empty.
    """
    setting = name.removeprefix(ENV_PREFIX).lower()
    head, _, rest = setting.partition(NESTED)
    known = sorted(groups)
    why = "no setting has this variable" if meant else f"there is no group {head!r}"
    if not meant and (near := difflib.get_close_matches(head, known, n=1)):
        meant = f"{ENV_PREFIX}{near[0]}{NESTED}{rest}".upper()
    allowed = f"{ENV_PREFIX}<GROUP>{NESTED}<SETTING> with one of {', '.join(known)}"
    return PydanticCustomError(
        MISSPELT,
        "environment variable {variable}: {why} (allowed: {allowed})",
        {"variable": name, "why": f"{why}; did you mean {meant}?" if meant else why, "allowed": allowed},
    )


def no_yaml(path: Path, error: yaml.YAMLError | UnicodeDecodeError) -> InvalidInputError:
    """For a file that cannot be read as YAML: where, and what stands there."""
    if isinstance(error, yaml.MarkedYAMLError) and (mark := error.problem_mark) is not None:
        what = f"{error.problem or error.context}, line {mark.line + 1}, column {mark.column + 1}"
    elif isinstance(error, UnicodeDecodeError):
        what = f"no text in UTF-8, byte {error.start}"
    else:
        what = first_line(error)
    return InvalidInputError("config", str(path), "YAML with settings", f"{path} is no YAML ({what})")


def refusal(error: ValidationError, root: type[BaseModel]) -> InvalidInputError:
    """The first thing that a validation found.

    Args:
        error: What pydantic raised.
        root: The class that was validated.
    """
    first = error.errors()[0]
    context = first.get("ctx", {})
    if isinstance(cause := context.get("error"), SettingsError):
        return _unreadable_variable(str(cause))
    if first["type"] == MISSPELT:
        return InvalidInputError(context["variable"], "a variable", context["allowed"], context["why"])
    field = ".".join(str(part) for part in first["loc"]) or "config"
    if first["type"] == "extra_forbidden":
        return _unknown_setting(field, _settings_beside(first["loc"], root))
    return InvalidInputError(field, _came(first["loc"], first["input"]), first["msg"].removeprefix("Value error, "))


def _came(path: tuple[int | str, ...], value: object) -> str:
    """What was set, for people; no values of `SECRET_FIELDS` or of groups, and nothing before the @ of an address."""
    if any(str(name) in SECRET_FIELDS for name in path):
        return "a value that is not shown"
    if isinstance(value, dict):
        return f"a group of {', '.join(sorted(map(str, value)))}" if value else "an empty group"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}"
    return _USER_INFO.sub("://...@", repr(value))[:200]


def _unknown_setting(field: str, known: list[str]) -> InvalidInputError:
    group, _, name = field.rpartition(".")
    variable = f"{ENV_PREFIX}{field.replace('.', NESTED)}".upper()
    said = f"there is no setting {name!r}{f' in {group}' if group else ''}"
    if any(one.upper() == variable for one in os.environ):
        said += f", which {variable} would set"
    if near := difflib.get_close_matches(name, known, n=1):
        said += f"; did you mean {near[0]}?"
    return InvalidInputError(field, "a setting of that name", ", ".join(sorted(known)), said)


def _settings_beside(path: tuple[int | str, ...], root: type[BaseModel]) -> list[str]:
    """The settings of the group in which the last name of `path` was looked for."""
    group = root
    for name in path[:-1]:
        found = group.model_fields[str(name)].annotation
        if not (isinstance(found, type) and issubclass(found, BaseModel)):
            return []
        group = found
    return list(group.model_fields)


def _unreadable_variable(said: str) -> InvalidInputError:
    """Pydantic only names the group whose variables it could not read."""
    found = re.search(r'field "(\w+)"', said)
    start = f"{ENV_PREFIX}{found.group(1) if found else ''}".upper()
    names = sorted(name for name in os.environ if name.upper().startswith(start))
    allowed = 'JSON where a setting is a group or a list, such as ["https://news.example"]'
    return InvalidInputError(", ".join(names), "a value that is no JSON", allowed)
