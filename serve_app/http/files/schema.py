"""The fields of a job as OpenAPI shows them."""

from __future__ import annotations

from typing import Any

from pipeline.clock import SUPPORTED_FPS
from pipeline.expression.schema import look_properties, timeline_schema, timeline_text_schema
from pipeline.expression.words import TIMELINE
from pipeline.fetch.checked_url import URL_ALLOWED
from serve_app.http.body.fields import PROSE_SCHEMA, SEED_SCHEMA
from serve_app.http.files.fields import CHUNKS, SPEECH_ALLOWED
from serve_app.http.settings import ApiSettings


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
            "audio": file
            | {"description": f"The speech: {SPEECH_ALLOWED}, at most {settings.limits.max_audio_s:g} s."},
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
