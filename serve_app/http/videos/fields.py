"""What a request for a video says: the fields of a file job, and how the video is kept."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from dataclasses import dataclass, replace
from typing import Any, Final

from starlette.requests import Request

from deployments.video_jobs.commands import ListJobs
from deployments.video_jobs.job import JobSpec
from kernels.errors import InvalidInputError
from pipeline.expression.words import write_timeline
from pipeline.fetch.checked_url import MAX_URL_CHARS, URL_ALLOWED
from pipeline.numbers import whole_number
from serve_app.http.body.fields import as_it_came, read_form, text_field, whole_field
from serve_app.http.body.pieces import JSON, MULTIPART, FormShape, RawForm
from serve_app.http.capacity import Hold
from serve_app.http.files.fields import JOB_SHAPE, JobForm, check_consent, job_form
from serve_app.http.files.schema import job_schema
from serve_app.http.settings import ApiSettings

VIDEO_SHAPE: Final = FormShape(
    JOB_SHAPE.files,
    (*JOB_SHAPE.values, "metadata", "expires_in", "model", "webhook_url"),
    (*JOB_SHAPE.texts, "metadata"),
)
KEY_HEADER: Final = "Idempotency-Key"
SHORTEST_KEEP_S: Final = 60
MOST_PAIRS: Final = 16
LONGEST_NAME: Final = 64
LONGEST_VALUE: Final = 512
MOST_LISTED: Final = 100
_PAIRS: Final = (
    f"object of up to {MOST_PAIRS} pairs of text, names up to {LONGEST_NAME} characters, values up to {LONGEST_VALUE}"
)
_KEY: Final = re.compile(r'"([!#-\[\]-~]{8,64})"|([A-Za-z0-9._~:+/=-]{8,64})', re.ASCII)
_HALF: Final = re.compile(r"[\ud800-\udfff]")
"""Half a character, which JSON can spell and UTF-8 cannot."""


@dataclass(frozen=True)
class VideoForm:
    """What a caller asked for.

    Attributes:
        job: What is to be made.
        metadata: Pairs of text to keep with it.
        keep_s: Seconds for which the file is to be kept.
        fingerprint: Digest of all of it, in hexadecimal.
        webhook_url: Where it is told how the video ended; empty for nowhere.
    """

    job: JobForm
    metadata: dict[str, str]
    keep_s: float
    fingerprint: str
    webhook_url: str = ""

    def spec(self) -> JobSpec:
        """Everything but the files."""
        job = self.job
        return JobSpec(
            avatar_id=job.avatar_id,
            has_portrait=job.portrait is not None,
            fps=job.session.fps,
            chunk_frames=job.session.chunk_frames,
            seed=job.seed,
            normalise=job.normalise,
            stream=job.stream,
            prompt=job.prompt,
            webhook_url=self.webhook_url,
            looks=write_timeline(job.looks),
        )


async def read_video_form(request: Request, settings: ApiSettings, hold: Hold) -> VideoForm:
    """Read a request for a video from multipart or JSON.

    Raises:
        InvalidInputError: The body or a field of it.
        BusyError: All requests together hold too many bytes.
        ClientDisconnect: The client went away.
    """
    form = await read_form(request, VIDEO_SHAPE, settings, hold)
    if (model := text_field(form, "model", settings.family)) not in ("", settings.family):
        raise InvalidInputError("model", as_it_came(model), settings.family)
    job, pairs, keep_s = (
        job_form(form, settings.session, settings.family),
        metadata_field(form),
        keep_field(form, settings),
    )
    check_consent(job, settings)
    found = VideoForm(job, pairs, keep_s, "", text_field(form, "webhook_url", URL_ALLOWED))
    return replace(found, fingerprint=await asyncio.to_thread(_fingerprint, found))


def idempotency_key(request: Request) -> str:
    """The key of a request that may come twice; empty where there is none.

    Raises:
        InvalidInputError: It is no key.
    """
    value = request.headers.get(KEY_HEADER)
    if value is None:
        return ""
    found = _KEY.fullmatch(value.strip())
    if found is None:
        raise InvalidInputError(KEY_HEADER, as_it_came(value), '8 to 64 letters and digits, such as "8e03978e-40d5"')
    return found.group(1) or found.group(2)


def metadata_field(form: RawForm) -> dict[str, str]:
    """Read the pairs; in a form they are JSON text.

    Raises:
        InvalidInputError: They are something else.
    """
    value = form.values.get("metadata")
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise InvalidInputError("metadata", as_it_came(value), _PAIRS) from error
    if not isinstance(value, dict) or len(value) > MOST_PAIRS:
        raise InvalidInputError("metadata", as_it_came(value), _PAIRS)
    for name, text in value.items():
        fits = isinstance(text, str) and 0 < len(name) <= LONGEST_NAME and len(text) <= LONGEST_VALUE
        if not fits or _HALF.search(name + text):
            raise InvalidInputError("metadata", as_it_came({name: text}), _PAIRS)
    return value


def keep_field(form: RawForm, settings: ApiSettings) -> float:
    """Read the seconds for which the file is to be kept.

    Raises:
        InvalidInputError: Fewer or more than allowed.
    """
    most = int(settings.jobs.max_keep_file_s)
    allowed = f"whole seconds, {SHORTEST_KEEP_S} to {most}"
    found = whole_field(form, "expires_in", allowed, int(settings.jobs.keep_file_s))
    if not SHORTEST_KEEP_S <= found <= most:
        raise InvalidInputError("expires_in", str(found), allowed)
    return float(found)


def list_query(request: Request, owner: str | None) -> ListJobs:
    """Read which page of the list is asked for.

    Raises:
        InvalidInputError: A part of the address has a value that it cannot have.
    """
    query = request.query_params
    limit = whole_number(query.get("limit", "20"))
    if limit is None or not 1 <= limit <= MOST_LISTED:
        raise InvalidInputError("limit", as_it_came(query["limit"]), f"a whole number, 1 to {MOST_LISTED}")
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidInputError("order", as_it_came(order), "asc (oldest first) or desc")
    return ListJobs(owner, limit, query.get("after", ""), newest_first=order == "desc")


def video_schema(settings: ApiSettings, *, base64: bool) -> dict[str, Any]:
    """The fields as JSON Schema; arguments as in `job_schema`."""
    schema = job_schema(settings, base64=base64, kept=True)
    pairs: dict[str, Any] = {
        "type": "object",
        "maxProperties": MOST_PAIRS,
        "additionalProperties": {"type": "string", "maxLength": LONGEST_VALUE},
    }
    schema["properties"] |= {
        "metadata": (pairs if base64 else {"type": "string", "contentMediaType": JSON})
        | {"description": f"What the caller wants to find again: {_PAIRS}."},
        "expires_in": {
            "type": "integer",
            "minimum": SHORTEST_KEEP_S,
            "maximum": int(settings.jobs.max_keep_file_s),
            "default": int(settings.jobs.keep_file_s),
            "description": "Seconds for which the finished file can be fetched.",
        },
        "webhook_url": {
            "type": "string",
            "format": "uri",
            "maxLength": min(1024, MAX_URL_CHARS),
            "description": f"Where a signed message goes when the video has ended: {URL_ALLOWED}.",
        },
        "model": {"type": "string", "enum": [settings.family], "description": "May be named; there is one."},
    }
    return schema


def video_body(settings: ApiSettings) -> dict[str, Any]:
    """`openapi_extra=` of the route that takes a video."""
    form: dict[str, Any] = {"audio": "(speech.mp3)", "portrait": "(face.jpg)", "metadata": '{"story": "4711"}'}
    plain: dict[str, Any] = {"audio": "UklGRiQAAABXQVZF...", "seed": 7, "metadata": {"story": "4711"}}
    content = {
        MULTIPART: {"schema": video_schema(settings, base64=False), "example": form},
        JSON: {"schema": video_schema(settings, base64=True), "example": plain},
    }
    key = {
        "name": KEY_HEADER,
        "in": "header",
        "required": False,
        "description": "A request that comes again within 24 hours with the same key makes no second video.",
        "schema": {"type": "string", "minLength": 8, "maxLength": 64},
    }
    return {"requestBody": {"required": True, "content": content}, "parameters": [key]}


def _fingerprint(form: VideoForm) -> str:
    """Digest of what was asked for, however it was spelled."""
    files = [hashlib.sha256(data).hexdigest() for data in (form.job.audio, form.job.portrait or b"")]
    spec = form.spec()
    addresses = {name: url for name in ("audio_url", "portrait_url") if (url := getattr(form.job, name))}
    asked = [vars(spec), sorted(form.metadata.items()), form.keep_s, files, addresses]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
