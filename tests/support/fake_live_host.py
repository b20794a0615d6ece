"""`serve_app.http.live.host.LiveHost` in memory: sessions are entries, speech is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from deployments.host.live_calls import (
    Interrupted,
    LiveAnswer,
    LiveHostStats,
    LiveOffer,
    NumberedEvent,
    Spoken,
    ViewerAnswer,
)
from deployments.host.live_commands import (
    AddCandidates,
    AddViewer,
    AddViewerCandidates,
    CloseAudio,
    End,
    Express,
    Interrupt,
    LiveCommand,
    OpenAudio,
    Publish,
    PushAudio,
    ReadPublications,
    ReadStats,
    RemoveViewer,
    Speak,
    SpeakText,
    Unpublish,
)
from deployments.host.live_errors import (
    AudioInUseError,
    NoCapacityError,
    SessionEndedError,
    SessionNotFoundError,
    WrongDriveError,
)
from deployments.host.token_pool import PoolStats
from kernels.arrays import F32
from kernels.errors import LiveAnchorError
from pipeline.expression.looks import Looks
from pipeline.live.contracts import Drive
from pipeline.media.audio_in import decode_audio
from pipeline.publish.publication_stats import PublicationState, PublicationStats
from pipeline.webrtc.errors import UnknownViewerError


@dataclass
class FakeSession:
    """What came for a session."""

    offer: LiveOffer
    candidates: list[dict[str, Any]] = field(default_factory=list)
    pcm: list[F32] = field(default_factory=list)
    utterances: list[float] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    looks: list[Looks] = field(default_factory=list)
    epoch: int = 0
    token: str = ""
    viewers: set[str] = field(default_factory=set)
    publications: dict[str, PublicationStats] = field(default_factory=dict)
    events: list[NumberedEvent] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self, name: str, **data: Any) -> None:
        self.events.append(NumberedEvent(len(self.events) + 1, name, data))
        self.changed.set()

    def stats(self) -> dict[str, Any]:
        return {
            "session_id": self.offer.session_id, "avatar_id": self.offer.avatar_id or "ab" * 16,
            "state": "idle", "epoch": self.epoch, "fps_in": 0.0, "fps_out": 25.0,
            "av_offset_ms": 0.0, "queue_depths": {"video": 0}, "stage_calls": {}, "packets_lost": 0, "bitrate": 0,
            "frames_repeated": 0, "frames_dropped": 0, "first_frame_ms": None,
        }  # fmt: skip


class FakeLiveHost:
    """See `LiveHost`."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """As new."""
        self.capacity = 3
        self.sessions: dict[str, FakeSession] = {}
        self.ended: dict[str, str] = {}
        self.refused = 0
        self.failure: LiveAnchorError | None = None
        self.text_failure: LiveAnchorError | None = None
        self.publish_failure: LiveAnchorError | None = None

    async def offer(self, offer: LiveOffer) -> LiveAnswer:
        if self.failure is not None:
            raise self.failure
        if len(self.sessions) >= self.capacity:
            self.refused += 1
            raise NoCapacityError(len(self.sessions), self.capacity, "as many as one host takes")
        self.sessions[offer.session_id] = FakeSession(offer)
        return LiveAnswer(offer.session_id, "v=0 answer", "ab" * 16, 512, 512, offer.fps)

    async def handle(self, command: LiveCommand[Any]) -> Any:
        session = self._one(command.session_id)
        match command:
            case AddCandidates():
                session.candidates.extend(command.candidates)
            case End():
                session.tell("ended", reason="deleted")
                del self.sessions[command.session_id]
                self.ended[command.session_id] = "deleted"
            case Speak():
                return self._speak(session, command.audio)
            case SpeakText():
                return self._speak_text(session, command.text)
            case OpenAudio():
                return self._open_audio(session)
            case PushAudio():
                return self._push_audio(session, command)
            case CloseAudio():
                session.token = ""
            case Interrupt():
                session.epoch += 1
                session.pcm.clear()
                return Interrupted(session.epoch, 1.25, "u1")
            case Express(looks=looks):
                session.looks.append(looks)
                return 1.28
            case ReadStats():
                return session.stats()
            case AddViewer():
                session.viewers.add("v1")
                return ViewerAnswer("v1", "v=0 viewer answer")
            case RemoveViewer():
                session.viewers.discard(command.viewer_id)
            case AddViewerCandidates():
                if command.viewer_id not in session.viewers:
                    raise UnknownViewerError(command.viewer_id)
            case Publish():
                return self._publish(session, command)
            case Unpublish():
                session.publications.pop(command.publication_id, None)
            case ReadPublications():
                return list(session.publications.values())
            case _:
                raise AssertionError(command)
        return None

    async def events(self, session_id: str, after: int) -> AsyncGenerator[NumberedEvent, None]:
        session = self._one(session_id)
        after = min(after, len(session.events))
        while True:
            for event in session.events[after:]:
                after = event.number
                yield event
                if event.name == "ended":
                    return
            session.changed.clear()
            await session.changed.wait()

    async def tokens(self) -> PoolStats:
        return PoolStats()

    async def live_stats(self) -> list[LiveHostStats]:
        rows = [one.stats() for one in self.sessions.values()]
        return [LiveHostStats("r1", self.capacity, rows, {"deleted": len(self.ended)}, self.refused, [40.0, 60.0])]

    def heard(self, session_id: str) -> F32:
        """All PCM that came since the last interruption."""
        return np.concatenate([np.zeros(0, np.float32), *self._one(session_id).pcm])

    def _one(self, session_id: str) -> FakeSession:
        if session_id in self.ended:
            raise SessionEndedError(session_id, self.ended[session_id])
        if session_id not in self.sessions:
            raise SessionNotFoundError(session_id)
        return self.sessions[session_id]

    def _check_drive(self, session: FakeSession) -> None:
        if session.offer.drive is not Drive.PUSH:
            raise WrongDriveError(str(session.offer.drive))

    def _speak(self, session: FakeSession, audio: bytes) -> Spoken:
        self._check_drive(session)
        duration_s = decode_audio(audio).duration_s
        session.utterances.append(duration_s)
        return Spoken(f"u{len(session.utterances)}", duration_s, sum(session.utterances[:-1]))

    def _speak_text(self, session: FakeSession, text: str) -> Spoken:
        self._check_drive(session)
        if self.text_failure is not None:
            raise self.text_failure
        session.texts.append(text)
        return Spoken(f"t{len(session.texts)}", None, sum(session.utterances))

    def _publish(self, session: FakeSession, command: Publish) -> PublicationStats:
        if self.publish_failure is not None:
            raise self.publish_failure
        name = f"p{len(session.publications)}"
        stats = PublicationStats(name, command.target.shown, PublicationState.LIVE, 1, "", 0.5, None)
        session.publications[name] = stats
        return stats

    def _open_audio(self, session: FakeSession) -> str:
        self._check_drive(session)
        if session.token:
            raise AudioInUseError(session.offer.session_id)
        session.token = f"place-{len(session.utterances)}"
        return session.token

    def _push_audio(self, session: FakeSession, command: PushAudio) -> float:
        assert command.token == session.token
        session.pcm.append(command.pcm)
        if command.ends:
            session.utterances.append(sum(map(len, session.pcm)) / 16_000 - sum(session.utterances))
        return 0.0
