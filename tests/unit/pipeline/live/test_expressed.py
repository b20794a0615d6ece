"""A live face changes what it expresses: soon, without a jump, silent or speaking, and goes back to its loop."""

import asyncio
from collections.abc import Sequence

import numpy as np
import pytest

from engines.mini.control_points import INDEX
from engines.motion_layout import EXP
from pipeline.expression.looks import Look, Looks
from pipeline.stages import RenderRequest
from tests.support.live import Stage, live, mark_of, spoken_frame, tone

CORNER = EXP.start + 3 * INDEX["mouth_corner_left"] + 1


def drawn(requests: Sequence[RenderRequest]) -> dict[int, float]:
    """Height of a mouth corner by frame, as it was asked for last."""
    return {
        request.motion.first_frame + i: float(row[CORNER])
        for request in requests
        for i, row in enumerate(request.motion.motion)
    }


def happy(**more: float) -> Looks:
    return Looks((Look(expression="happy", **more),))


def late(stage: Stage) -> int:
    return sum(video.late for video in stage.sink.videos)


@pytest.mark.parametrize("fps", [25, 50])
def test_a_silent_face_changes_within_200_ms_and_without_a_jump(fps: int) -> None:
    async def scenario() -> None:
        async with live(fps=fps) as stage:
            stage.stages.latency_s = {"renderer": 0.03}
            await stage.clock.advance(2.0)
            assert not stage.stages.requests, "the loop shows the silent face"
            asked = len(stage.sink.videos) / fps
            begins = stage.session.express(happy())
            assert asked <= begins <= asked + 0.2
            await stage.clock.advance(2.0)
            origin = stage.session._shelf.origin
            heights = {frame + origin: height for frame, height in drawn(stage.stages.requests).items()}
            first = round(begins * 25)
            assert min(heights) <= first
            curve = np.array([heights[frame] for frame in range(first, first + 30)])
            assert curve[0] == pytest.approx(0.0, abs=0.01)
            assert curve[15] < -0.03
            assert np.abs(np.diff(curve)).max() < 0.012
            assert late(stage) == 0

    asyncio.run(scenario())


def test_a_neutral_face_goes_back_to_the_loop_s_pictures() -> None:
    async def scenario() -> None:
        async with live() as stage:
            await stage.clock.advance(1.0)
            stage.session.express(happy())
            await stage.clock.advance(1.5)
            stage.session.express(Looks((Look(expression="neutral"),)))
            await stage.clock.advance(1.5)
            asked = len(stage.stages.requests)
            await stage.clock.advance(2.0)
            assert len(stage.stages.requests) == asked
            assert late(stage) == 0

    asyncio.run(scenario())


def test_a_speaking_face_changes_in_what_was_drawn_ahead_too() -> None:
    async def scenario() -> None:
        async with live() as stage:
            await stage.clock.advance(1.0)
            stage.session.voice.speak(tone(4.0), 1.0)
            await stage.clock.advance(1.5)
            now = len(stage.sink.videos) / 25
            begins = stage.session.express(happy(rise_s=0.2))
            assert begins <= now + 0.2
            await stage.clock.advance(1.0)
            origin, heights = stage.session._shelf.origin, drawn(stage.stages.requests)
            first = round(begins * 25) - origin
            assert heights[first + 5] < -0.03
            assert late(stage) == 0
            spoken = [spoken_frame(video) for video in stage.sink.videos[-20:]]
            assert spoken == list(range(len(stage.sink.videos) - 20, len(stage.sink.videos))), "the lips go on"

    asyncio.run(scenario())


def test_speech_begins_and_ends_in_an_expression() -> None:
    async def scenario() -> None:
        async with live() as stage:
            stage.session.express(happy())
            await stage.clock.advance(1.0)
            stage.session.voice.speak(tone(1.0), 1.0)
            await stage.clock.advance(4.0)
            assert any(spoken_frame(video) is not None for video in stage.sink.videos)
            assert late(stage) == 0
            frames = sorted(drawn(stage.stages.requests))
            assert frames == list(range(frames[0], frames[-1] + 1)), "every frame is drawn, also after speech"
            assert frames[-1] + stage.session._shelf.origin >= len(stage.sink.videos)

    asyncio.run(scenario())


def test_an_interruption_leaves_the_expression() -> None:
    async def scenario() -> None:
        async with live() as stage:
            stage.session.express(happy())
            await stage.clock.advance(1.0)
            stage.session.voice.speak(tone(3.0), 1.0)
            await stage.clock.advance(1.0)
            stage.session.interrupt()
            await stage.clock.advance(3.0)
            heights = drawn(stage.stages.requests)
            assert heights[max(heights)] < -0.03
            assert max(heights) + stage.session._shelf.origin >= len(stage.sink.videos)

    asyncio.run(scenario())


def test_a_slow_stage_holds_pictures_and_the_face_goes_on() -> None:
    async def scenario() -> None:
        async with live() as stage:
            await stage.clock.advance(1.0)
            stage.session.express(happy())
            await stage.clock.advance(1.0)
            stage.stages.stalled_until["renderer"] = stage.clock.now() + 2.5
            await stage.clock.advance(5.0)
            assert [mark_of(video) for video in stage.sink.videos[-10:]].count(None) == 0
            assert stage.session.reason is None

    asyncio.run(scenario())


def test_looks_of_an_offer_show_before_the_loop_is_drawn() -> None:
    async def scenario() -> None:
        async with live(warm=False, looks=happy()) as stage:
            await stage.clock.advance(1.0)
            assert min(drawn(stage.stages.requests).values()) < -0.03

    asyncio.run(scenario())
