"""The options with which commands say what a face expresses."""

from __future__ import annotations

from pathlib import Path

from kernels.errors import InvalidInputError
from pipeline.expression.looks import Looks
from pipeline.expression.words import ALLOWED, TIMELINE, read_looks

LARGEST_TIMELINE_BYTES = 1 << 20


def looks_given(expression: str, strength: str, gaze: str, energy: str, expressions: str) -> Looks:
    """What the options `--expression`, `--strength`, `--gaze`, `--energy` and `--expressions` ask for; empty text: not given.

    Raises:
        InvalidInputError: It names the option.
    """
    values = {"expression": expression, "strength": strength, "gaze": gaze, "energy": energy}
    return read_looks(values | {TIMELINE: _timeline(expressions)}, field="--{}")


def _timeline(given: str) -> str:
    """JSON text of a timeline: the option itself, or the content of the file that it names."""
    if not given or given.lstrip().startswith("["):
        return given
    try:
        with Path(given).open("rb") as file:
            content = file.read(LARGEST_TIMELINE_BYTES + 1)
        if len(content) <= LARGEST_TIMELINE_BYTES:
            return content.decode("utf-8")
        got = f"more than {LARGEST_TIMELINE_BYTES} bytes"
    except (OSError, ValueError) as error:
        got = f"{given[:80]} ({getattr(error, 'strerror', None) or 'no text'})"
    raise InvalidInputError(f"--{TIMELINE}", got, f"a file with JSON, or JSON: {ALLOWED[TIMELINE]}")
