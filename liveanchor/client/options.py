"""Options as the routes take them: leave out what was not said, spell numbers and flags as forms do."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def form_options(options: Mapping[str, object]) -> dict[str, str]:
    """Fields of a form: None is left out, flags are `true` and `false`, 25.0 is `25`, lists and objects are JSON."""
    return {name: _spelled(value) for name, value in options.items() if value is not None}


def offer_options(options: Mapping[str, object]) -> dict[str, Any]:
    """Fields of an offer in JSON: None is left out."""
    return {name: value for name, value in options.items() if value is not None}


def _spelled(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | dict):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
