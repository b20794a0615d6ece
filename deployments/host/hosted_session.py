"""A live session with everything that it holds, and what each command does to it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import structlog

from deployments.host.command import Answer
from deployments.host.event_log import EventLog
from deployments.host.live_calls import Interrupted, LiveOffer, Spoken, ViewerAnswer
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
from deployments.host.live_errors import AudioInUseError, IceRestartError, SessionEndedError, WrongDriveError
from deployments.host.live_session_stats import first_frame_ms, session_stats
from kernels.arrays import F32
from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.live.contracts import Drive, EndReason
from pipeline.live.session import LiveSession
from pipeline.live.text_speaker import TextSpeaker
from pipeline.livekit.room_peer import RoomPeer
from pipeline.media.audio_container import AudioLimits
from pipeline.media.audio_in import decode_audio
from pipeline.publish.publications import Publications
from pipeline.talk.brain import Brain
from pipeline.talk.conversation import Conversation
from pipeline.talk.errors import AgentError
from pipeline.talk.mouth import SessionMouth
from pipeline.talk.settings import AgentSettings
from pipeline.types import SAMPLE_RATE_HZ
from pipeline.voices.errors import VoiceError
from pipeline.voices.voice import Voice
from pipeline.webrtc.hub import LiveHub
from pipeline.webrtc.peer import LivePeer
from pipeline.webrtc.sdp import TrickledCandidate
from pipeline.webrtc.viewers import Viewers


class HostedSession:
    """Holds everything that one live session uses and does what commands ask of it. It belongs to one event loop.

    Args:
        offer: What the client asked for.
        session: The session itself.
        hub: Encodes pictures and voice for all of the session's clients.
        peer: The client's connection, or the session's place in a room.
        viewers: Connections of clients that only watch.
        publications: Ingests that the session is sent to.
        log: The session's events.
        speech: Bounds on a file that is to be spoken.
        voice: Speaks text.

    Attributes:
        audio_token: Names the connection that pushes PCM; empty while none does.
        task: Task that runs the session and frees it; None before it is begun.
    """

    def __init__(
        self,
        offer: LiveOffer,
        session: LiveSession,
        hub: LiveHub,
        peer: LivePeer | RoomPeer,
        viewers: Viewers,
        publications: Publications,
        log: EventLog,
        speech: AudioLimits,
        voice: Voice,
    ) -> None:
        self.offer = offer
        self.session = session
        self.hub = hub
        self.peer = peer
        self.viewers = viewers
        self.publications = publications
        self.log = log
        self._speech = speech
        self._voice = voice
        self._texts = TextSpeaker(voice, session.voice, self._not_spoken)
        self._record = structlog.get_logger("liveanchor.live")
        self._conversation: Conversation | None = None
        self.audio_token = ""
        self.task: asyncio.Task[EndReason] | None = None

    def begin_to_talk(self, settings: AgentSettings, brain: Brain) -> Conversation:
        """Listen to the client from now on, and let a brain answer; the conversation must be told what the session does."""
        mouth = SessionMouth(self.session, self._texts, self._voice)
        self._conversation = Conversation(settings, brain, mouth, self._not_answered)
        return self._conversation

    def hear(self, samples: F32, place: int, age_s: float) -> int:
        """Take the client's voice and return what `LiveSession.feed` does; in a conversation it is answered, too."""
        wanted = self.session.feed(samples, place, age_s)
        if self._conversation is not None and self.session.reason is None:
            self._conversation.hear(samples, place)
        return wanted

    async def handle(self, command: LiveCommand[Answer]) -> Answer:
        """Do what a command asks.

        Raises:
            SessionEndedError: The session is over, or ends.
            LiveAnchorError: As the command says.
        """
        self.check_alive()
        answer: Answer = await self._do(command)
        return answer

    async def over(self) -> EndReason:
        """Wait until the session is over and everything is free, and return why it ended."""
        return EndReason.FAILED if self.task is None else await asyncio.shield(self.task)

    async def free(self) -> None:
        """Free everything but the session itself, which ends first."""
        async with AsyncExitStack() as parts:  # each part is freed, even where another one fails
            parts.callback(self.log.close)
            parts.push_async_callback(self.hub.close)
            parts.push_async_callback(self.peer.close)
            parts.push_async_callback(self.viewers.close)
            parts.push_async_callback(self.publications.close)
            parts.push_async_callback(self._texts.close)
            if self._conversation is not None:
                parts.push_async_callback(self._conversation.close)

    def stats(self) -> dict[str, Any]:
        """The session's numbers, as plain values."""
        return session_stats(self.session.stats(), self.hub.stats(), self.peer.stats(), self.viewers.stats())

    def first_frame_ms(self) -> float | None:
        """Milliseconds from connected to the first picture sent; None before that."""
        return first_frame_ms(self.peer.stats())

    def check_alive(self) -> None:
        """Raise SessionEndedError where the session is over, or ends."""
        if (reason := self.session.reason) is not None:
            raise SessionEndedError(self.offer.session_id, str(reason))

    async def _do(self, command: LiveCommand[Any]) -> Any:
        match command:
            case AddCandidates():
                await self.peer.add_candidates(_trickled(command.candidates, self.offer.sdp))
            case End():
                self.session.end(EndReason.DELETED)
                await self.over()
            case Speak():
                return await self._speak(command.audio)
            case SpeakText():
                return self._speak_text(command.text)
            case OpenAudio():
                return self._open_audio()
            case PushAudio():
                return self._push_audio(command)
            case CloseAudio():
                self._close_audio(command.token)
            case Interrupt():
                if self._conversation is not None:
                    self._conversation.drop()
                self._texts.cancel()
                cut = self.session.interrupt()
                return Interrupted(cut.epoch, cut.position_s, cut.utterance_id)
            case Express(looks=looks):
                return self.session.express(looks)
            case ReadStats():
                return self.stats()
            case AddViewer():
                return ViewerAnswer(*await self.viewers.add_viewer(command.sdp))
            case RemoveViewer():
                await self.viewers.remove(command.viewer_id)
            case AddViewerCandidates(viewer_id=viewer_id):
                candidates = _trickled(command.candidates, self.viewers.offer_of(viewer_id))
                await self.viewers.add_candidates(viewer_id, candidates)
            case Publish():
                return await self.publications.add(command.target)
            case Unpublish():
                await self.publications.remove(command.publication_id)
            case ReadPublications():
                return self.publications.stats()
            case _:  # while the service is changed, another version may ask
                raise InvalidInputError("command", type(command).__name__, "a command of this version")
        return None

    async def _speak(self, audio: bytes) -> Spoken:
        self._check_drive()
        heard = await asyncio.to_thread(decode_audio, audio, self._speech)
        self.check_alive()  # it may have ended while the file was read
        waiting_s = self.session.waiting_s
        utterance_id = self.session.voice.speak(heard.pcm, heard.network_gain)
        return Spoken(utterance_id, len(heard.pcm) / SAMPLE_RATE_HZ, waiting_s)

    def _speak_text(self, text: str) -> Spoken:
        self._check_drive()
        self._voice.check()
        waiting_s = self.session.waiting_s
        return Spoken(self._texts.say(text), None, waiting_s)

    def _not_spoken(self, error: LiveAnchorError, utterance_id: str) -> None:
        self._record.warning("text_not_spoken", session_id=self.offer.session_id, code=error.code, reason=str(error))
        told = error.told if isinstance(error, VoiceError) else str(error)
        self.session.complain(told, utterance_id)

    def _not_answered(self, error: LiveAnchorError) -> None:
        """Say in the log what kind of failure it was, and nothing of what people said."""
        self._record.warning("talk_not_answered", session_id=self.offer.session_id, code=error.code, reason=str(error))
        told = error.told if isinstance(error, AgentError | VoiceError) else str(error)
        self.session.complain(told)

    def _open_audio(self) -> str:
        self._check_drive()
        if self.audio_token:
            raise AudioInUseError(self.offer.session_id)
        self.audio_token = secrets.token_hex(8)
        return self.audio_token

    def _push_audio(self, command: PushAudio) -> float:
        if not self.audio_token or command.token != self.audio_token:
            raise AudioInUseError(self.offer.session_id)
        if len(command.pcm):
            self.session.voice.push(command.pcm)
        if command.ends:
            self.session.voice.finish()
        return self.session.waiting_s

    def _close_audio(self, token: str) -> None:
        if token == self.audio_token:
            self.audio_token = ""
            self.session.voice.finish()

    def _check_drive(self) -> None:
        if self.offer.drive is Drive.MIC:
            raise WrongDriveError(str(self.offer.drive))


def _trickled(candidates: Sequence[dict[str, Any]], offer_sdp: str) -> list[TrickledCandidate | None]:
    for one in candidates:
        ufrag = one.get("usernameFragment")
        if ufrag and f"a=ice-ufrag:{ufrag}" not in offer_sdp.splitlines():
            raise IceRestartError(
                "candidates", "another ICE user name than the offer's", "those of the offer; make a new offer"
            )
    found: list[TrickledCandidate | None] = [
        TrickledCandidate(one["candidate"], one["sdpMid"], one["sdpMLineIndex"]) for one in candidates
    ]
    return found or [None]
