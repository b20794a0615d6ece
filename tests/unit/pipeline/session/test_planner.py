"""The planner: what comes next in every state, and that a file and a live session plan the same motion of the same samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernels.arrays import F32
from pipeline.config import SilenceSettings
from pipeline.live.timeline import Timeline
from pipeline.session.planner import Doing, Frames, Planner, Rules, Step, Turn, file_rules
from pipeline.session.speech_scan import SpeechScan
from pipeline.stages import StageInfo
from tests.support.planned import Plan, as_a_file, plan_file

LIVE = Rules(hop=4, gate=2, grid=1, ahead=3, idle=0, fade=4)
FILE = Rules(hop=8, gate=3, grid=8, ahead=3, idle=8, fade=8)
GATE = SilenceSettings(hold_frames=5)
SPEECH, FADE, IDLE = Doing.SPEECH, Doing.FADE, Doing.IDLE


class Spoken:
    """Frames of speech, told outright."""

    def __init__(self, *frames: int) -> None:
        self.frames = sorted(frames)

    def first_speech(self, from_frame: int) -> int | None:
        return next((frame for frame in self.frames if frame >= from_frame), None)

    def any_speech(self, from_frame: int, until_frame: int) -> bool:
        return any(from_frame <= frame < until_frame for frame in self.frames)


def planner(rules: Rules, doing: Doing = IDLE, first: int = 0, handled: int = 0, fade_end: int = 0) -> Planner:
    return Planner(rules, doing, first, handled, fade_end)


@pytest.mark.parametrize(
    ("state", "spoken", "shown", "soonest", "step"),
    [
        pytest.param(planner(LIVE), (), 5, 7, None, id="silence leaves the loop alone"),
        pytest.param(planner(LIVE), (20,), 5, 7, Turn(SPEECH, 17), id="the mouth begins before the sound"),
        pytest.param(planner(LIVE), (20,), 5, 19, Turn(SPEECH, 19), id="but not before it can be drawn"),
        pytest.param(planner(LIVE), (20,), 21, 22, None, id="speech that is past is not answered"),
        pytest.param(planner(LIVE), (20,), 20, 23, Turn(SPEECH, 23), id="speech that has begun is"),
        pytest.param(planner(LIVE, handled=25), (20, 30), 5, 7, Turn(SPEECH, 27), id="nor speech that was cut off"),
        pytest.param(planner(LIVE, SPEECH, 17), (22,), 5, 7, Frames(SPEECH, 17, 4), id="speech in the gate goes on"),
        pytest.param(planner(LIVE, SPEECH, 17), (23,), 5, 7, Turn(FADE, 17), id="beyond it does not"),
        pytest.param(planner(LIVE, SPEECH, 17), (16,), 5, 7, Turn(FADE, 17), id="nor what was said before"),
        pytest.param(planner(LIVE, FADE, 21, 21, 37), (), 20, 22, Frames(FADE, 21, 4), id="a fade in pieces"),
        pytest.param(planner(LIVE, FADE, 35, 21, 37), (), 30, 32, Frames(FADE, 35, 2), id="its last piece"),
        pytest.param(planner(LIVE, FADE, 37, 21, 37), (), 30, 32, Turn(IDLE, 37), id="and back"),
        pytest.param(planner(LIVE, FADE, 37, 21, 37), (38,), 30, 32, Turn(IDLE, 37), id="back comes before speech"),
        pytest.param(planner(LIVE, FADE, 21, 21, 37), (27,), 20, 22, Frames(FADE, 21, 3), id="a fade ends at speech"),
        pytest.param(planner(LIVE, FADE, 24, 21, 37), (27,), 20, 22, Turn(SPEECH, 24), id="which begins in time"),
        pytest.param(planner(LIVE, FADE, 29, 21, 37), (27,), 20, 22, Turn(SPEECH, 24), id="over frames made already"),
        pytest.param(planner(LIVE, FADE, 29, 21, 37), (27,), 24, 26, Turn(SPEECH, 26), id="as far as it still can"),
        pytest.param(planner(FILE), (), 0, 0, Frames(IDLE, 0, 8), id="a file makes its idle motion"),
        pytest.param(planner(FILE), (10,), 0, 0, Turn(SPEECH, 0), id="speech in the gate begins a hop early"),
        pytest.param(planner(FILE), (11,), 0, 0, Frames(IDLE, 0, 8), id="speech beyond it later"),
        pytest.param(planner(FILE, first=8), (11,), 8, 8, Turn(SPEECH, 8), id="at a whole hop"),
        pytest.param(planner(FILE, FADE, 16, 8, 24), (), 16, 16, Frames(FADE, 16, 8), id="a file fades in hops"),
        pytest.param(planner(FILE, FADE, 16, 8, 21), (), 16, 16, Frames(FADE, 16, 8), id="in whole ones"),
        pytest.param(planner(FILE, FADE, 24, 8, 21), (), 24, 24, Turn(IDLE, 24), id="and is back afterwards"),
    ],
)
def test_what_comes_next(state: Planner, spoken: tuple[int, ...], shown: int, soonest: int, step: Step | None) -> None:
    assert state.step(Spoken(*spoken), shown, soonest) == step


@pytest.mark.parametrize(
    ("state", "step", "after"),
    [
        (planner(LIVE, first=3), Turn(SPEECH, 17), planner(LIVE, SPEECH, 17)),
        (planner(LIVE, SPEECH, 17), Frames(SPEECH, 17, 4), planner(LIVE, SPEECH, 21)),
        (planner(LIVE, SPEECH, 21), Turn(FADE, 21), planner(LIVE, FADE, 21, 21, 37)),
        (planner(LIVE, FADE, 25, 21, 37), Frames(FADE, 25, 4), planner(LIVE, FADE, 29, 21, 37)),
        (planner(LIVE, FADE, 29, 21, 37), Turn(SPEECH, 24), planner(LIVE, SPEECH, 24, 21, 37)),
        (planner(LIVE, FADE, 37, 21, 37), Turn(IDLE, 37), planner(LIVE, IDLE, 37, 21, 37)),
    ],
)
def test_what_a_step_leads_to(state: Planner, step: Step, after: Planner) -> None:
    assert state.after(step) == after


def test_speech_that_was_cut_off_is_not_answered() -> None:
    cut = planner(LIVE, SPEECH, 40).deaf_until(30).after(Turn(IDLE, 30))
    assert cut.step(Spoken(20, 29), 10, 12) is None
    assert cut.step(Spoken(29, 31), 10, 12) == Turn(SPEECH, 28)


def test_a_file_is_cut_into_the_hops_of_its_family() -> None:
    assert file_rules(StageInfo("fake", 8, 640, 1920, 25, True)) == FILE
    assert file_rules(StageInfo("fake", 5, 640, 1360, 2, False, gate_frames=2)).ahead == 2


@st.composite
def speech(draw: st.DrawFn) -> F32:
    """Loud and silent stretches of any length, as float32 samples; ten silent frames lead in."""
    stretches = draw(st.lists(st.tuples(st.booleans(), st.integers(1, 16_000)), min_size=1, max_size=8))
    parts = [np.zeros(6_400)] + [np.resize([0.3, -0.3], length) * loud for loud, length in stretches]
    return np.concatenate(parts).astype(np.float32)


def plan_live(pcm: F32, rules: Rules, blocks: Iterator[int], waits: Iterator[int], lead: int) -> Plan:
    """A live session without lateness: samples come in blocks, `lead` before they are heard, and the planner is asked often."""
    timeline, plan, state = Timeline(), Plan(), Planner(rules)
    scan, now = SpeechScan(timeline, GATE), 0
    while now < len(pcm):
        while timeline.end < min(now + lead, len(pcm)):
            timeline.write(timeline.end, pcm[timeline.end : timeline.end + next(blocks)])
        while True:
            if state.doing is SPEECH:
                if timeline.end < min(state.needed * 640, len(pcm)):
                    break
                scan.look(state.needed, 0)
            else:
                scan.look(timeline.end // 640 if timeline.end < len(pcm) else -(-timeline.end // 640), now // 640)
            step = state.step(scan, now // 640, now // 640 + 2)
            if step is None or isinstance(step, Frames) and step.doing is FADE and step.first > now // 640 + 6:
                break
            if isinstance(step, Turn):
                plan.turn(step)
            else:
                plan.make(step)
            state = state.after(step)
        now += next(waits)
    return plan


@settings(max_examples=60, deadline=None)
@given(speech(), st.integers(0, 2**32 - 1), st.sampled_from([(4, 2), (8, 2), (5, 3)]))
def test_a_file_and_a_live_session_plan_the_same_motion_of_the_same_samples(
    pcm: F32, seed: int, cut: tuple[int, int]
) -> None:
    draw = np.random.default_rng(seed)
    rules = replace(LIVE, hop=cut[0], gate=cut[1])
    lead = 640 * (rules.ahead + 4) + int(draw.integers(0, 12_000))
    blocks = iter(lambda: int(draw.integers(1, 1500)), -1)
    waits = iter(lambda: int(draw.integers(1, 640)), -1)
    frames = -(-len(pcm) // 640)
    live = plan_live(pcm, rules, blocks, waits, lead)
    file = plan_file(pcm, as_a_file(rules), GATE)
    assert live.until(frames) == file.until(frames)


@settings(max_examples=60, deadline=None)
@given(speech(), st.sampled_from([FILE, as_a_file(LIVE)]))
def test_all_speech_is_spoken_and_every_way_back_is_as_long_as_it_must_be(pcm: F32, rules: Rules) -> None:
    plan = plan_file(pcm, rules, GATE)
    frames = -(-len(pcm) // 640)
    assert set(range(frames)) <= set(plan.frames), "every frame is made of something"
    timeline = Timeline()
    scan = SpeechScan(timeline, GATE)
    for start in range(0, len(pcm), 640):
        timeline.write(start, pcm[start : start + 640])
        scan.look(start // 640 + 1, 0)
        if scan.any_speech(start // 640, start // 640 + 1):
            assert plan.frames[start // 640] is SPEECH
    made = plan.until(frames)
    for frame in range(1, frames):
        if made[frame - 1] is SPEECH and made[frame] is not SPEECH:
            way = made[frame : frame + rules.fade_in_all]
            spoken_again = way.index(SPEECH) if SPEECH in way else len(way)
            assert set(way[:spoken_again]) == {FADE}
            assert made[frame + rules.fade_in_all : frame + rules.fade_in_all + 1] != [FADE]
