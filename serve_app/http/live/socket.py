"""The protocol of the audio WebSocket, for its route and for `/openapi.json`, which has no place of its own for WebSockets."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from pipeline.media.resample import MAX_RATE_HZ, MIN_RATE_HZ
from pipeline.types import SAMPLE_RATE_HZ

AUDIO_SOCKET_PATH: Final = "/stream/webrtc/{session_id}/audio"
MAX_MESSAGE_BYTES: Final = 2**20
POLICY_VIOLATION: Final = 1008
TRY_AGAIN_LATER: Final = 1013
SESSION_GONE: Final = 4404


class SocketQuery(NamedTuple):
    """Describes a whole number in the WebSocket's address: its default, its bounds and its meaning."""

    default: int
    lowest: int
    highest: int
    meaning: str


AUDIO_QUERY: Final = {
    "sample_rate": SocketQuery(SAMPLE_RATE_HZ, MIN_RATE_HZ, MAX_RATE_HZ, "Samples per second and channel."),
    "channels": SocketQuery(1, 1, 2, "Two become one, as loud as the one with the voice."),
}
_SENT: Final = {
    "binary messages": "PCM, signed 16 bit, little endian, channels interleaved, in pieces of any size up to "
    f"{MAX_MESSAGE_BYTES} bytes. It may come faster than it is spoken, until the queue is full.",
    '{"type": "end"}': "Ends an utterance; closing the WebSocket does too.",
    '{"type": "interrupt"}': "Sound and mouth stop, and what waits is dropped.",
}
_RECEIVED: Final = {
    '{"type": "interrupted", "position_s": 1.28, "epoch": 1}': "The answer to an interruption: seconds of the utterance that were "
    "sent.",
    '{"type": "error", "code": "audio_in_use", "detail": "..."}': "Why the service closes the WebSocket; `/problems` explains each "
    "`code`.",
}
_CLOSES: Final = {
    POLICY_VIOLATION: "The address, a message or the session does not allow it: `invalid_input`, `wrong_drive`, `audio_in_use`, "
    "`queue_full`.",
    TRY_AGAIN_LATER: "The service cannot just now. Connect again a little later.",
    SESSION_GONE: "There is no such session, or it is over; a WebSocket that sends nothing is told so at once.",
}
_SUMMARY: Final = "Push PCM into a live session"
_ABOUT: Final = (
    'For sessions with `drive: "push"`; the offer\'s answer has the address as `audio_url`. Connect with `ws:` or `wss:` to the '
    "same host and port. One WebSocket per session speaks at a time; files that are sent to `/speak` "
    "meanwhile wait for the end of the utterance."
)


def audio_socket_description() -> dict[str, Any]:
    """Describe the WebSocket as an entry of `x-websockets`: parameters as in OpenAPI, messages each way, close codes."""
    session = {
        "name": "session_id",
        "in": "path",
        "required": True,
        "description": "Id of the session, from the answer to the offer.",
        "schema": {"type": "string"},
    }
    query = [
        {
            "name": name,
            "in": "query",
            "required": False,
            "description": one.meaning,
            "schema": {"type": "integer", "minimum": one.lowest, "maximum": one.highest, "default": one.default},
        }
        for name, one in AUDIO_QUERY.items()
    ]
    return {
        "tags": ["live"],
        "summary": _SUMMARY,
        "description": _ABOUT,
        "parameters": [session, *query],
        "sent": [{"message": message, "description": meaning} for message, meaning in _SENT.items()],
        "received": [{"message": message, "description": meaning} for message, meaning in _RECEIVED.items()],
        "closes": [{"code": code, "description": meaning} for code, meaning in _CLOSES.items()],
    }


def live_description() -> str:
    """Describe the WebSocket in words, for the description of the routes of live sessions."""
    address = "&".join(f"{name}={one.default}" for name, one in AUDIO_QUERY.items())
    lines = [
        "A voice in, a speaking presenter out, in real time, over WebRTC: an offer begins a session, and its answer names it.",
        "",
        f"`WS {AUDIO_SOCKET_PATH}?{address}`: {_SUMMARY[0].lower()}{_SUMMARY[1:]}. {_ABOUT}",
        "",
        *(
            f"* `{name}`: {one.lowest} to {one.highest}, default {one.default}. {one.meaning}"
            for name, one in AUDIO_QUERY.items()
        ),
        *(f"* You send {_code(message)}: {meaning}" for message, meaning in _SENT.items()),
        *(f"* You receive {_code(message)}: {meaning}" for message, meaning in _RECEIVED.items()),
        *(f"* Closed with {code}: {meaning}" for code, meaning in _CLOSES.items()),
    ]
    return "\n".join(lines)


def _code(message: str) -> str:
    return f"`{message}`" if message.startswith("{") else message
