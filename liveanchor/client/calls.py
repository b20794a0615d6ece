"""Every route that the clients know, as a `Call`: what is sent and what the answer becomes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx

from liveanchor.client.answers import Generated, Interrupted, LiveSession, Presenter, Progress, Spoken, Video, VideoPage
from liveanchor.client.call import Call, Upload, in_path, retry_after_of
from liveanchor.client.errors import BadArgumentError

VIDEOS = "/v1/videos"
LIVE = "/stream/webrtc"


def version() -> Call[str]:
    """The service's version."""
    return Call("GET", "/version", lambda answer: str(_named(answer)["version"]))


def ready() -> Call[None]:
    """Nothing, where the whole graph answers."""
    return Call("GET", "/readyz", lambda answer: _is(answer, {"status": "ready"}))


def presenters() -> Call[tuple[Presenter, ...]]:
    """All presenters that this caller may use."""

    def read(answer: httpx.Response) -> tuple[Presenter, ...]:
        return tuple(Presenter(str(one["avatar_id"]), str(one["name"])) for one in answer.json()["avatars"])

    return Call("GET", "/avatars", read)


def register(portrait: Upload, name: str, consent: str) -> Call[Presenter]:
    """A presenter of a portrait or a short video; it stays until it is removed."""

    def read(answer: httpx.Response) -> Presenter:
        found = answer.json()
        return Presenter(str(found["avatar_id"]), str(found["name"]))

    fields = {"name": name, "consent": consent}
    return Call("POST", "/avatars", read, fields=fields, uploads={"file": portrait}, patient=True)


def remove_presenter(avatar_id: str) -> Call[None]:
    """Remove a presenter."""
    return Call("DELETE", f"/avatars/{in_path(avatar_id, 'avatar_id')}", lambda _: None)


def generate(
    audio: Upload | None, text: str, portrait: Upload | None, options: dict[str, str], job_id: str
) -> Call[Generated]:
    """The mp4 itself as the answer's body.

    Raises:
        BadArgumentError: There is neither speech nor text, or both.
    """
    fields, uploads = _speech(audio, text, portrait)

    def read(answer: httpx.Response) -> Generated:
        return Generated(int(answer.headers["x-frames"]))

    return Call("POST", "/generate", read, fields=fields | options, uploads=uploads, headers=_job(job_id), patient=True)


def generate_kept(
    audio: Upload | None, text: str, portrait: Upload | None, options: dict[str, str], job_id: str
) -> Call[tuple[Generated, str]]:
    """The same, but the file is kept: captions come with its address, for `kept_file`.

    Raises:
        BadArgumentError: There is neither speech nor text, or both.
    """
    fields, uploads = _speech(audio, text, portrait)

    def read(answer: httpx.Response) -> tuple[Generated, str]:
        found = answer.json()
        if not str(path := found["url"]).startswith("/"):
            raise ValueError("an address of another service")  # it would be sent the key
        return Generated(int(found["frames"]), str(found["captions"] or "")), str(path)

    return Call(
        "POST", "/api/generate", read, fields=fields | options, uploads=uploads, headers=_job(job_id), patient=True
    )


def kept_file(path: str) -> Call[None]:
    """A file that is kept."""
    return Call("GET", path, lambda _: None, patient=True)


def progress(job_id: str) -> Call[Progress]:
    """How far a file is, by the id that `generate` was given."""

    def read(answer: httpx.Response) -> Progress:
        found = answer.json()
        return Progress(str(found["state"]), int(found["frames_done"]), int(found["frames"]))

    return Call("GET", f"/jobs/{in_path(job_id, 'job_id')}", read)


def create_video(
    audio: Upload | None,
    text: str,
    portrait: Upload | None,
    options: dict[str, str],
    metadata: Mapping[str, str] | None,
    idempotency_key: str,
) -> Call[Video]:
    """A video in the background.

    Raises:
        BadArgumentError: There is neither speech nor text, or both.
    """
    fields, uploads = _speech(audio, text, portrait)
    if metadata:
        fields["metadata"] = json.dumps(dict(metadata))
    headers = {"Idempotency-Key": idempotency_key} if idempotency_key else {}
    return Call("POST", VIDEOS, _video, fields=fields | options, uploads=uploads, headers=headers, patient=True)


def video(video_id: str) -> Call[Video]:
    """How far a video is."""
    return Call("GET", _video_path(video_id), _video)


def videos(limit: int, after: str, *, oldest_first: bool) -> Call[VideoPage]:
    """A page of videos."""
    params = {"limit": str(limit), "order": "asc" if oldest_first else "desc"} | ({"after": after} if after else {})

    def read(answer: httpx.Response) -> VideoPage:
        found = answer.json()
        return VideoPage(tuple(_video_of(one, 0.0) for one in found["data"]), bool(found["has_more"]), found)

    return Call("GET", VIDEOS, read, params=params)


def cancel_video(video_id: str) -> Call[Video]:
    """Stop a video; it stays in the list."""
    return Call("POST", f"{_video_path(video_id)}/cancel", _video)


def retry_video(video_id: str) -> Call[Video]:
    """Make a failed or cancelled video after all."""
    return Call("POST", f"{_video_path(video_id)}/retry", _video)


def delete_video(video_id: str) -> Call[None]:
    """Forget a video and its file."""
    return Call("DELETE", _video_path(video_id), lambda answer: _is(answer, {"deleted": True}))


def video_content(video_id: str) -> Call[None]:
    """The mp4 as the answer's body."""
    return Call("GET", f"{_video_path(video_id)}/content", lambda _: None, patient=True)


def ice_servers() -> Call[list[dict[str, Any]]]:
    """STUN and TURN servers, as `RTCConfiguration.iceServers` has them."""
    return Call("GET", f"{LIVE}/ice-servers", lambda answer: [dict(one) for one in answer.json()["ice_servers"]])


def offer(sdp: str, options: Mapping[str, Any]) -> Call[LiveSession]:
    """Begin a live session."""

    def read(answer: httpx.Response) -> LiveSession:
        found = answer.json()
        return LiveSession(
            session_id=str(found["session_id"]),
            sdp=str(found["sdp"]),
            avatar_id=str(found["avatar_id"]),
            fps=int(found["fps"]),
            width=int(found["width"]),
            height=int(found["height"]),
            audio_url=found["audio_url"],
        )

    return Call("POST", f"{LIVE}/offer", read, json={"sdp": sdp, "type": "offer"} | dict(options))


def speak(session_id: str, audio: Upload | None, text: str) -> Call[Spoken]:
    """Let a session speak a file or a text.

    Raises:
        BadArgumentError: There is neither speech nor text, or both.
    """
    _one_of(audio, text)

    def read(answer: httpx.Response) -> Spoken:
        found = answer.json()
        length = found["duration_s"]
        return Spoken(str(found["utterance_id"]), None if length is None else float(length), float(found["queued_s"]))

    path = f"{_session_path(session_id)}/speak"
    if audio is None:
        return Call("POST", path, read, json={"text": text})
    return Call("POST", path, read, uploads={"audio": audio})


def interrupt(session_id: str) -> Call[Interrupted]:
    """Stop speaking."""

    def read(answer: httpx.Response) -> Interrupted:
        found = answer.json()
        return Interrupted(int(found["epoch"]), float(found["position_s"]), found["utterance_id"])

    return Call("POST", f"{_session_path(session_id)}/interrupt", read)


def session_stats(session_id: str) -> Call[dict[str, Any]]:
    """Numbers of one session."""
    return Call("GET", f"{_session_path(session_id)}/stats", lambda answer: dict(answer.json()))


def close(session_id: str) -> Call[None]:
    """End a session."""
    return Call("DELETE", _session_path(session_id), lambda _: None)


def _speech(audio: Upload | None, text: str, portrait: Upload | None) -> tuple[dict[str, str], dict[str, Upload]]:
    _one_of(audio, text)
    uploads = {name: one for name, one in (("audio", audio), ("portrait", portrait)) if one is not None}
    return {"prompt": text}, uploads


def _one_of(audio: Upload | None, text: str) -> None:
    if (audio is None) is not bool(text):
        got = "both" if text else "neither audio nor text"
        raise BadArgumentError("audio", got, "one of audio and text")


def _job(job_id: str) -> dict[str, str]:
    return {"X-Request-Id": job_id} if job_id else {}


def _video(answer: httpx.Response) -> Video:
    return _video_of(answer.json(), retry_after_of(answer))


def _video_of(found: Mapping[str, Any], retry_after_s: float) -> Video:
    error = found["error"] or {}
    return Video(
        id=str(found["id"]),
        status=str(found["status"]),
        state=str(found["state"]),
        progress=int(found["progress"]),
        place=found["place"],
        error_code=str(error.get("code", "")),
        error_message=str(error.get("message", "")),
        retry_after_s=retry_after_s,
        raw=dict(found),
    )


def _video_path(video_id: str) -> str:
    return f"{VIDEOS}/{in_path(video_id, 'video_id')}"


def _session_path(session_id: str) -> str:
    return f"{LIVE}/{in_path(session_id, 'session_id')}"


def _named(answer: httpx.Response) -> dict[str, Any]:
    found = dict(answer.json())
    if found.get("name") != "liveanchor":
        raise ValueError("another service")
    return found


def _is(answer: httpx.Response, expected: Mapping[str, Any]) -> None:
    found = answer.json()
    if any(found[name] != value for name, value in expected.items()):
        raise ValueError("another answer")
