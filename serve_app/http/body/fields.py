"""Readers of fields that several forms have, from form text or JSON, with what they allow."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from starlette.requests import Request

from kernels.errors import InvalidInputError
from pipeline.clock import SUPPORTED_FPS
from pipeline.expression.looks import Looks
from pipeline.expression.marks import take_marks
from pipeline.expression.words import LOOK_FIELDS, TIMELINE, read_looks
from pipeline.families import find_family
from pipeline.numbers import exact_number, whole_number
from pipeline.voices.sentences import MAX_CHARACTERS, spoken_text
from serve_app.http.body.json_body import read_json
from serve_app.http.body.multipart import read_multipart
from serve_app.http.body.pieces import JSON, MULTIPART, FormShape, RawForm, content_type, refuse_query
from serve_app.http.capacity import Hold
from serve_app.http.problems.errors import MissingFieldError, UnsupportedBodyError
from serve_app.http.settings import ApiSettings

SHOWN: Final = 80
"""Characters of a value that a message shows."""
MAX_SEED: Final = 2**63 - 1
SEED_SCHEMA: Final[dict[str, Any]] = {
    "type": "integer",
    "minimum": 0,
    "maximum": MAX_SEED,
    "default": 0,
    "description": "Head motion and blinks are a function of it.",
}
PROSE_SCHEMA: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": MAX_CHARACTERS}
_FLAGS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


async def read_form(request: Request, shape: FormShape, settings: ApiSettings, hold: Hold) -> RawForm:
    """Read a body that is multipart or JSON.

    Raises:
        InvalidInputError: The body or a field of it.
        BusyError: All requests together hold too many bytes.
        ClientDisconnect: The client went away.
    """
    refuse_query(request, shape)
    kind = content_type(request)
    if kind == MULTIPART:
        return await read_multipart(request, shape, settings.body(settings.limits.max_upload_bytes), hold)
    if kind == JSON:
        return await read_json(request, shape, settings.body(settings.limits.max_json_bytes), hold)
    raise UnsupportedBodyError("Content-Type", kind or "none", f"{MULTIPART} or {JSON}")


def as_it_came(value: object) -> str:
    """A value in a message: numbers as they are written, everything else as Python shows it, cut where it is long."""
    return (
        str(value)[:SHOWN] if isinstance(value, int | Decimal) and not isinstance(value, bool) else repr(value)[:SHOWN]
    )


def text_field(form: RawForm, name: str, allowed: str) -> str:
    """Text, empty when it is not there.

    Raises:
        InvalidInputError: Something else than text.
    """
    value = form.values.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInputError(name, as_it_came(value), allowed)
    return value


def whole_field(form: RawForm, name: str, allowed: str, default: int) -> int:
    """A whole number, spelled in any way (`pipeline.numbers`).

    Raises:
        InvalidInputError: Something else.
    """
    value = form.values.get(name)
    if value is None:
        return default
    found = whole_number(value)
    if found is None:
        raise InvalidInputError(name, as_it_came(value), allowed)
    return found


def choice_field(form: RawForm, name: str, choices: tuple[int, ...], default: int) -> int:
    """Read one of a few whole numbers.

    Raises:
        InvalidInputError: Something else.
    """
    allowed = ", ".join(map(str, choices))
    value = whole_field(form, name, allowed, default)
    if value not in choices:
        raise InvalidInputError(name, str(value), allowed)
    return value


def flag_field(form: RawForm, name: str, default: bool) -> bool:
    """True or false.

    Raises:
        InvalidInputError: Something else.
    """
    value = form.values.get(name)
    if value is None:
        return default
    found = value if isinstance(value, bool) else _FLAGS.get(value.strip().lower()) if isinstance(value, str) else None
    if found is None and (number := whole_number(value)) in (0, 1):
        found = number == 1
    if found is None:
        raise InvalidInputError(name, as_it_came(value), "true or false")
    return found


def fps_field(form: RawForm, default: float) -> float:
    """25, 50 or 59.94.

    Raises:
        InvalidInputError: Something else.
    """
    value = form.values.get("fps")
    if value is None:
        return default
    asked = exact_number(value)
    for one in SUPPORTED_FPS:
        if asked is not None and asked == exact_number(one):
            return one
    raise InvalidInputError("fps", as_it_came(value), ", ".join(f"{one:g}" for one in SUPPORTED_FPS))


def seed_field(form: RawForm) -> int:
    """The field `seed`; 0 when it is left out."""
    allowed = f"a whole number, 0 to {MAX_SEED}"
    seed = whole_field(form, "seed", allowed, 0)
    if not 0 <= seed <= MAX_SEED:
        raise InvalidInputError("seed", str(seed), allowed)
    return seed


def avatar_id_field(form: RawForm) -> str | None:
    """A presenter's id or name, as it came; None when none is named.

    Raises:
        InvalidInputError: Something else than text.
    """
    return text_field(form, "avatar_id", "the id or the name of a registered avatar, as text") or None


def prose_field(form: RawForm, name: str) -> str:
    """Text that can be spoken.

    Raises:
        MissingFieldError: It did not come.
        InvalidInputError: Something else than text, no words, or too many.
    """
    if form.values.get(name) is None:
        raise MissingFieldError(name, "nothing", "text to speak")
    return spoken_text(name, text_field(form, name, "text to speak"))


def looks_field(form: RawForm, family: str, prompt: str = "") -> Looks:
    """What a face expresses, from the fields `expression`, `strength`, `gaze`, `energy` and `expressions`.

    Args:
        form: The fields.
        family: Whose faces are to show it.
        prompt: Text that is spoken; its marks are checked, and stay in it.

    Raises:
        InvalidInputError: One of them is wrong, or the family cannot show it.
    """
    check_marks("prompt", prompt, family)
    looks = read_looks({name: form.values.get(name) for name in (*LOOK_FIELDS, TIMELINE)})
    find_family(family).check_looks(looks)
    return looks


def check_marks(field: str, text: str, family: str) -> None:
    """Check the marks of a text, and that words are left without them.

    Raises:
        InvalidInputError: It names the field.
    """
    marked = take_marks(text)
    if marked.marks:
        spoken_text(field, marked.text)
        find_family(family).check_looks(marked.looks, field)
