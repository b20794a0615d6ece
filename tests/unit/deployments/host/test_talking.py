"""A conversation in a hosted session, whole: what the client says goes in, events and speech come out."""

from __future__ import annotations

import numpy as np
import pytest

from deployments.host.live_commands import Interrupt, SpeakText
from deployments.host.live_sessions import LiveSessions
from pipeline.live.contracts import Drive
from pipeline.talk.brain import Heard, Words
from pipeline.talk.errors import AgentFailedError
from tests.support.fake_voice import FakeVoice
from tests.support.live import heard_at_48_khz
from tests.support.rtc import Client, until
from tests.unit.deployments.host.test_live_sessions import Told, begin, run
from tests.unit.pipeline.talk.test_conversation import ScriptedBrain
from tests.unit.pipeline.talk.test_listening import speech


def test_a_person_who_talks_is_answered_and_drives_no_lips() -> None:
    voice = FakeVoice()
    said = np.concatenate([np.zeros(24_000), heard_at_48_khz(speech()[:16_000]), np.zeros(48_000)]).astype(np.float32)

    async def body(sessions: LiveSessions, told: Told) -> None:
        brain = ScriptedBrain([[Heard("Hello?"), Words("Good evening.")], [AgentFailedError("secret words")]])
        sessions._brain = brain
        client = Client()
        await begin(sessions, client, drive=Drive.TALK, listens=True)
        entry = sessions._entries["s1"]
        for place in range(0, len(said), 1920):
            entry.hear(said[place : place + 1920], place, 0.0)

        def events() -> list[tuple[str, str]]:
            return [(one.name, str(one.data.get("detail", ""))) for one in entry.log._events]

        await until(lambda: ("speaking_finished", "") in events())
        assert brain.turns[0][0] == pytest.approx(1.5, abs=0.5), "what was said, and little around it"
        wanted = ["turn_started", "turn_finished", "heard", "reply", "speaking_started", "speaking_finished"]
        assert [name for name, _ in events() if name in wanted] == wanted, "the client's own voice is not spoken"
        assert voice.said == ["Good evening."]
        assert (await sessions.handle(SpeakText("s1", "Hello."))).utterance_id, "it takes pushed speech as well"
        await sessions.handle(Interrupt("s1"))
        for place in range(len(said), 2 * len(said), 1920):
            entry.hear(said[place - len(said) : place - len(said) + 1920], place, 0.0)
        await until(lambda: ("error", "the agent could not answer") in events())
        await client.close()

    run(body, voice=voice)
