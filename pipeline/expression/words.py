"""How callers spell looks: names of expressions, directions of the gaze, and a timeline as JSON. One reader for all doors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from kernels.errors import InvalidInputError
from pipeline.expression.looks import DEFAULT_RISE_S, EXPRESSIONS, Look, Looks
from pipeline.numbers import exact_number

NEUTRAL: Final = "neutral"
NAMES: Final = (NEUTRAL, *EXPRESSIONS)
_ALIASES: Final = {
    "joy": "happy", "happiness": "happy", "sadness": "sad", "anger": "angry", "surprise": "surprised", "afraid": "fear",
    "fearful": "fear", "disgusted": "disgust", "contemptuous": "contempt",
}  # fmt: skip
DIRECTIONS: Final[Mapping[str, tuple[float, float]]] = {
    "viewer": (0.0, 0.0), "left": (-1.0, 0.0), "right": (1.0, 0.0), "up": (0.0, -1.0), "down": (0.0, 1.0),
}  # fmt: skip
"""Names of gazes; left and right are those of the picture."""
MOST_ENERGY: Final = 2.0
LONGEST_RISE_S: Final = 5.0
MOST_LOOKS: Final = 256
LATEST_S: Final = 86_400.0
LOOK_FIELDS: Final[tuple[str, ...]] = ("expression", "strength", "gaze", "energy")
"""Fields of a request that say what its face looks like from the beginning."""
TIMELINE: Final = "expressions"
"""The field with a timeline."""
ALLOWED: Final[Mapping[str, str]] = {
    "expression": ", ".join(NAMES),
    "strength": "a number, 0 to 1, next to expression",
    "gaze": ", ".join(DIRECTIONS) + "; or x,y with numbers -1 to 1, x to the right of the picture and y down",
    "energy": f"a number, 0 (the head is still) to {MOST_ENERGY:g}; 1 is the usual movement",
    "rise_s": f"seconds, 0 to {LONGEST_RISE_S:g}",
    "at_s": f"seconds, 0 to {LATEST_S:g}",
    TIMELINE: f"a list of up to {MOST_LOOKS} objects {{at_s, expression, strength, gaze, energy, rise_s}} in the order of at_s",
}
"""What every field takes, in the words of messages and descriptions."""
_SHOWN: Final = 80


def read_looks(values: Mapping[str, Any], *, field: str = "{}") -> Looks:
    """Looks of a request.

    Args:
        values: Field -> value, as it came in text or JSON: any of `LOOK_FIELDS`, which say what the face looks like from the
            beginning, and `expressions`, the timeline of what follows. None and empty text count as left out.
        field: How a field is named to the caller; `{}` stands for the name here.

    Raises:
        InvalidInputError: It names the field.
    """
    given = {name: value for name, value in values.items() if value is not None and value != ""}
    looks = list(read_timeline(given[TIMELINE], field.format(TIMELINE)).looks) if TIMELINE in given else []
    first = {name: given[name] for name in LOOK_FIELDS if name in given}
    if first:
        looks.insert(0, replace(_look(first, field), rise_s=0.0))
    return Looks(tuple(looks))


def read_change(values: Mapping[str, Any]) -> Looks:
    """Looks that a face in a live session changes to: as `read_looks`, but it takes `rise_s` to change, and there is one at least.

    Raises:
        InvalidInputError: It names the field.
    """
    given = {name: value for name, value in values.items() if value is not None and value != ""}
    looks = list(read_timeline(given.pop(TIMELINE), TIMELINE).looks) if TIMELINE in given else []
    if given:
        looks.insert(0, _look(given, "{}"))
    if not looks:
        raise InvalidInputError("expression", "nothing", ALLOWED["expression"] + "; or gaze, energy, or expressions")
    return Looks(tuple(looks))


def read_timeline(value: Any, field: str) -> Looks:
    """A timeline: a list of objects, or JSON text of one.

    Raises:
        InvalidInputError: It names the field, and the entry.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(field, value[:_SHOWN], ALLOWED[TIMELINE]) from error
    if not isinstance(value, list) or len(value) > MOST_LOOKS:
        raise InvalidInputError(field, str(value)[:_SHOWN], ALLOWED[TIMELINE])
    looks: list[Look] = []
    for index, entry in enumerate(value):
        name = f"{field}[{index}]"
        if not isinstance(entry, dict):
            raise InvalidInputError(name, str(entry)[:_SHOWN], "an object {at_s, expression, strength}")
        entry = dict(entry)
        at_s = _number(entry.pop("at_s", None), f"{name}.at_s", "at_s", 0.0, LATEST_S)
        if looks and at_s < looks[-1].at_s:
            raise InvalidInputError(
                f"{name}.at_s", f"{at_s:g}", f"{looks[-1].at_s:g} or later, since the list is in order"
            )
        looks.append(replace(_look(entry, name + ".{}"), at_s=at_s))
    return Looks(tuple(looks))


def is_expression(name: str) -> bool:
    """Whether a word names an expression."""
    return _ALIASES.get(name.lower(), name.lower()) in NAMES


def write_timeline(looks: Looks) -> str:
    """Looks as JSON text of a timeline, which `read_timeline` reads; empty where there is none."""
    entries = [{name: value for name, value in asdict(look).items() if value is not None} for look in looks.looks]
    for entry in entries:
        if "expression" not in entry:
            del entry["strength"]
    return json.dumps(entries) if entries else ""


def _look(entry: Mapping[str, Any], field: str) -> Look:
    """One look of its fields, without its time."""
    for name in entry:
        if name not in (*LOOK_FIELDS, "rise_s"):
            raise InvalidInputError(field.format(name), "an unknown field", ", ".join(("at_s", *LOOK_FIELDS, "rise_s")))
    given = {name: value for name, value in entry.items() if value is not None}
    if "strength" in given and "expression" not in given:
        raise InvalidInputError(field.format("strength"), "no expression next to it", ALLOWED["strength"])
    if not given.keys() & {"expression", "gaze", "energy"}:
        raise InvalidInputError(field.format("expression"), "nothing", ALLOWED["expression"] + "; or gaze, or energy")
    look = Look()
    if "expression" in given:
        strength = _number(given.get("strength", 1.0), field.format("strength"), "strength", 0.0, 1.0)
        look = replace(look, expression=_name(given["expression"], field.format("expression")), strength=strength)
    if "gaze" in given:
        look = replace(look, gaze=_gaze(given["gaze"], field.format("gaze")))
    if "energy" in given:
        look = replace(look, energy=_number(given["energy"], field.format("energy"), "energy", 0.0, MOST_ENERGY))
    rise_s = _number(given.get("rise_s", DEFAULT_RISE_S), field.format("rise_s"), "rise_s", 0.0, LONGEST_RISE_S)
    return replace(look, rise_s=rise_s)


def _name(value: Any, field: str) -> str:
    name = value.strip().lower() if isinstance(value, str) else ""
    name = _ALIASES.get(name, name)
    if name not in NAMES:
        raise InvalidInputError(field, str(value)[:_SHOWN], ALLOWED["expression"])
    return name


def _gaze(value: Any, field: str) -> tuple[float, float]:
    if isinstance(value, str):
        named = DIRECTIONS.get(value.strip().lower())
        if named is not None:
            return named
        value = value.split(",")
    if not isinstance(value, list) or len(value) != 2:
        raise InvalidInputError(field, str(value)[:_SHOWN], ALLOWED["gaze"])
    x, y = (_number(one, field, "gaze", -1.0, 1.0) for one in value)
    return x, y


def _number(value: Any, field: str, kind: str, low: float, high: float) -> float:
    found = exact_number(value)
    if found is None or not low <= found <= high:
        raise InvalidInputError(field, "nothing" if value is None else str(value)[:_SHOWN], ALLOWED[kind])
    return float(found)
