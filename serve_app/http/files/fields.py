"""The fields of a job: how each is read from form text or JSON, what it allows, and how OpenAPI shows it."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from starlette.requests import Request

from kernels.errors import InvalidInputError
from pipeline.clock import SUPPORTED_FPS
from pipeline.config import SessionSettings
from pipeline.expression.looks import NEUTRAL_FACE, Looks
from pipeline.expression.marks import take_marks
from pipeline.expression.schema import look_properties, timeline_schema, timeline_text_schema
from pipeline.expression.words import LOOK_FIELDS, TIMELINE, read_looks
from pipeline.families import DEFAULT_FAMILY, find_family
from pipeline.fetch.checked_url import URL_ALLOWED
from pipeline.numbers import exact_number, whole_number
from pipeline.voices.sentences import MAX_CHARACTERS, spoken_text
from serve_app.http.body.json_body import read_json
from serve_app.http.body.multipart import need_file, read_multipart
from serve_app.http.body.pieces import JSON, MULTIPART, FormShape, RawForm, Upload, content_type, refuse_query
from serve_app.http.capacity import Hold
from serve_app.http.problems.errors import ConflictingFieldsError, MissingFieldError, UnsupportedBodyError
from serve_app.http.settings import ApiSettings

CONSENT: Final = "who agreed that this face is animated, and for what"
JOB_SHAPE: Final = FormShape(
    ("audio", "portrait"),
    (
        "prompt",
        "avatar_id",
        "fps",
        "chunk_frames",
        "seed",
        "normalise",
        "stream",
        "audio_url",
        "portrait_url",
        *LOOK_FIELDS,
        TIMELINE,
    ),
    ("prompt", TIMELINE),
)
SHOWN: Final = 80
"""Characters of a value that a message shows."""
CHUNKS: Final = (4, 8, 16, 25)
MAX_SEED: Final = 2**63 - 1
SEED_SCHEMA: Final[dict[str, Any]] = {
    "type": "integer",
    "minimum": 0,
    "maximum": MAX_SEED,
    "default": 0,
    "description": "Head motion and blinks are a function of it.",
}
PROSE_SCHEMA: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": MAX_CHARACTERS}
_AUDIO: Final = "an audio file, or a video with sound"
_FLAGS: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


@dataclass(frozen=True)
class JobForm:
    """What a caller asked for.

    Attributes:
        audio: The speech, any container; empty where `prompt` is spoken, or `audio_url` names it.
        portrait: A picture or short video that becomes a temporary presenter; None to use `avatar_id`.
        avatar_id: Id or name of a presenter, temporary or not; None for the default one.
        session: Settings with the caller's `fps` and `chunk_frames`.
        seed: Head motion and blinks are a function of it.
        stream: A fragmented file that is sent while it is made.
        normalise: The voice is brought to -23 LUFS.
        prompt: Text that is spoken; empty where there is `audio`.
        audio_url: Address that the speech is to be fetched from; empty where it came itself.
        portrait_url: Address that the portrait is to be fetched from; empty where it came itself, or none is wanted.
        looks: What the face expresses, by seconds of the speech.
    """

    audio: bytes
    portrait: bytes | None
    avatar_id: str | None
    session: SessionSettings
    seed: int
    stream: bool
    normalise: bool
    prompt: str = ""
    audio_url: str = ""
    portrait_url: str = ""
    looks: Looks = NEUTRAL_FACE


async def read_job_form(request: Request, settings: ApiSettings, hold: Hold) -> JobForm:
    """Read a job; errors are those of `read_form`."""
    found = job_form(await read_form(request, JOB_SHAPE, settings, hold), settings.session, settings.family)
    check_consent(found, settings)
    return found


def check_consent(job: JobForm, settings: ApiSettings) -> None:
    """Refuse a portrait that comes with a job where faces need a statement of consent, which registration takes.

    Raises:
        InvalidInputError: Such a portrait.
    """
    if settings.consent.needed and (job.portrait is not None or job.portrait_url):
        allowed = "avatar_id of a presenter that was registered with consent (POST /avatars)"
        name = "portrait" if job.portrait is not None else "portrait_url"
        raise InvalidInputError(name, "a face without a statement of consent", allowed)


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


def job_form(form: RawForm, defaults: SessionSettings, family: str = DEFAULT_FAMILY) -> JobForm:
    """Check every field.

    Raises:
        InvalidInputError: Names the field.
    """
    audio_url = text_field(form, "audio_url", URL_ALLOWED)
    audio, prompt = _fetched_speech(form) if audio_url else _speech_of(form)
    portrait: Upload | None = form.files.get("portrait")
    portrait_url = text_field(form, "portrait_url", URL_ALLOWED)
    avatar_id = avatar_id_field(form)
    speakers = {
        "portrait": portrait is not None,
        "portrait_url": bool(portrait_url),
        "avatar_id": avatar_id is not None,
    }
    if len(named := [name for name, there in speakers.items() if there]) > 1:
        raise ConflictingFieldsError(
            named[0], f"{named[1]} as well", "one of avatar_id, portrait and portrait_url, or none"
        )
    chosen = {
        "fps": fps_field(form, defaults.fps),
        "chunk_frames": choice_field(form, "chunk_frames", CHUNKS, defaults.chunk_frames),
    }
    seed = seed_field(form)
    return JobForm(
        audio=audio,
        portrait=None if portrait is None else portrait.data,
        avatar_id=avatar_id,
        session=SessionSettings.model_validate(defaults.model_dump() | chosen),
        seed=seed,
        stream=flag_field(form, "stream", False),
        normalise=flag_field(form, "normalise", False),
        prompt=prompt,
        audio_url=audio_url,
        portrait_url=portrait_url,
        looks=looks_field(form, family, prompt),
    )


def _speech_of(form: RawForm) -> tuple[bytes, str]:
    """The audio, or the text that is to be spoken; exactly one of them."""
    if form.values.get("prompt") is None or (form.values["prompt"] == "" and "audio" in form.files):
        return need_file(form, "audio", f"{_AUDIO}; or text in prompt").data, ""
    if "audio" in form.files:
        raise ConflictingFieldsError("prompt", "audio as well", "audio, or prompt")
    return b"", prose_field(form, "prompt")


def _fetched_speech(form: RawForm) -> tuple[bytes, str]:
    """Nothing yet, since the speech is still to be fetched; nothing else may say what is spoken."""
    for name in ("audio", "prompt"):
        if name in form.files or form.values.get(name):
            raise ConflictingFieldsError("audio_url", f"{name} as well", "one of audio, audio_url and prompt")
    return b"", ""


def prose_field(form: RawForm, name: str) -> str:
    """Text that can be spoken.

    Raises:
        MissingFieldError: It did not come.
        InvalidInputError: Something else than text, no words, or too many.
    """
    if form.values.get(name) is None:
        raise MissingFieldError(name, "nothing", "text to speak")
    return spoken_text(name, text_field(form, name, "text to speak"))


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


def avatar_id_field(form: RawForm) -> str | None:
    """A presenter's id or name, as it came; None when none is named.

    Raises:
        InvalidInputError: Something else than text.
    """
    return text_field(form, "avatar_id", "the id or the name of a registered avatar, as text") or None


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


def seed_field(form: RawForm) -> int:
    """The field `seed`; 0 when it is left out."""
    allowed = f"a whole number, 0 to {MAX_SEED}"
    seed = whole_field(form, "seed", allowed, 0)
    if not 0 <= seed <= MAX_SEED:
        raise InvalidInputError("seed", str(seed), allowed)
    return seed


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


def job_schema(settings: ApiSettings, *, base64: bool, kept: bool) -> dict[str, Any]:
    """The fields as JSON Schema.

    Args:
        settings: Defaults.
        base64: Files are text in JSON; else parts of a form.
        kept: The route keeps the file and answers its address; else it answers the file.
    """
    file: dict[str, Any] = (
        {"type": "string", "contentEncoding": "base64"} if base64 else {"type": "string", "format": "binary"}
    )
    return {
        "type": "object",
        "oneOf": [{"required": ["audio"]}, {"required": ["prompt"]}, {"required": ["audio_url"]}],
        "additionalProperties": False,
        "properties": {
            "audio": file | {"description": f"The speech: {_AUDIO}, at most {settings.limits.max_audio_s:g} s."},
            "audio_url": {
                "type": "string",
                "format": "uri",
                "maxLength": 1024,
                "description": f"In place of audio: {URL_ALLOWED}, from which the service fetches the file.",
            },
            "prompt": PROSE_SCHEMA
            | {"description": "Text to speak, in place of audio; says who speaks it: docs/http.md."},
            "portrait": file
            | {
                "description": "A portrait (JPEG, PNG, WebP, HEIC, AVIF) or a short video to be animated. Excludes avatar_id. It "
                "becomes a temporary presenter, whose id the answer tells."
            },
            "portrait_url": {
                "type": "string",
                "format": "uri",
                "maxLength": 1024,
                "description": f"In place of portrait: {URL_ALLOWED}, from which the service fetches it.",
            },
            "avatar_id": {
                "type": "string",
                "description": "Id or name of a presenter; without it and without portrait, the default presenter speaks.",
            },
            "fps": {
                "type": "number",
                "enum": list(SUPPORTED_FPS),
                "default": settings.session.fps,
                "description": "Frames/s; 59.94 stands for 60000/1001.",
            },
            "chunk_frames": {
                "type": "integer",
                "enum": list(CHUNKS),
                "default": settings.session.chunk_frames,
                "description": "Frames per piece of work; small is sooner, large is cheaper. Does not change the picture.",
            },
            "seed": SEED_SCHEMA,
            "normalise": {
                "type": "boolean",
                "default": False,
                "description": "True: the voice in the file is brought to -23 LUFS (EBU R128), peaks to -1 dBFS at most. False: "
                "its level stays what it was.",
            },
            "stream": {
                "type": "boolean",
                "default": False,
                "description": "Seldom of use here, since the answer comes when the file is finished. True: the kept file is a "
                "fragmented mp4, which is larger. False: a plain one, index first."
                if kept
                else "True: a fragmented mp4 that plays while it is made. False: a finished file, index first.",
            },
        }
        | look_properties()
        | {TIMELINE: timeline_schema() if base64 else timeline_text_schema()},
    }
