"""The idle loop: which stretch it is, how it is played, that it is drawn once and kept within bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.config import SessionSettings
from pipeline.live.idle_loop import IdleLoops
from pipeline.live.loop_choice import LONGEST_GAP, blinking, choose_loop, longest_gap, mirrored
from pipeline.live.settings import LiveSettings
from pipeline.mini.behaviour import MINI_BEHAVIOUR
from pipeline.session.blink_cue import blink_cue
from tests.support.live import BrokenStageError, FakeClock, LiveFakeStages, fake_avatar, settle


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


def at(fps: int) -> SessionSettings:
    return SessionSettings.model_validate({"fps": fps})


def test_a_loop_is_played_to_and_fro() -> None:
    assert [mirrored(step, 3) for step in range(-2, 13)] == [1, 0, 0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0, 0]
    assert [mirrored(step, 2, 2) for step in range(9)] == [0, 1, 2, 2, 2, 1, 0, 0, 0]
    assert [mirrored(step, 1, 2) for step in range(5)] == [0] * 5
    for count in (1, 2, 25, 100):
        assert [mirrored(2 * step, count, 2) for step in range(500)] == [2 * mirrored(s, count) for s in range(500)]


def test_gaps_are_counted_around_both_ends() -> None:
    blinks = np.zeros(20, np.bool_)
    assert longest_gap(blinks) == 40
    blinks[[4, 10]] = True
    shown = np.array([blinks[mirrored(step, 20)] for step in range(400)])
    assert longest_gap(blinks) == int(np.diff(np.flatnonzero(shown)).max()) - 1 == 18


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("frames", [75, 100, 200])
def test_every_loop_blinks_within_three_seconds(seed: int, frames: int) -> None:
    motion = choose_loop(MINI_BEHAVIOUR, seed, frames)
    assert motion.shape == (frames, 265)
    whole = MINI_BEHAVIOUR.idle(seed, 0, 3000)
    first = next(i for i in range(3000) if np.array_equal(whole[i], motion[0]))
    cue = blink_cue(seed, first, frames)
    shown = np.array([cue[mirrored(step, frames)] for step in range(4 * frames)]) > 0.5
    assert np.diff(np.flatnonzero(shown)).max() <= LONGEST_GAP + 6
    assert cue[[0, -1]].max() < 0.5, "not in the middle of a blink"
    np.testing.assert_array_equal(blinking(motion) & (cue < 0.2), False)


def test_a_template_video_is_its_own_loop() -> None:
    class Video:
        template_frames = 37

        def rest(self) -> F32:
            return np.zeros(265, np.float32)

        def idle(self, seed: int, first_frame: int, n_frames: int) -> F32:
            return np.arange(first_frame, first_frame + n_frames, dtype=np.float32)[:, None].repeat(265, 1)

        start = MINI_BEHAVIOUR.start

    motion = choose_loop(Video(), 5, 100)
    np.testing.assert_array_equal(motion[:, 0], np.arange(37))


def loops_of(clock: FakeClock, settings: LiveSettings | None = None) -> tuple[IdleLoops, LiveFakeStages]:
    stages = LiveFakeStages(clock, latency_s={"renderer": 0.01})
    return IdleLoops(stages, settings or LiveSettings(idle_loop_frames=40)), stages


@pytest.mark.parametrize(("fps", "pictures"), [(25, 40), (50, 79)])
def test_a_loop_is_drawn_once_for_all_who_ask(fps: int, pictures: int) -> None:
    async def scene() -> None:
        clock = FakeClock()
        loops, stages = loops_of(clock)
        opened = [loops.open(fake_avatar(), at(fps)) for _ in range(3)]
        assert all(loop.pictures is None and loop.picture(9) is loop.rest for loop in opened)
        tasks = [asyncio.create_task(loops.draw(loop, fake_avatar(), at(fps))) for loop in opened]
        await settle()
        tasks[0].cancel()
        await clock.advance(1.0)
        await asyncio.gather(*tasks[1:])
        frames = sum(len(request.motion.motion) for request in stages.requests)
        assert frames == 40 + 16 and all(len(request.motion.motion) <= 4 for request in stages.requests)
        first = opened[1].pictures
        assert first is not None and first is opened[2].pictures
        assert len(first.loop) == pictures and len(first.entry) == 16 * fps // 25
        assert loops.open(fake_avatar(), at(fps)).pictures is first
        assert loops.open(fake_avatar(), at(75 - fps)).pictures is None, "another rate is another loop"
        calls = len(stages.requests)
        await loops.draw(loops.open(fake_avatar(), at(fps)), fake_avatar(), at(fps))
        assert len(stages.requests) == calls
        following = [request.following is not None for request in stages.requests]
        assert following == ([False] * len(following) if fps == 25 else [True] * (len(following) - 1) + [False])

    run(scene())


def test_the_still_picture_leads_into_the_loop() -> None:
    loops, _ = loops_of(FakeClock())
    loop = loops.open(fake_avatar(), at(25))
    steps = np.stack([loop.rest_motion, *(loop.motion_at(frame) for frame in range(-16, 3))])
    jumps = np.abs(np.diff(steps[:, 202:], axis=0)).max(axis=1)
    whole = np.abs(loop.motion[0, 202:] - loop.rest_motion[202:]).max()
    assert jumps.max() < 0.45 * whole
    np.testing.assert_array_equal(loop.motion_at(-1), loop.motion[0])


def test_nearest_finds_a_frame_of_the_loop_itself() -> None:
    loops, _ = loops_of(FakeClock(), LiveSettings(idle_loop_frames=100))
    loop = loops.open(fake_avatar(), at(25))
    for frame in (0, 17, 99):
        assert np.abs(loop.motion[loop.nearest(loop.motion[frame])] - loop.motion[frame]).max() < 1e-6


def test_loops_are_bounded_in_bytes_and_failures_are_not_kept() -> None:
    async def scene() -> None:
        clock = FakeClock()
        loops, stages = loops_of(clock)
        small = IdleLoops(stages, LiveSettings(idle_loop_frames=40, idle_cache_bytes=2**20))
        avatars = [replace(fake_avatar(), avatar_id=f"{i:032x}") for i in range(3)]
        stages.broken.add("renderer")
        draw = asyncio.create_task(loops.draw(loops.open(avatars[0], at(25)), avatars[0], at(25)))
        await clock.advance(1.0)
        with pytest.raises(BrokenStageError):
            await draw
        stages.broken.clear()
        for avatar in avatars:
            draw = asyncio.create_task(small.draw(small.open(avatar, at(25)), avatar, at(25)))
            await clock.advance(1.0)
            await draw
            assert small.open(avatar, at(25)).pictures is not None
        with pytest.raises(InvalidInputError, match="fps"):
            loops.open(avatars[0], SessionSettings.model_validate({"fps": 59.94}))
        draw = asyncio.create_task(loops.draw(loops.open(avatars[0], at(25)), avatars[0], at(25)))
        await settle()
        await loops.close()
        await settle()
        assert draw.cancelled() or draw.done()
        assert stages.in_flight == 0

    run(scene())
