"""The fields of looks as JSON Schema, for OpenAPI: the same names, bounds and words as `pipeline.expression.words`."""

from __future__ import annotations

from typing import Any

from pipeline.expression.looks import DEFAULT_RISE_S
from pipeline.expression.words import (
    ALLOWED,
    LATEST_S,
    LONGEST_RISE_S,
    MOST_ENERGY,
    MOST_LOOKS,
    NAMES,
    TIMELINE,
)


def look_properties() -> dict[str, Any]:
    """Properties of what a face looks like: `expression`, `strength`, `gaze`, `energy`."""
    return {
        "expression": {
            "type": "string",
            "enum": list(NAMES),
            "description": "What the face expresses while it speaks and listens; docs/expression.md shows them.",
        },
        "strength": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "default": 1,
            "description": "How much of the expression.",
        },
        "gaze": {
            "oneOf": [
                {"type": "string"},
                {
                    "type": "array",
                    "items": {"type": "number", "minimum": -1, "maximum": 1},
                    "minItems": 2,
                    "maxItems": 2,
                },
            ],
            "description": f"Where the eyes look: {ALLOWED['gaze']}.",
        },
        "energy": {
            "type": "number",
            "minimum": 0,
            "maximum": MOST_ENERGY,
            "default": 1,
            "description": f"How much the head moves: {ALLOWED['energy']}.",
        },
    }


def timeline_schema() -> dict[str, Any]:
    """The field `expressions`."""
    times: dict[str, Any] = {
        "at_s": {"type": "number", "minimum": 0, "maximum": LATEST_S, "description": "Second at which it begins."},
        "rise_s": rise_schema(),
    }
    entry = {"type": "object", "required": ["at_s"], "additionalProperties": False}
    return {
        "type": "array",
        "maxItems": MOST_LOOKS,
        "items": entry | {"properties": times | look_properties()},
        "description": f"A timeline: {ALLOWED[TIMELINE]}. Each look holds until the next one.",
    }


def timeline_text_schema() -> dict[str, Any]:
    """The field `expressions` of a form: the same, as JSON text."""
    return {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": timeline_schema(),
        "description": f"A timeline as JSON: {ALLOWED[TIMELINE]}.",
    }


def rise_schema() -> dict[str, Any]:
    """The field `rise_s`."""
    return {
        "type": "number",
        "minimum": 0,
        "maximum": LONGEST_RISE_S,
        "default": DEFAULT_RISE_S,
        "description": "Seconds that the change takes.",
    }
