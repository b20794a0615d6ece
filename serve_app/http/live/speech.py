"""Routes that push speech into a live session: whole audio files, or PCM over a WebSocket."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextlib import aclosing
from typing import Any, Final

import numpy as np
import structlog
from fastapi import APIRouter, Request, WebSocket
from pydantic import BaseModel, Field
from starlette.websockets import WebSocketDisconnect, WebSocketState

from deployments.graph.errors import plain
from deployments.host.live_commands import CloseAudio, Interrupt, OpenAudio, PushAudio, Speak, SpeakText
from deployments.host.live_errors import SessionEndedError
from kernels.arrays import F32
from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.media.pcm_reader import PcmReader
from pipeline.numbers import whole_number
from pipeline.types import SAMPLE_RATE_HZ
from serve_app.http.access.access import caller_of
from serve_app.http.access.bearer import chosen_subprotocol
from serve_app.http.body.fields import PROSE_SCHEMA, check_marks, prose_field
from serve_app.http.body.json_body import read_json
from serve_app.http.body.multipart import need_file, read_multipart
from serve_app.http.body.pieces import JSON, MULTIPART, FormShape, content_type, read_whole, refuse_query
from serve_app.http.capacity import Hold
from serve_app.http.live.host import LiveHost
from serve_app.http.live.socket import (
    AUDIO_QUERY,
    AUDIO_SOCKET_PATH,
    MAX_MESSAGE_BYTES,
    POLICY_VIOLATION,
    SESSION_GONE,
    TRY_AGAIN_LATER,
)
from serve_app.http.openapi import problems
from serve_app.http.problems.errors import ConflictingFieldsError, UnsupportedBodyError
from serve_app.http.problems.translate import code_of
from serve_app.http.services import Services

SPEECH_SHAPE: Final = FormShape(("audio",), ("text",), ("text",))
MAX_WAITING_S: Final = 2.0
"""Seconds of PCM that may wait here while the host takes in earlier PCM; more stays in the socket (back-pressure by TCP)."""
NEWEST: Final = 10**15
"""Number of an event that no session reaches: events from now on."""


class SpokenAnswer(BaseModel):
    """Speech that was taken in."""

    utterance_id: str = Field(description="Events name it.", examples=["u3"])
    duration_s: float | None = Field(description="null for text, which is spoken as it is made.", examples=[2.4])
    queued_s: float = Field(description="Speech that is spoken before it.", examples=[0.0])


def live_speech_routes(services: Services, host: LiveHost) -> APIRouter:
    """Make the route `/speak` and the audio WebSocket."""
    router = APIRouter(tags=["live"])

    @router.post(
        "/stream/webrtc/{session_id}/speak",
        status_code=202,
        summary="Let a session speak a text or an audio file",
        responses=problems(
            400, "session_not_found", 408, 409, "session_ended", 413, 415, 422, 500, "voice_missing", 503
        ),
        openapi_extra=_speech_body(),
    )
    async def speak(session_id: str, request: Request) -> SpokenAnswer:
        """Takes text (JSON `{"text"}` or the form field `text`) or any audio file (the body itself, or the form field `audio`).

        It is spoken after everything that was pushed before; an utterance that a WebSocket is pushing is heard to its end first.
        The answer is 202 as soon as the text or the file was read: speaking goes on, and events tell when it begins and ends.
        Text is spoken sentence by sentence while the next one is made; an event `error` tells when the voice cannot go on.
        """
        with services.budget.hold() as hold:
            with services.intake.place(caller_of(request.scope)):
                speech = await _speech(services, request, hold)
            if isinstance(speech, str):
                check_marks("text", speech, services.settings.family)
            services.metrics.uploaded(hold.held)
            said = SpeakText(session_id, speech) if isinstance(speech, str) else Speak(session_id, speech)
            spoken = await host.handle(said)
        return SpokenAnswer(
            utterance_id=spoken.utterance_id,
            duration_s=None if spoken.duration_s is None else round(spoken.duration_s, 6),
            queued_s=round(spoken.queued_s, 3),
        )

    @router.websocket(AUDIO_SOCKET_PATH)
    async def audio(websocket: WebSocket, session_id: str) -> None:
        """Take PCM and commands as `serve_app.http.live.socket` describes them."""
        await websocket.accept(chosen_subprotocol(websocket.scope))
        await _AudioSocket(websocket, session_id, host).run()

    return router


class _AudioSocket:
    """One WebSocket: a reader, and a sender with one call in flight, so that pieces stay in order and small ones are joined."""

    def __init__(self, websocket: WebSocket, session_id: str, host: LiveHost) -> None:
        self._socket = websocket
        self._session_id = session_id
        self._host = host
        self._waiting: deque[F32 | None] = deque()  # None ends an utterance
        self._waiting_samples = 0
        self._utterance_open = False
        self._sending = False
        self._changed = asyncio.Condition()
        self._log = structlog.get_logger("liveanchor.http")

    async def run(self) -> None:
        try:
            reader = PcmReader(self._query("sample_rate"), self._query("channels"))
            token = await self._host.handle(OpenAudio(self._session_id))
        except LiveAnchorError as error:
            await self._refuse(plain(error))
            return
        sender = asyncio.create_task(self._send(token))
        receiver = asyncio.create_task(self._receive(reader))
        ending = asyncio.create_task(self._session_ends())
        drained: asyncio.Task[None] | None = None
        try:
            await asyncio.wait((sender, receiver, ending), return_when=asyncio.FIRST_COMPLETED)
            if not (sender.done() or ending.done()):
                receiver.result()
                drained = asyncio.create_task(self._drained())
                await asyncio.wait((sender, drained, ending), return_when=asyncio.FIRST_COMPLETED)
            for task in (sender, ending):
                if task.done():
                    task.result()
        except LiveAnchorError as error:
            await self._refuse(plain(error))
        finally:
            tasks = [task for task in (sender, receiver, ending, drained) if task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._close_audio(token)

    async def _session_ends(self) -> None:
        """Raise when the session is over: a client that sends nothing must not wait for a session that is gone."""
        reason = ""
        async with aclosing(self._host.events(self._session_id, NEWEST)) as events:
            async for event in events:
                if event.name == "ended":
                    reason = str(event.data.get("detail", ""))
        raise SessionEndedError(self._session_id, reason)

    async def _receive(self, reader: PcmReader) -> None:
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                await self._put(reader.flush(), ends=True)
                return
            if (data := message.get("bytes")) is not None:
                if len(data) > MAX_MESSAGE_BYTES:
                    raise InvalidInputError("message", f"{len(data)} bytes", f"at most {MAX_MESSAGE_BYTES} bytes")
                await self._put(reader.push(data), ends=False)
            else:
                await self._command(reader, message.get("text") or "")

    async def _command(self, reader: PcmReader, text: str) -> None:
        kind = _kind_of(text)
        if kind == "end":
            await self._put(reader.flush(), ends=True)
        elif kind == "interrupt":
            reader.flush()
            async with self._changed:
                self._waiting.clear()
                self._waiting_samples, self._utterance_open = 0, False
                self._changed.notify_all()
            found = await self._host.handle(Interrupt(self._session_id))
            await self._socket.send_json({"type": "interrupted", "position_s": found.position_s, "epoch": found.epoch})
        else:
            raise InvalidInputError("message", text[:80], '{"type": "end"} or {"type": "interrupt"}, or PCM')

    async def _put(self, pcm: F32, ends: bool) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: self._waiting_samples <= MAX_WAITING_S * SAMPLE_RATE_HZ)
            if len(pcm):
                self._waiting.append(pcm)
                self._waiting_samples += len(pcm)
                self._utterance_open = True
            if ends and self._utterance_open:
                self._waiting.append(None)
                self._utterance_open = False
            self._changed.notify_all()

    async def _send(self, token: str) -> None:
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._waiting)
                pcm, ends = self._take()
                self._sending = True
            await self._host.handle(PushAudio(self._session_id, token, pcm, ends))
            async with self._changed:
                self._sending = False
                self._changed.notify_all()

    def _take(self) -> tuple[F32, bool]:
        """Everything up to the end of an utterance, joined."""
        blocks: list[F32] = []
        while self._waiting:
            block = self._waiting.popleft()
            if block is None:
                break
            blocks.append(block)
        else:
            block = blocks[-1]
        pcm = np.concatenate([np.zeros(0, np.float32), *blocks])
        self._waiting_samples -= len(pcm)
        return pcm, block is None

    async def _drained(self) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: not (self._waiting or self._sending))

    async def _refuse(self, error: LiveAnchorError) -> None:
        """Say why, as problem details in a text message, then close."""
        if self._socket.client_state is not WebSocketState.CONNECTED:
            return
        code = code_of(error)
        close = (
            SESSION_GONE if code.startswith("session_") else TRY_AGAIN_LATER if error.retryable else POLICY_VIOLATION
        )
        try:
            await self._socket.send_json({"type": "error", "code": code, "detail": str(error)[:300]})
            await self._socket.close(close, code)
        except (WebSocketDisconnect, RuntimeError):  # Starlette's way of saying that the client is gone
            self._log.info("websocket_gone", session_id=self._session_id)

    async def _close_audio(self, token: str) -> None:
        try:
            await self._host.handle(CloseAudio(self._session_id, token))
        except LiveAnchorError as error:
            self._log.info("audio_not_closed", session_id=self._session_id, code=plain(error).code)

    def _query(self, name: str) -> int:
        value = self._socket.query_params.get(name)
        if value is None:
            return AUDIO_QUERY[name].default
        found = whole_number(value)
        if found is None:
            raise InvalidInputError(name, value[:80], "a whole number")
        return found


def _kind_of(text: str) -> str:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return str(found.get("type", "")) if isinstance(found, dict) else ""


async def _speech(services: Services, request: Request, hold: Hold) -> bytes | str:
    """The bytes of an audio file, or text to speak."""
    refuse_query(request, SPEECH_SHAPE)
    limits = services.settings.body(services.settings.limits.max_upload_bytes)
    kind = content_type(request)
    if kind == JSON:
        shape, most = FormShape((), SPEECH_SHAPE.values), services.settings.limits.max_json_bytes
        return prose_field(await read_json(request, shape, services.settings.body(most), hold), "text")
    if kind == MULTIPART:
        form = await read_multipart(request, SPEECH_SHAPE, limits, hold)
        if "text" not in form.values:
            return need_file(form, "audio", "an audio file; or text in text").data
        if "audio" in form.files:
            raise ConflictingFieldsError("text", "audio as well", "audio, or text")
        return prose_field(form, "text")
    if not kind.startswith(("audio/", "video/", "application/ogg", "application/octet-stream")):
        raise UnsupportedBodyError("Content-Type", kind or "none", f"audio/*, video/*, {MULTIPART} or {JSON}")
    return await read_whole(request, limits, hold)


def _speech_body() -> dict[str, Any]:
    binary = {"type": "string", "format": "binary"}
    audio = binary | {"description": "The speech: an audio file, or a video with sound."}
    text = PROSE_SCHEMA | {"description": "Text to speak."}
    form = {
        "type": "object",
        "oneOf": [{"required": ["audio"]}, {"required": ["text"]}],
        "additionalProperties": False,
        "properties": {"audio": audio, "text": text},
    }
    said = {"type": "object", "required": ["text"], "additionalProperties": False, "properties": {"text": text}}
    content = {
        MULTIPART: {"schema": form, "example": {"audio": "(speech.wav)"}},
        JSON: {"schema": said, "example": {"text": "Good evening."}},
        "audio/*": {"schema": binary},
    }
    return {"requestBody": {"required": True, "content": content}}
