"""A live session whose stages are in time makes the motion that a file of what was heard would make."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from pipeline.config import SilenceSettings
from pipeline.live.contracts import Drive
from pipeline.session.planner import Doing, Rules
from tests.support.live import SPOKEN_FROM, live, mark_of, spoken_frame, tone
from tests.support.planned import as_a_file, plan_file

RULES = Rules(hop=4, gate=2, grid=1, ahead=3, idle=0, fade=4)
"""Of the fake family in a live session."""


@pytest.mark.parametrize("drive", list(Drive))
@pytest.mark.parametrize("pauses", [(0.3, 0.9), (0.7, 0.55), (1.3, 2.0)])
def test_the_hops_of_a_session_are_those_of_a_file(drive: Drive, pauses: tuple[float, ...]) -> None:
    async def scene() -> None:
        async with live(drive) as stage:
            parts = [np.zeros(8000, np.float32)]
            for seconds, pause in zip((1.1, 0.33, 0.7), (*pauses, 2.0), strict=True):
                parts += [tone(seconds), np.zeros(round(16_000 * pause), np.float32)]
            pcm = np.concatenate(parts)
            if drive is Drive.MIC:
                await stage.speak_into_microphone(pcm)
            else:
                stage.session.voice.speak(pcm)
                await stage.clock.advance(len(pcm) / 16_000)
            plan = plan_file(stage.sink.heard(), as_a_file(RULES), SilenceSettings())
            shown = len(stage.sink.videos)
            assert plan.hops and [first for first in stage.stages.hops if first < shown] == plan.hops
            for tick in stage.sink.videos:
                mark, doing = mark_of(tick), plan.frames[tick.index]
                assert (spoken_frame(tick) == tick.index) == (doing is Doing.SPEECH)
                assert doing is not Doing.IDLE or mark is None or mark < SPOKEN_FROM

    asyncio.run(scene())
