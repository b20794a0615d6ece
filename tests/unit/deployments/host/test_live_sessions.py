"""Live sessions of one process, whole: offer, media, speech, interruption, end; stages are fake, the client is aiortc."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from deployments.config import SessionHostSettings
from deployments.graph.errors import StageLostError
from deployments.host.live_calls import LiveOffer
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
    IceRestartError,
    NoCapacityError,
    SessionEndedError,
    SessionNotFoundError,
    WrongDriveError,
)
from deployments.host.live_sessions import LiveSessions
from kernels.errors import InvalidInputError
from pipeline.expression.looks import Looks
from pipeline.live.contracts import Drive
from pipeline.publish.target import PublishTarget
from pipeline.stages import Stages
from pipeline.types import Avatar
from pipeline.voices.errors import VoiceFailedError, VoiceMissingError
from tests.support.fake_voice import FakeVoice
from tests.support.http_server import small_avatar, wav
from tests.support.live import LiveFakeStages
from tests.support.manual_clock import ManualClock
from tests.support.rtc import Client, Tone, down_to, resident_bytes, threads, until, usage

SETTINGS = SessionHostSettings.model_validate(
    {"live": {"max_sessions": 2}, "encoder": {"prefer": "x264", "threads": 1, "live_preset": "ultrafast"}}
)


class WallClock:
    """The loop's own, as `LiveFakeStages` wants it."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep_until(self, when: float) -> None:
        await asyncio.sleep(max(0.0, when - self.now()))


class Told:
    """What `LiveSessions` tells its owner."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[tuple[str, str]] = []
        self.ids_at_begin: list[str] = []
        self.sessions: LiveSessions | None = None

    async def begin(self, session_id: str) -> None:
        assert self.sessions is not None
        self.begun.append(session_id)
        self.ids_at_begin = self.sessions.ids

    async def end(self, session_id: str, reason: str) -> None:
        self.ended.append((session_id, reason))


def run(
    body: Callable[[LiveSessions, Told], Awaitable[None]],
    settings: SessionHostSettings = SETTINGS,
    stages_of: Callable[[str], Awaitable[Stages]] | None = None,
    clock: Callable[[], float] = time.monotonic,
    voice: FakeVoice | None = None,
) -> None:
    avatar = small_avatar()

    def presenter(avatar_id: str | None) -> Avatar:
        if avatar_id not in (None, avatar.avatar_id):
            raise InvalidInputError("avatar_id", str(avatar_id), "a registered avatar")
        return avatar

    async def whole() -> None:
        told = Told()
        stages = LiveFakeStages(WallClock())  # type: ignore[arg-type]

        async def same(session_id: str) -> Stages:
            return stages

        sessions = LiveSessions(
            settings,
            stages_of or same,
            presenter,
            stages,
            voice or FakeVoice(),
            clock=clock,
            on_begin=told.begin,
            on_end=told.end,
        )
        told.sessions = sessions
        try:
            await body(sessions, told)
        finally:
            await sessions.close()
            assert sessions.headroom.active == 0 and not sessions.ids

    asyncio.run(whole())


async def begin(sessions: LiveSessions, client: Client, session_id: str = "s1", **fields: Any) -> None:
    fields = {"avatar_id": None, "fps": 25, "drive": Drive.PUSH, "echo": True} | fields
    answer = await sessions.open(LiveOffer(session_id, await client.offer(), **fields))
    assert (answer.session_id, answer.width, answer.height) == (session_id, 128, 160)
    await client.accept(answer.sdp)
    await until(lambda: sessions.all_stats()[0]["state"] != "connecting")


def test_a_session_shows_pictures_speaks_and_ends_leaving_nothing() -> None:
    async def body(sessions: LiveSessions, told: Told) -> None:
        before, client = threads(), Client()
        channel = client.channel()
        await begin(sessions, client)
        await until(lambda: len(client.pictures) >= 5)
        assert told.begun == ["s1"] and told.ids_at_begin == ["s1"], "a beat at that moment must not leave it out"
        assert sessions.ids == ["s1"]
        spoken = await sessions.handle(Speak("s1", wav(0.4)))
        assert spoken.duration_s == pytest.approx(0.4) and spoken.queued_s == 0
        events = [event async for event in _until_finished(sessions)]
        assert [one.name for one in events] == ["connected", "speaking_started", "speaking_finished"]
        assert events[-1].data["position_s"] == pytest.approx(0.4) and events[-1].data["interrupted"] is False
        stats = await sessions.handle(ReadStats("s1"))
        assert stats["stage_calls"]["motion_diffusion"] > 0 and 0 < stats["first_frame_ms"] < 1000 * stats["uptime_s"]
        assert sessions.first_frames_ms() == [stats["first_frame_ms"]]
        await until(lambda: len(client.messages) >= 3)
        assert [json.loads(one)["name"] for one in client.messages][:3] == [one.name for one in events]
        assert channel.label == "events"
        await sessions.handle(End("s1"))
        assert told.ended == [("s1", "deleted")] and sessions.ended["deleted"] == 1
        assert sessions.first_frames_ms() == [stats["first_frame_ms"]]
        for call in (sessions.handle(End("s1")), sessions.handle(ReadStats("s1")), sessions.handle(Speak("s1", wav()))):
            with pytest.raises(SessionEndedError):
                await call
        await client.close()
        gc.collect()
        await until(lambda: threads() <= before)

    run(body)


async def _until_finished(sessions: LiveSessions, utterances: int = 1) -> Any:
    async for event in sessions.events("s1", 0):
        yield event
        utterances -= event.name == "speaking_finished"
        if not utterances:
            return


def test_draining_a_session_that_is_just_ending_waits_for_it() -> None:
    async def body(sessions: LiveSessions, told: Told) -> None:
        client = Client()
        await sessions.open(LiveOffer("s1", await client.offer(), None, 25, Drive.PUSH, True))
        ending = asyncio.create_task(sessions.handle(End("s1")))
        await asyncio.sleep(0)
        await asyncio.gather(sessions.drain("s1"), sessions.drain("s1"), ending)
        await sessions.drain("s1")
        assert told.ended == [("s1", "deleted")] and not sessions.ids
        await client.close()

    run(body)


def test_an_interruption_answers_where_the_sound_stopped() -> None:
    async def body(sessions: LiveSessions, told: Told) -> None:
        client = Client()
        await begin(sessions, client)
        assert (await sessions.handle(Interrupt("s1"))).utterance_id is None
        await sessions.handle(Speak("s1", wav(20.0)))
        await until(lambda: sessions.all_stats()[0]["speaking"])
        cut = await sessions.handle(Interrupt("s1"))
        assert 0 < cut.position_s < 19 and cut.epoch == 1
        finished = [event async for event in _until_finished(sessions)][-1].data
        assert finished["interrupted"] and finished["position_s"] == cut.position_s
        assert (await sessions.handle(Interrupt("s1"))).utterance_id is None
        await sessions.handle(Speak("s1", wav(0.2)))
        await until(lambda: sessions.all_stats()[0]["utterances"] == 2)
        await client.close()

    run(body)


def test_a_text_is_spoken_and_an_interruption_takes_the_rest_of_it() -> None:
    voice = FakeVoice()

    async def body(sessions: LiveSessions, told: Told) -> None:
        client = Client()
        await begin(sessions, client)
        await until(lambda: voice.warmed == 1)
        spoken = await sessions.handle(SpeakText("s1", "Good evening. Good night."))
        assert spoken.duration_s is None and spoken.queued_s == 0
        events = [event async for event in _until_finished(sessions)]
        assert [one.name for one in events] == ["connected", "speaking_started", "speaking_finished"]
        assert events[-1].data["utterance_id"] == spoken.utterance_id and voice.said == ["Good evening.", "Good night."]
        await sessions.handle(SpeakText("s1", "And now something longer. " * 30))
        await sessions.handle(SpeakText("s1", "Not heard."))
        await until(lambda: sessions.all_stats()[0]["speaking"])
        cut = await sessions.handle(Interrupt("s1"))
        made = len(voice.said)
        assert cut.epoch == 1 and made < 25
        await sessions.handle(SpeakText("s1", "After it."))
        await until(lambda: sessions.all_stats()[0]["utterances"] == 3 and not sessions.all_stats()[0]["speaking"])
        assert voice.said[made:] == ["After it."] and sessions.all_stats()[0]["queue_depths"]["speech_ms"] == 0
        await client.close()

    run(body, voice=voice)


def test_a_text_that_the_voice_cannot_say_is_told_to_the_client_without_the_server_s_words() -> None:
    voice = FakeVoice(refused={"bad": VoiceFailedError("the server answered 400: secret")})

    async def body(sessions: LiveSessions, told: Told) -> None:
        client = Client()
        client.channel()
        await begin(sessions, client)
        spoken = await sessions.handle(SpeakText("s1", "Something bad."))
        await until(lambda: any("error" in one for one in client.messages))
        (error,) = [json.loads(one) for one in client.messages if json.loads(one)["name"] == "error"]
        assert error["utterance_id"] == spoken.utterance_id and error["detail"] == VoiceFailedError.told
        voice.missing = VoiceMissingError("hibari-tts")
        with pytest.raises(VoiceMissingError):
            await sessions.handle(SpeakText("s1", "Hello."))
        assert sessions.all_stats()[0]["utterances"] == 0
        await client.close()

    run(body, voice=voice)


def test_pcm_is_pushed_by_one_speaker_at_a_time() -> None:
    async def body(sessions: LiveSessions, told: Told) -> None:
        client = Client()
        await begin(sessions, client)
        token = await sessions.handle(OpenAudio("s1"))
        with pytest.raises(AudioInUseError):
            await sessions.handle(OpenAudio("s1"))
        with pytest.raises(AudioInUseError):
            await sessions.handle(PushAudio("s1", "another", np.zeros(10, np.float32), False))
        waiting = await sessions.handle(PushAudio("s1", token, np.full(8000, 0.1, np.float32), False))
        assert waiting == pytest.approx(0.5, abs=0.05)
        await sessions.handle(CloseAudio("s1", token))
        await until(lambda: any(one["utterances"] == 1 and not one["speaking"] for one in sessions.all_stats()))
        assert await sessions.handle(OpenAudio("s1")) != token
        await client.close()

    run(body)


def test_a_file_is_spoken_after_the_utterance_that_is_being_pushed() -> None:
    async def body(sessions: LiveSessions, told: Told) -> None:
        client = Client()
        await begin(sessions, client)
        token = await sessions.handle(OpenAudio("s1"))
        piece = np.full(8000, 0.1, np.float32)
        await sessions.handle(PushAudio("s1", token, piece, False))
        spoken = await sessions.handle(Speak("s1", wav(0.3)))
        assert spoken.queued_s == pytest.approx(0.5, abs=0.05)
        await sessions.handle(PushAudio("s1", token, piece, True))
        await until(lambda: sessions.all_stats()[0]["utterances"] == 2 and not sessions.all_stats()[0]["speaking"])
        over = [one.data async for one in _until_finished(sessions, 2) if one.name == "speaking_finished"]
        assert [one["position_s"] for one in over] == pytest.approx([1.0, 0.3])
        assert over[1]["utterance_id"] == spoken.utterance_id
        await client.close()

    run(body)


def test_every_command_reaches_its_session_and_others_are_refused() -> None:
    @dataclass(frozen=True)
    class Newer(LiveCommand[None]):
        pass

    commands: list[LiveCommand[Any]] = [
        AddCandidates("s1", ()), End("s1"), Speak("s1", wav()), SpeakText("s1", "Hello."), OpenAudio("s1"),
        PushAudio("s1", "t", np.zeros(160, np.float32), True), CloseAudio("s1", "t"), Interrupt("s1"), ReadStats("s1"),
        AddViewer("s1", "v=0"), RemoveViewer("s1", "v"), AddViewerCandidates("s1", "v", ()),
        Publish("s1", PublishTarget("https://ingest.example/a")), Unpublish("s1", "p"), ReadPublications("s1"),
        Express("s1", Looks()),
    ]  # fmt: skip
    assert {type(one) for one in commands} | {Newer} == set(LiveCommand.__subclasses__())

    async def body(sessions: LiveSessions, told: Told) -> None:
        client = Client()
        await begin(sessions, client)
        with pytest.raises(InvalidInputError, match="Newer"):
            await sessions.handle(Newer("s1"))
        for command in commands:
            with pytest.raises(SessionNotFoundError):
                await sessions.handle(replace(command, session_id="s2"))
        await sessions.handle(End("s1"))
        for command in commands:
            with pytest.raises(SessionEndedError, match="deleted"):
                await sessions.handle(command)
        await client.close()

    run(body)


def test_a_client_that_leaves_ends_its_session() -> None:
    async def body(sessions: LiveSessions, told: Told) -> None:
        client = Client()
        await begin(sessions, client, drive=Drive.MIC)
        with pytest.raises(WrongDriveError):
            await sessions.handle(Speak("s1", wav()))
        with pytest.raises(WrongDriveError):
            await sessions.handle(SpeakText("s1", "Hello."))
        with pytest.raises(WrongDriveError):
            await sessions.handle(OpenAudio("s1"))
        await client.close()
        assert await asyncio.wait_for(sessions.ended_because("s1"), 60) == "peer_closed"
        assert told.ended == [("s1", "peer_closed")]

    run(body)


def test_a_session_that_listens_hears_its_client_s_microphone_and_does_not_send_it_back() -> None:
    async def body(sessions: LiveSessions, told: Told) -> None:
        client = Client(microphone=Tone())
        await begin(sessions, client, listens=True)
        side = sessions._entries["s1"].session.other_side
        assert side is not None
        await until(lambda: side.last_loud > 0)
        stats = await sessions.handle(ReadStats("s1"))
        assert stats["microphone"]["packets"] > 0 and not stats["stage_calls"].get("motion_diffusion")
        assert (await sessions.handle(Speak("s1", wav(0.1)))).duration_s == pytest.approx(0.1)
        await sessions.handle(End("s1"))
        await client.close()

    run(body)


def test_places_of_clients_that_do_not_come_go_to_those_who_ask_later() -> None:
    clock = ManualClock()

    async def body(sessions: LiveSessions, told: Told) -> None:
        client, late = Client(), Client()
        await begin(sessions, client, "s1")
        absent = LiveOffer("s2", await late.offer(), None, 25, Drive.PUSH, True)
        await sessions.open(absent)
        clock.now = 9.0
        with pytest.raises(NoCapacityError):
            await sessions.open(replace(absent, session_id="s3"))
        clock.now = 11.0
        with pytest.raises(NoCapacityError):  # another host may have room
            await sessions.open(replace(absent, session_id="s4", last_try=False))
        results = await asyncio.gather(
            *(sessions.open(replace(absent, session_id=f"n{number}")) for number in range(5)), return_exceptions=True
        )
        refused = [one for one in results if isinstance(one, NoCapacityError)]
        assert len(refused) == 4 and sessions.headroom.refused == 5
        assert told.ended == [("s2", "connect_timeout")] and "s1" in sessions.ids and len(sessions.ids) == 2
        with pytest.raises(SessionEndedError, match="connect_timeout"):
            await sessions.handle(ReadStats("s2"))
        await client.close()
        await late.close()

    run(body, clock=clock)


def test_offers_that_fail_leave_nothing_and_take_no_place() -> None:
    failing = True

    async def stages_of(session_id: str) -> Stages:
        if failing:
            raise StageLostError("renderer", 2)
        return LiveFakeStages(WallClock())  # type: ignore[arg-type]

    async def body(sessions: LiveSessions, told: Told) -> None:
        nonlocal failing
        client = Client()
        offer = LiveOffer("s1", await client.offer(), None, 25, Drive.PUSH, True)
        with pytest.raises(StageLostError):
            await sessions.open(offer)
        failing = False
        with pytest.raises(InvalidInputError, match="avatar_id"):
            await sessions.open(LiveOffer("s1", offer.sdp, "0" * 32, 25, Drive.PUSH, True))
        with pytest.raises(InvalidInputError, match="sdp"):
            await sessions.open(LiveOffer("s1", "v=0\r\nnonsense", None, 25, Drive.PUSH, True))
        assert sessions.headroom.active == 0
        assert told.begun == ["s1"] and told.ended == [("s1", "failed")], (
            "announced while it was answered, then withdrawn"
        )
        for number in range(2):
            await sessions.open(LiveOffer(f"s{number}", offer.sdp, None, 25, Drive.PUSH, True))
        with pytest.raises(NoCapacityError):
            await sessions.open(LiveOffer("s3", offer.sdp, None, 25, Drive.PUSH, True))
        assert sorted(sessions.ids) == ["s0", "s1"]
        with pytest.raises(SessionNotFoundError):
            await sessions.handle(ReadStats("s3"))
        await client.close()

    run(body, stages_of=stages_of)


def test_candidates_of_another_ice_session_are_refused() -> None:
    async def body(sessions: LiveSessions, told: Told) -> None:
        client = Client()
        await begin(sessions, client)
        line = "candidate:1 1 udp 2130706431 192.0.2.1 50000 typ host"
        one = {"candidate": line, "sdpMid": "0", "sdpMLineIndex": 0, "usernameFragment": "another"}
        with pytest.raises(IceRestartError):
            await sessions.handle(AddCandidates("s1", (one,)))
        await sessions.handle(AddCandidates("s1", (one | {"usernameFragment": None},)))
        await sessions.handle(AddCandidates("s1", ()))
        await client.close()

    run(body)


def test_a_viewer_sees_the_same_session() -> None:
    async def body(sessions: LiveSessions, told: Told) -> None:
        client, viewer = Client(), Client()
        await begin(sessions, client)
        seen = await sessions.handle(AddViewer("s1", await viewer.offer()))
        await viewer.accept(seen.sdp)
        await until(lambda: len(viewer.pictures) >= 3 and len(client.pictures) >= 3)
        assert list((await sessions.handle(ReadStats("s1")))["viewers"]) == [seen.viewer_id]
        await sessions.handle(RemoveViewer("s1", seen.viewer_id))
        await sessions.handle(RemoveViewer("s1", seen.viewer_id))
        assert not (await sessions.handle(ReadStats("s1")))["viewers"]
        await viewer.close()
        await client.close()

    run(body)


async def visit(sessions: LiveSessions, index: int) -> None:
    """A session that connects, speaks and ends, each in one of several ways."""
    session_id, client = f"s{index}", Client(audio="sendrecv")
    client.channel()
    drive = (Drive.MIC, Drive.PUSH)[index % 2]
    answer = await sessions.open(LiveOffer(session_id, await client.offer(), None, 25, drive, True))
    way = ("client", "server", "server", "never connects")[index % 4]
    if way != "never connects":
        await client.accept(answer.sdp)
        await until(lambda: len(client.pictures) > 0)
        if drive is Drive.PUSH:
            await sessions.handle(Speak(session_id, wav(0.1)))
    if way == "client":
        await client.close()
        assert await asyncio.wait_for(sessions.ended_because(session_id), 60) == "peer_closed"
    else:
        await sessions.handle(End(session_id))
        await client.close()


def test_two_hundred_sessions_leave_threads_files_tasks_and_memory_flat() -> None:
    async def body(sessions: LiveSessions, told: Told) -> None:
        unhandled: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        seen = []
        for index in range(200):
            await visit(sessions, index)
            if index % 20 == 19:
                gc.collect()
                await asyncio.sleep(0)
                seen.append((usage(), resident_bytes()))
        await down_to(seen[0][0])
        assert seen[-1][1] - seen[1][1] < 12 * 2**20, "memory grew"
        assert unhandled == [], "errors that nobody was told of"
        assert sum(sessions.ended.values()) == 200 and sessions.headroom.active == 0

    run(body)
