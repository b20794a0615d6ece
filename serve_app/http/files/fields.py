"""The fields of a job, read from form text or JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from kernels.errors import InvalidInputError
from pipeline.config import SessionSettings
from pipeline.expression.looks import NEUTRAL_FACE, Looks
from pipeline.expression.words import LOOK_FIELDS, TIMELINE
from pipeline.families import DEFAULT_FAMILY
from pipeline.fetch.checked_url import URL_ALLOWED
from serve_app.http.body.fields import (
    avatar_id_field,
    choice_field,
    flag_field,
    fps_field,
    looks_field,
    prose_field,
    read_form,
    seed_field,
    text_field,
)
from serve_app.http.body.multipart import need_file
from serve_app.http.body.pieces import FormShape, RawForm, Upload
from serve_app.http.capacity import Hold
from serve_app.http.problems.errors import ConflictingFieldsError
from serve_app.http.settings import ApiSettings

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
CHUNKS: Final = (4, 8, 16, 25)
SPEECH_ALLOWED: Final = "an audio file, or a video with sound"


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
        return need_file(form, "audio", f"{SPEECH_ALLOWED}; or text in prompt").data, ""
    if "audio" in form.files:
        raise ConflictingFieldsError("prompt", "audio as well", "audio, or prompt")
    return b"", prose_field(form, "prompt")


def _fetched_speech(form: RawForm) -> tuple[bytes, str]:
    """Nothing yet, since the speech is still to be fetched; nothing else may say what is spoken."""
    for name in ("audio", "prompt"):
        if name in form.files or form.values.get(name):
            raise ConflictingFieldsError("audio_url", f"{name} as well", "one of audio, audio_url and prompt")
    return b"", ""
