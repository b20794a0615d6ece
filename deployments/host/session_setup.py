"""How a live session is put together: face, stages, clock, encoder and connections, wired to each other."""

from __future__ import annotations

from collections.abc import Callable

from deployments.config import SessionHostSettings
from deployments.host.event_log import EventLog
from deployments.host.headroom import Headroom
from deployments.host.hosted_session import HostedSession
from deployments.host.live_calls import LiveOffer
from pipeline.fetch.fetcher import Fetcher
from pipeline.live.contracts import Drive, EndReason, LiveEvent, LiveSink, VideoTick, VoiceTick
from pipeline.live.idle_loop import IdleLoops
from pipeline.live.loop_clock import MonotonicClock
from pipeline.live.session import LiveSession
from pipeline.livekit.room_peer import RoomPeer, load_rtc
from pipeline.media.audio_container import AudioLimits
from pipeline.publish.connection import Connection, WhipConnection
from pipeline.publish.publications import Publications
from pipeline.publish.rtmp_connection import RtmpConnection
from pipeline.publish.target import PublishTarget
from pipeline.publish.whip_endpoint import WhipEndpoint
from pipeline.publish.whip_peer import WhipPeer
from pipeline.session.behaviour import behaviour_of
from pipeline.stage_meter import CallTimes, StageMeter
from pipeline.stages import Stages
from pipeline.talk.brain import Brain
from pipeline.types import Avatar, Nv12Canvas
from pipeline.voices.voice import Voice
from pipeline.webrtc.helpers import Helpers
from pipeline.webrtc.hub import LiveHub
from pipeline.webrtc.peer import LivePeer
from pipeline.webrtc.viewers import Viewers
from pipeline.webrtc.voice_thread import VoiceThread


class _Sink:
    """A session's `LiveSink`: media go to the hub and to its room, events there and to the log."""

    def __init__(self, log: EventLog, *media: LiveSink) -> None:
        self._log = log
        self._media = list(media)

    def add(self, one: LiveSink) -> None:
        """Hand everything to one more."""
        self._media.append(one)

    def video(self, tick: VideoTick) -> None:
        for one in self._media:
            one.video(tick)

    def voice(self, tick: VoiceTick) -> None:
        for one in self._media:
            one.voice(tick)

    def event(self, event: LiveEvent) -> None:
        self._log.add(event)
        for one in self._media:
            one.event(event)


def set_up(
    offer: LiveOffer,
    settings: SessionHostSettings,
    stages: Stages,
    face: tuple[Avatar, Nv12Canvas],
    loops: IdleLoops,
    headroom: Headroom,
    helpers: Helpers,
    voices: VoiceThread,
    voice: Voice,
    brain: Brain,
    fetcher: Fetcher,
    crowded: Callable[[], bool],
    times: CallTimes,
) -> HostedSession:
    """Put a session together; nothing of it runs yet.

    Args:
        offer: What the client asks for.
        settings: How sessions behave and are sent.
        stages: Stage calls of this session.
        face: The avatar and its still picture.
        loops: Idle loops of this process.
        headroom: Told what the session costs, and when its client has come.
        helpers: STUN and TURN servers of this process.
        voices: Decodes the microphones of this process.
        voice: Speaks text.
        brain: Answers people in sessions of `Drive.TALK`.
        fetcher: Talks to ingests, and keeps addresses out that may not be asked.
        crowded: Whether the stages have so much to do that utterances should ask them less often.
        times: How long stage calls of all sessions of this process took.
    """
    avatar, canvas = face
    live, session_id = settings.live, offer.session_id
    picture = settings.session.model_copy(update={"fps": offer.fps})

    def client_came() -> None:
        headroom.client_came(session_id)
        hosted.session.connected()

    hub = LiveHub(
        canvas,
        offer.fps,
        settings.encoder,
        settings.rtc,
        picture.colour,
        offer.echo,
        session_id=session_id,
        on_failure=lambda error: hosted.session.end(EndReason.FAILED),
    )
    peer: LivePeer | RoomPeer
    if offer.room is None:
        peer = LivePeer(
            hub,
            settings.rtc,
            connect_timeout_s=live.connect_timeout_s,
            microphone=offer.drive is Drive.MIC or offer.listens,
            on_microphone=lambda samples, place, age_s: hosted.hear(samples, place, age_s),
            on_connected=client_came,
            on_ended=lambda reason: hosted.session.end(reason),
            helpers=helpers,
            voices=voices,
        )
    else:
        peer = RoomPeer(
            load_rtc(),
            offer.room,
            canvas,
            offer.fps,
            settings.rtc,
            lambda: hosted.session,
            connect_timeout_s=live.connect_timeout_s,
            on_connected=client_came,
            on_ended=lambda reason: hosted.session.end(reason),
        )
    log, clock = EventLog(), MonotonicClock()
    sink = _Sink(log, hub, *((peer,) if isinstance(peer, RoomPeer) else ()))
    session = LiveSession(
        session_id,
        StageMeter(stages, clock.now, lambda took_s, lasts_s: headroom.chunk_done(session_id, took_s, lasts_s), times),
        avatar,
        loops,
        sink,
        live,
        picture,
        offer.drive,
        offer.seed,
        clock,
        behaviour_of(avatar),
        crowded,
        offer.looks,
        offer.listens,
    )
    viewers = Viewers(hub, settings.rtc, connect_timeout_s=live.connect_timeout_s, helpers=helpers)

    def connect(target: PublishTarget) -> Connection:
        if target.is_rtmp:
            return RtmpConnection(hub, fetcher, target, settings.publish)
        peer = WhipPeer(hub, settings.rtc, helpers)
        return WhipConnection(WhipEndpoint(fetcher, target, settings.publish), peer, live.connect_timeout_s)

    publications = Publications(settings.publish, connect, clock, session.complain)
    speech = AudioLimits(live.max_queued_speech_s, settings.limits.max_upload_bytes)
    hosted = HostedSession(offer, session, hub, peer, viewers, publications, log, speech, voice)
    if offer.drive is Drive.TALK:
        sink.add(hosted.begin_to_talk(settings.agent, brain))
    return hosted
