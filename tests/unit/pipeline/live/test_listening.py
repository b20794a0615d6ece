"""A silent face listens in a session: drawn while somebody speaks to it, back in its loop afterwards, and no picture late."""

from __future__ import annotations

import asyncio

import numpy as np

from engines.mini.control_points import INDEX
from engines.motion_layout import EXP, PITCH, bin_centres_deg
from kernels.arrays import F32
from pipeline.stages import RenderRequest
from tests.support.live import Stage, live, spoken_frame, tone

BROW = EXP.start + 3 * INDEX["brow_inner_left"] + 1


def sentence(seconds: float = 2.4) -> F32:
    """A voice with syllables, and a pause after it."""
    voice = tone(seconds, 0.25)
    syllables = 0.6 + 0.4 * np.sin(2 * np.pi * 4 * np.arange(len(voice)) / 16_000)
    return np.concatenate([(voice * syllables).astype(np.float32), np.zeros(9600, np.float32)])


def pitch_deg(row: F32) -> float:
    share = np.exp(row[PITCH] - row[PITCH].max())
    return float((share / share.sum() * bin_centres_deg().numpy()).sum())


def late(stage: Stage) -> int:
    return sum(video.late for video in stage.sink.videos)


def requested(requests: list[RenderRequest]) -> dict[int, F32]:
    return {one.motion.first_frame + i: row for one in requests for i, row in enumerate(one.motion.motion)}


def test_a_silent_face_listens_and_goes_back_to_its_loop() -> None:
    async def scenario() -> None:
        async with live(listens=True) as stage:
            stage.stages.latency_s = {"renderer": 0.03}
            await stage.clock.advance(2.0)
            assert not stage.stages.requests, "nobody speaks: the loop shows it"
            for _ in range(3):
                await stage.speak_into_microphone(sentence())
            rows = requested(stage.stages.requests)
            frames = sorted(rows)
            assert len(frames) > 150 and frames == list(range(frames[0], frames[-1] + 1)), "every frame is drawn"
            motion = np.stack([rows[frame] for frame in frames])
            plain = stage.session._performer._score
            base = np.stack([plain.idle(f + stage.session._shelf.origin, 1)[0] for f in frames])
            nods = np.array([pitch_deg(a) - pitch_deg(b) for a, b in zip(motion, base, strict=True)])
            brows = motion[:, BROW] - base[:, BROW]
            assert 1.5 < nods.max() < 4.0, "it nods"
            assert brows.min() < -0.003 and abs(brows[0]) < 0.001, "brows come up, from where they were"
            assert np.abs(np.diff(nods)).max() < 0.95
            await stage.clock.advance(6.0)
            asked = len(stage.stages.requests)
            await stage.clock.advance(3.0)
            assert len(stage.stages.requests) == asked, "back in the loop"
            assert late(stage) == 0 and not stage.stages.hops
            assert not stage.sink.heard().any()

    asyncio.run(scenario())


def test_its_answer_begins_and_ends_while_it_listens() -> None:
    async def scenario() -> None:
        async with live(listens=True) as stage:
            await stage.clock.advance(1.0)
            await stage.speak_into_microphone(sentence())
            stage.session.voice.speak(tone(1.5), 1.0)
            await stage.speak_into_microphone(sentence())
            await stage.clock.advance(8.0)
            assert any(spoken_frame(video) is not None for video in stage.sink.videos)
            assert late(stage) == 0
            asked = len(stage.stages.requests)
            await stage.clock.advance(2.0)
            assert len(stage.stages.requests) == asked

    asyncio.run(scenario())


def test_listening_gives_way_where_stages_are_crowded() -> None:
    async def scenario() -> None:
        crowded = [True]
        async with live(listens=True, crowded=lambda: crowded[0]) as stage:
            await stage.clock.advance(1.0)
            await stage.speak_into_microphone(sentence())
            assert not stage.stages.requests
            crowded[0] = False
            await stage.speak_into_microphone(sentence())
            assert stage.stages.requests
            crowded[0] = True
            await stage.speak_into_microphone(sentence())
            asked = len(stage.stages.requests)
            await stage.speak_into_microphone(sentence())
            assert len(stage.stages.requests) == asked and late(stage) == 0

    asyncio.run(scenario())


def test_an_interruption_and_a_stage_that_stalls_leave_a_face_that_listens() -> None:
    async def scenario() -> None:
        async with live(listens=True) as stage:
            await stage.clock.advance(1.0)
            await stage.speak_into_microphone(sentence())
            stage.session.voice.speak(tone(3.0), 1.0)
            await stage.clock.advance(1.0)
            stage.session.interrupt()
            stage.stages.stalled_until["renderer"] = stage.clock.now() + 1.5
            await stage.speak_into_microphone(sentence())
            asked = len(stage.stages.requests)
            await stage.speak_into_microphone(sentence())
            assert len(stage.stages.requests) > asked and stage.session.reason is None
            await stage.clock.advance(8.0)
            asked = len(stage.stages.requests)
            await stage.clock.advance(2.0)
            assert len(stage.stages.requests) == asked

    asyncio.run(scenario())
