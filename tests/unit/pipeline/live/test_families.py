"""Live sessions over other families: a hop of its own, a set-up, and 50 frames/s made of pictures instead of motion."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from kernels.arrays import F32
from pipeline.live.contracts import Drive
from pipeline.stages import CropsInWork, RenderRequest, RifeRequest, StageInfo
from pipeline.types import Nv12RectBatch
from tests.support.live import MARK, FakeClock, LiveFakeStages, live, pictures, spoken_frame, tone

NEURAL = StageInfo("neural", 5, 640, 1360, 2, False, sets_up=True, gate_frames=2)


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


@dataclass
class Crops:
    """Crops as they are handed on."""

    marks: F32
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class NeuralStages(LiveFakeStages):
    """Doubles the rate between pictures, as `rife` does."""

    def crops(self, request: RenderRequest) -> CropsInWork:
        self.requests.append(request)
        return Crops(request.motion.motion[:, MARK])

    async def rife(self, request: RifeRequest, crops: CropsInWork, before: CropsInWork | None) -> Nv12RectBatch:
        await self._take_time("rife")
        assert isinstance(crops, Crops) and (before is None or isinstance(before, Crops)) and request.fps == 50
        marks = crops.marks if before is None else np.concatenate([before.marks[-1:], crops.marks])
        doubled = np.empty(2 * len(marks) - 1, np.float32)
        doubled[0::2], doubled[1::2] = marks, (marks[:-1] + marks[1:]) / 2
        return pictures(doubled if before is None else doubled[1:])


@pytest.mark.parametrize("drive", list(Drive))
def test_fifty_frames_made_of_pictures_are_consecutive(drive: Drive) -> None:
    async def scene() -> None:
        clock = FakeClock()
        stages = NeuralStages(clock, NEURAL, {"motion_diffusion": 0.02, "rife": 0.02})
        async with live(drive, 50, stages=stages) as stage:
            await clock.advance(1.0)
            if drive is not Drive.MIC:
                stage.session.voice.speak(tone(2.0))
                await clock.advance(4.0)
            else:
                await stage.speak_into_microphone(tone(2.0))
                await stage.speak_into_microphone(np.zeros(32_000, np.float32))
            shown = {tick.index: frame for tick in stage.sink.videos if (frame := spoken_frame(tick)) is not None}
            assert all(frame * 2 == index for index, frame in shown.items())
            indices = sorted(shown)
            assert indices == list(range(indices[0], indices[-1] + 1)) and len(indices) >= 100
            loud = np.flatnonzero(stage.sink.heard())
            assert indices[0] <= loud[0] / 320 and loud[-1] / 320 <= indices[-1]
            late = [tick.index for tick in stage.sink.videos if tick.late]
            assert len(late) <= 1, "the last half-frame of a fade at most"
            assert stages.carries[0].hop_frames == 0 and np.diff(stages.hops[1:]).tolist() == [5] * (
                len(stages.hops) - 2
            )
            sizes = {len(request.motion.motion) for request in stages.requests}
            assert sizes <= {5, 4}, "hops are drawn whole"

    run(scene())


def test_an_interruption_never_blends_across_itself() -> None:
    async def scene() -> None:
        clock = FakeClock()
        stages = NeuralStages(clock, NEURAL, {"rife": 0.03})
        async with live(fps=50, stages=stages) as stage:
            stage.session.voice.speak(tone(3.0))
            await clock.advance(1.0)
            ticks = len(stage.sink.videos)
            stage.session.interrupt()
            await clock.advance(0.5)
            assert not any(spoken_frame(tick) for tick in stage.sink.videos[ticks:])
            assert stages.requests[-1].epoch == 1

    run(scene())


def test_the_set_up_is_done_once_before_anybody_speaks() -> None:
    async def scene() -> None:
        clock = FakeClock()
        stages = LiveFakeStages(clock, replace(NEURAL, doubles_in_motion_space=True))
        async with live(stages=stages) as stage:
            await clock.advance(5.0)
            assert stage.session.stats().stage_calls == {"motion_diffusion": 1} and stages.hops == [0]
            stage.session.voice.speak(tone(0.5))
            await clock.advance(3.0)
            assert stages.hops.count(0) == 1

    run(scene())


def test_a_set_up_that_fails_is_left_to_the_first_speech() -> None:
    async def scene() -> None:
        clock = FakeClock()
        stages = LiveFakeStages(clock, replace(NEURAL, doubles_in_motion_space=True), broken={"motion_diffusion"})
        async with live(stages=stages) as stage:
            await clock.advance(1.0)
            stages.broken.clear()
            stage.session.voice.speak(tone(0.5))
            await clock.advance(2.0)
            assert len(stage.sink.named("speaking_finished")) == 1
            assert any(spoken_frame(tick) for tick in stage.sink.videos)

    run(scene())
