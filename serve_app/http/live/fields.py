"""The fields of an offer and of trickled candidates: how each is read, what it allows, and how OpenAPI shows it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final

from starlette.requests import Request

from kernels.errors import InvalidInputError
from pipeline.expression.looks import DEFAULT_RISE_S, Looks
from pipeline.expression.schema import look_properties, rise_schema, timeline_schema
from pipeline.expression.words import LOOK_FIELDS, TIMELINE, read_change
from pipeline.families import find_family
from pipeline.live.contracts import Drive
from pipeline.numbers import whole_number
from pipeline.publish.target import PublishTarget
from pipeline.webrtc.sdp import TrickledCandidate, read_fragment
from serve_app.http.body.fields import (
    SEED_SCHEMA,
    as_it_came,
    avatar_id_field,
    choice_field,
    flag_field,
    looks_field,
    seed_field,
    text_field,
)
from serve_app.http.body.json_body import parse_json
from serve_app.http.body.pieces import JSON, FormShape, RawForm, content_type, read_whole, refuse_query
from serve_app.http.capacity import Hold
from serve_app.http.live.targets import TARGET_SCHEMA, targets_field
from serve_app.http.problems.errors import BodyMalformedError, MissingFieldError, UnsupportedBodyError
from serve_app.http.settings import ApiSettings

SDP: Final = "application/sdp"
SDP_FRAGMENT: Final = "application/trickle-ice-sdpfrag"
MAX_SIGNALLING_BYTES: Final = 256 * 1024
"""Bytes that an offer or a list of candidates may have; an offer of a browser has 3 to 10 kB."""
MAX_CANDIDATES: Final = 64
LIVE_FPS: Final = (25, 50)
OFFER_SHAPE: Final = FormShape(
    (), ("sdp", "type", "avatar_id", "fps", "drive", "listen", "echo", "seed", "publish", *LOOK_FIELDS, TIMELINE)
)
_EXPRESS_SHAPE: Final = FormShape((), (*LOOK_FIELDS, "rise_s", TIMELINE))
_CANDIDATES_SHAPE: Final = FormShape((), ("candidates",))
_CANDIDATE_KEYS: Final = {
    "candidate": "candidate",
    "sdpMid": "sdpMid",
    "sdp_mid": "sdpMid",
    "sdpMLineIndex": "sdpMLineIndex",
    "sdp_mline_index": "sdpMLineIndex",
    "usernameFragment": "usernameFragment",
}
_ALLOWED_CANDIDATES: Final = "a list of at most 64 objects {candidate, sdpMid, sdpMLineIndex}"
_DRIVES: Final = ", ".join(Drive)
_UFRAG: Final = re.compile(r"^a=ice-ufrag:(\S{1,256})", re.MULTILINE)


@dataclass(frozen=True)
class OfferForm:
    """Holds what a client asked for; the fields mean the same as in `deployments.host.live_calls.LiveOffer`."""

    sdp: str
    avatar_id: str | None
    fps: int
    drive: Drive
    echo: bool
    seed: int
    publish: tuple[PublishTarget, ...]
    looks: Looks
    listens: bool


async def read_small(request: Request, settings: ApiSettings, hold: Hold) -> bytes:
    """Read a short body to its end.

    Raises:
        InvalidInputError: The body is too long, or comes too slowly.
        BusyError: All requests together hold too many bytes.
    """
    return await read_whole(request, settings.body(MAX_SIGNALLING_BYTES), hold)


async def offer_of(request: Request, settings: ApiSettings, hold: Hold) -> OfferForm:
    """Read an offer.

    Raises:
        InvalidInputError: The body cannot be read, or a field of it is wrong.
    """
    refuse_query(request, OFFER_SHAPE)
    if (kind := content_type(request)) != JSON:
        raise UnsupportedBodyError("Content-Type", kind or "none", JSON)
    return offer_form(parse_json(await read_small(request, settings, hold), OFFER_SHAPE), settings)


def offer_form(form: RawForm, settings: ApiSettings) -> OfferForm:
    """Check every field of an offer.

    Raises:
        InvalidInputError: A field is wrong; the error names it.
    """
    sdp = text_field(form, "sdp", "an SDP offer, as text")
    if not sdp:
        raise MissingFieldError("sdp", "nothing", "an SDP offer")
    check_sdp(sdp)
    kind = text_field(form, "type", "offer") or "offer"
    if kind != "offer":
        raise InvalidInputError("type", kind, "offer")
    drive = text_field(form, "drive", _DRIVES) or Drive.MIC
    if drive not in tuple(Drive):
        raise InvalidInputError("drive", drive, _DRIVES)
    listens = flag_field(form, "listen", drive == Drive.TALK)
    if listens and drive == Drive.MIC:
        raise InvalidInputError("listen", "true", "false, or drive push", "the microphone drives this face")
    if drive == Drive.TALK and not listens:
        raise InvalidInputError("listen", "false", "true, or drive push", "a conversation needs the microphone")
    seed = seed_field(form)
    return OfferForm(
        sdp=sdp,
        avatar_id=avatar_id_field(form),
        fps=choice_field(form, "fps", LIVE_FPS, 25 if settings.session.fps == 25 else 50),
        drive=Drive(drive),
        echo=flag_field(form, "echo", True),
        seed=seed,
        publish=targets_field(form, settings),
        looks=_risen(looks_field(form, settings.family)),
        listens=listens,
    )


def _risen(looks: Looks) -> Looks:
    """The same looks, the first of which comes as slowly as the others: it is seen to begin in a live session."""
    return Looks(tuple(replace(look, rise_s=look.rise_s or DEFAULT_RISE_S) for look in looks.looks))


async def looks_of(request: Request, settings: ApiSettings, hold: Hold) -> Looks:
    """Read what a face is to express from now on.

    Raises:
        InvalidInputError: The body cannot be read, a field of it is wrong, or the family of this service cannot show it.
    """
    refuse_query(request, _EXPRESS_SHAPE)
    kind = content_type(request)
    if kind != JSON:
        raise UnsupportedBodyError("Content-Type", kind or "none", JSON)
    form = parse_json(await read_small(request, settings, hold), _EXPRESS_SHAPE)
    looks = read_change(form.values)
    find_family(settings.family).check_looks(looks)
    return looks


def express_body() -> dict[str, Any]:
    """Describe the body of `express`, for `openapi_extra=`."""
    properties = look_properties() | {"rise_s": rise_schema(), TIMELINE: timeline_schema()}
    schema = {"type": "object", "minProperties": 1, "additionalProperties": False, "properties": properties}
    example = {"expression": "happy", "strength": 0.7}
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema, "example": example}}}}


def check_sdp(sdp: str) -> str:
    """Return the text itself, if it looks like SDP.

    Raises:
        InvalidInputError: The text does not begin like SDP.
    """
    if not sdp.startswith("v=0"):
        raise InvalidInputError("sdp", sdp[:40], "an SDP offer (RFC 8866), which begins with v=0")
    return sdp


async def candidates_of(request: Request, settings: ApiSettings, hold: Hold) -> list[dict[str, Any]]:
    """Read trickled candidates as `{candidate, sdpMid, sdpMLineIndex, usernameFragment}`; an empty list says that no more come.

    Raises:
        InvalidInputError: The body cannot be read, or a field of it is wrong.
    """
    refuse_query(request, _CANDIDATES_SHAPE)
    kind = content_type(request)
    if kind == JSON:
        form = parse_json(await read_small(request, settings, hold), _CANDIDATES_SHAPE)
        return _json_candidates(form.values.get("candidates"))
    if kind == SDP_FRAGMENT:
        return fragment_candidates(await read_small(request, settings, hold))
    raise UnsupportedBodyError("Content-Type", kind or "none", f"{JSON} or {SDP_FRAGMENT}")


def fragment_candidates(body: bytes) -> list[dict[str, Any]]:
    """Read the candidates of an RFC 8840 fragment, each with the fragment's ICE user name.

    Raises:
        BodyMalformedError: The body is no such fragment.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BodyMalformedError("body", "no UTF-8", "an SDP fragment (RFC 8840)") from error
    if not any(line.startswith("a=") for line in text.splitlines()):
        raise BodyMalformedError("body", "no attribute line", "an SDP fragment (RFC 8840)")
    named = _UFRAG.search(text)
    ufrag = named.group(1) if named else None
    return [_candidate(one, ufrag) for one in read_fragment(text) if one is not None]


def _candidate(one: TrickledCandidate, ufrag: str | None) -> dict[str, Any]:
    return {
        "candidate": one.candidate,
        "sdpMid": one.sdp_mid,
        "sdpMLineIndex": one.sdp_mline_index,
        "usernameFragment": ufrag,
    }


def _json_candidates(value: object) -> list[dict[str, Any]]:
    if value is None:
        raise MissingFieldError("candidates", "nothing", _ALLOWED_CANDIDATES)
    if not isinstance(value, list) or len(value) > MAX_CANDIDATES:
        got = f"{len(value)} candidates" if isinstance(value, list) else repr(value)[:80]
        raise InvalidInputError("candidates", got, _ALLOWED_CANDIDATES)
    return [_json_candidate(one) for one in value]


def _json_candidate(value: object) -> dict[str, Any]:
    if not isinstance(value, dict) or not isinstance(value.get("candidate"), str):
        raise InvalidInputError("candidates", repr(value)[:80], _ALLOWED_CANDIDATES)
    if unknown := sorted(set(value) - set(_CANDIDATE_KEYS)):
        raise InvalidInputError("candidates", f"the key {unknown[0]!r}", _ALLOWED_CANDIDATES)
    found = {_CANDIDATE_KEYS[key]: one for key, one in value.items()}
    mid, line = found.get("sdpMid"), found.get("sdpMLineIndex")
    if not (mid is None or isinstance(mid, str)):
        raise InvalidInputError("candidates", f"sdpMid {mid!r}"[:80], "text or null")
    index = whole_number(line)
    if line is not None and (index is None or not 0 <= index < MAX_CANDIDATES):
        raise InvalidInputError(
            "candidates", f"sdpMLineIndex {as_it_came(line)}", f"0 to {MAX_CANDIDATES - 1}, or null"
        )
    ufrag = found.get("usernameFragment")
    if not (ufrag is None or isinstance(ufrag, str)):
        raise InvalidInputError("candidates", f"usernameFragment {ufrag!r}"[:80], "text or null")
    return {"candidate": found["candidate"], "sdpMid": mid, "sdpMLineIndex": index, "usernameFragment": ufrag}


def candidates_body() -> dict[str, Any]:
    """Describe the body of trickled candidates, for `openapi_extra=`."""
    one = {
        "type": "object",
        "required": ["candidate"],
        "additionalProperties": False,
        "properties": {
            "candidate": {"type": "string", "description": "As browsers write it: `candidate:...`."},
            "sdpMid": {"type": ["string", "null"]},
            "sdpMLineIndex": {"type": ["integer", "null"], "minimum": 0},
            "usernameFragment": {"type": ["string", "null"]},
        },
    }
    schema = {
        "type": "object",
        "required": ["candidates"],
        "additionalProperties": False,
        "properties": {"candidates": {"type": "array", "maxItems": MAX_CANDIDATES, "items": one}},
    }
    example = {"candidates": [{"candidate": "candidate:...", "sdpMid": "0", "sdpMLineIndex": 0}]}
    content = {JSON: {"schema": schema, "example": example}, SDP_FRAGMENT: {"schema": {"type": "string"}}}
    return {"requestBody": {"required": True, "content": content}}


def offer_body(settings: ApiSettings) -> dict[str, Any]:
    """Describe the body of the offer, for `openapi_extra=`."""
    schema = {
        "type": "object",
        "required": ["sdp"],
        "additionalProperties": False,
        "properties": {
            "sdp": {
                "type": "string",
                "description": "The SDP of the offer: video H.264 and, for mic, audio Opus.",
            },
            "type": {"type": "string", "enum": ["offer"]},
            "avatar_id": {"type": "string", "description": "Id or name of a presenter; the default one when left out."},
            "fps": {"type": "integer", "enum": list(LIVE_FPS), "description": "Pictures per second."},
            "drive": {
                "type": "string",
                "enum": [str(one) for one in Drive],
                "default": str(Drive.MIC),
                "description": "What the presenter says: the client's voice (mic), speech that is pushed (push), or the answers of "
                "the service's agent, which listens to the client (talk); talk takes pushed speech as well.",
            },
            "listen": {
                "type": "boolean",
                "default": False,
                "description": "With drive push: the client's microphone is heard, and the silent presenter listens to it. With "
                "drive talk that is always so.",
            },
            "echo": {"type": "boolean", "default": True, "description": "The voice goes back with the picture."},
            "seed": SEED_SCHEMA,
            "publish": {
                "type": "array",
                "maxItems": settings.publish.max_publications,
                "items": TARGET_SCHEMA,
                "description": "WHIP ingests and RTMP servers that the session is sent to from the start; how that goes, "
                "`GET /stream/webrtc/{session_id}/publish` tells.",
            },
        }
        | look_properties()
        | {TIMELINE: timeline_schema()},
    }
    example = {"sdp": "v=0...", "type": "offer", "drive": "mic", "fps": 25, "echo": True}
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema, "example": example}}}}
