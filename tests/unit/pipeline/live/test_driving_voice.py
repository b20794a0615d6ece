"""Pushed speech whose rest comes late: whenever that is, nothing clicks where it stops and goes on."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels.arrays import F32
from pipeline.live.contracts import Drive
from pipeline.live.driving_voice import DrivingVoice
from pipeline.live.speech_queue import SOFT, LeadTimes
from pipeline.live.timeline import Timeline
from tests.support.manual_clock import ManualClock

LEADS = LeadTimes(start=1280, needed=5000, keep=5600)
LEVEL = 0.3


class Talk:
    """A voice that is pushed, and played tick by tick as a session plays it."""

    def __init__(self, tick: int) -> None:
        self.tick, self.now, self.place = tick, 0, 0
        self.heard: list[F32] = []
        self.timeline = Timeline()
        delay: Any = SimpleNamespace(needed=LEADS.needed, cadence=SimpleNamespace(margin=0), leads=lambda: LEADS)
        scan: Any = SimpleNamespace(spans=[], open=False)
        self.voice = DrivingVoice(
            Drive.PUSH, self.timeline, scan, delay, 0.01, 60.0, "s", lambda: self.now, ManualClock(0.0), lambda: None
        )
        self.voice.begin()

    def play(self, until: int) -> None:
        """Every tick that is due."""
        while self.place <= until:
            self.now = self.place
            self.heard.append(self.voice.hear(self.place, self.tick)[0].pcm)
            self.place += self.tick
            self.voice.go_on()
        self.now = until


@pytest.mark.parametrize("tick", [640, 320])
@pytest.mark.parametrize("samples", [6413, 6400, 6430])
def test_a_gap_does_not_click_whenever_the_rest_comes(tick: int, samples: int) -> None:
    for before_end in range(-800, 1600, 31):
        talk = Talk(tick)
        talk.voice.push(np.full(samples, LEVEL, np.float32))
        talk.play(talk.timeline.end - before_end)
        talk.voice.push(np.full(samples, LEVEL, np.float32))
        talk.voice.finish()
        talk.play(talk.now + 40_000)
        heard = np.concatenate(talk.heard)
        spoken = np.flatnonzero(heard)
        inside = np.abs(np.diff(heard[spoken[0] : spoken[-1] + 1]))
        assert inside.max() < 2 * LEVEL / SOFT, before_end
        assert (heard == np.float32(LEVEL)).sum() >= 2 * samples - 2 * SOFT - 2
        assert (heard == 0).sum() > 0 and talk.voice.current is None


def test_what_was_heard_already_is_not_softened() -> None:
    timeline = Timeline()
    timeline.write(0, np.ones(1000, np.float32))
    timeline.soften(100, since=960)
    heard = timeline.read(0, 1000)
    assert timeline.end == 1000 and (heard[:960] == 1.0).all()
    np.testing.assert_allclose(heard[960:], np.arange(40, 0, -1) / 100)
    timeline.soften(100, since=1000)
    np.testing.assert_array_equal(timeline.read(0, 1000), heard)


def test_the_networks_hear_a_quiet_utterance_louder_and_people_as_it_is() -> None:
    talk = Talk(640)
    talk.voice.speak(np.full(6400, 0.01, np.float32), 8.0)
    talk.voice.speak(np.full(6400, 0.1, np.float32))
    talk.play(40_000)
    line, heard = talk.timeline, np.concatenate(talk.heard)
    assert np.array_equal(heard, line.read(0, len(heard))), "people hear what came"
    quiet, loud = np.flatnonzero(heard == np.float32(0.01)), np.flatnonzero(heard == np.float32(0.1))
    levelled = line.levelled.read(0, len(heard))
    assert len(quiet) == len(loud) == 6400
    assert np.allclose(levelled[quiet], 0.08) and np.array_equal(levelled[loud], heard[loud])


def test_a_gain_is_cut_and_forgotten_with_its_samples() -> None:
    line = Timeline()
    line.write(0, np.full(1000, 0.1, np.float32), 2.0)
    line.write(1000, np.full(1000, 0.1, np.float32), 4.0)
    assert np.allclose(line.levelled.read(990, 20), [0.2] * 10 + [0.4] * 10)
    line.cut(1500, 100)
    assert np.allclose(line.levelled.read(1499, 2), 0.4) and line.levelled.end == 1600
    line.write(1600, np.full(1000, 0.1, np.float32))
    assert np.allclose(line.levelled.read(1600, 500), 0.1)
    line.cut(500, 0)
    line.write(500, np.full(10, 0.1, np.float32), 3.0)
    assert np.allclose(line.levelled.read(490, 20), [0.2] * 10 + [0.3] * 10)
    for start in range(510, 400_000, 2000):
        line.write(start, np.full(2000, 0.5, np.float32), 1.0 + start % 3)
    assert line.levelled.read(395_000, 3000).max() <= 1.0, "nothing leaves full scale"
    assert line.levelled.read(0, 100).max() == 0.0
    assert len(line._gains) < 80, "what is no longer kept costs nothing"
