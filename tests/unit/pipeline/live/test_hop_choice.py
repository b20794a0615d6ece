"""Utterances are cut in longer hops while the stages are crowded; nothing else of them changes."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import numpy as np
import pytest

from pipeline.live.contracts import Drive
from pipeline.live.hop_choice import HopChoice
from pipeline.stages import StageInfo
from tests.support.live import live, spoken_frame, tone


@pytest.mark.parametrize(
    ("own", "others", "wanted", "short", "long"),
    [(8, (4,), 4, 4, 8), (8, (4,), 8, 8, 8), (5, (10,), 4, 5, 10), (5, (), 4, 5, 5)],
    ids=["mini", "long hops wanted", "ditto", "no choice"],
)
def test_the_hop_grows_as_far_as_the_family_allows(
    own: int, others: tuple[int, ...], wanted: int, short: int, long: int
) -> None:
    info = StageInfo("any", own, 0, 0, 25, False, hop_choices=others)
    assert HopChoice(info, wanted, lambda: False).now() == short
    assert HopChoice(info, wanted, lambda: True).now() == long


def test_each_pushed_utterance_has_the_hop_of_its_beginning_and_no_picture_is_missing() -> None:
    async def scene() -> None:
        crowded = False
        async with live(crowded=lambda: crowded) as stage:
            lengths = []
            for now in (False, True, False):
                crowded, before = now, len(stage.stages.hops)
                stage.session.voice.speak(tone(2.0) + 0.01)
                await stage.clock.advance(0.5)
                crowded = not now  # what comes later is for the next one
                await stage.clock.advance(4.0)
                lengths.append({int(step) for step in np.diff(stage.stages.hops[before:])})
            assert lengths == [{4}, {8}, {4}]
            shown = [frame for tick in stage.sink.videos if (frame := spoken_frame(tick)) is not None]
            assert all(later - at == 1 or later - at > 20 for at, later in pairwise(shown))
            assert not any(tick.late for tick in stage.sink.videos)

    asyncio.run(scene())


def test_a_microphone_waits_longer_before_its_hops_grow() -> None:
    async def scene() -> None:
        crowded = False
        async with live(Drive.MIC, crowded=lambda: crowded) as stage:
            silence, speech = np.zeros(16_000, np.float32), tone(1.2)
            lengths, delays = [], []
            for now in (False, True):
                crowded, before = now, len(stage.stages.hops)
                await stage.speak_into_microphone(np.concatenate([silence, speech, silence]))
                lengths.append({int(step) for step in np.diff(stage.stages.hops[before:])})
                delays.append(stage.session.stats().delay_ms)
            assert lengths == [{4}, {8}]
            assert delays[1] - delays[0] == pytest.approx(160.0, abs=1.0), "four frames more"
            crowded, before = False, len(stage.stages.hops)
            await stage.speak_into_microphone(np.concatenate([silence, speech[:640]]))
            crowded = True
            await stage.speak_into_microphone(np.concatenate([speech[640:], silence]))
            assert {int(step) for step in np.diff(stage.stages.hops[before:])} == {4}, "it began to speak before"
            assert stage.session.stats().frames_repeated == 0

    asyncio.run(scene())
