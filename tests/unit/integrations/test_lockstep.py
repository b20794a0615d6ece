"""Pictures and voice of a presenter in steps of 40 ms, on a clock of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pipecat_liveanchor.lockstep import GIVE_UP_S, STEP_S, STEP_SAMPLES, Lockstep, Step

EPOCH_S = 4.0e9
LOUD = 9000


@dataclass
class Played:
    """A sender whose pictures are numbers and whose voice is as loud as told, and what was played of it."""

    now: float = 0.0
    steps: list[Step] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lockstep = Lockstep(lambda: self.now)

    def send(self, index: int, level: int = LOUD, picture: bool = True) -> None:
        if picture:
            self.lockstep.see(EPOCH_S + index * STEP_S, index)
        for half in range(2):
            samples = np.full(STEP_SAMPLES // 2, level, np.int16)
            self.lockstep.hear(EPOCH_S + (index + half / 2) * STEP_S, samples)

    def play(self, seconds: float) -> list[Step]:
        before, end = len(self.steps), self.now + seconds
        while self.now < end:
            if (step := self.lockstep.take()) is not None:
                self.steps.append(step)
            self.now += 0.001
        return self.steps[before:]


def test_a_picture_is_played_with_its_own_voice() -> None:
    played = Played()
    for index in range(25):
        played.send(index, LOUD + index)
        played.play(STEP_S)
    pictures = [step.picture for step in played.steps]
    assert pictures == list(range(len(pictures))) and len(pictures) >= 23
    assert all((step.pcm == LOUD + step.picture).all() for step in played.steps)


def test_voice_that_comes_late_moves_everything_after_it_and_nothing_is_played_in_a_burst() -> None:
    played = Played()
    for index in range(10):
        played.send(index)
        played.play(STEP_S)
    assert played.play(0.12)[1:] == []
    for index in range(10, 16):
        played.send(index)
    late = played.play(0.1)
    assert [step.picture for step in late] == [10, 11, 12]
    assert all((step.pcm == LOUD).all() for step in late)


def test_voice_that_never_comes_is_silence_and_the_pictures_go_on() -> None:
    played = Played()
    for index in range(5):
        played.send(index)
        played.play(STEP_S)
    for index in range(5, 9):
        played.lockstep.see(EPOCH_S + index * STEP_S, index)
    steps = played.play(GIVE_UP_S + 0.1)
    assert steps[-1].picture >= 5 and not steps[-1].pcm.any()


def test_a_wait_is_made_up_for_in_silence_only() -> None:
    played = Played()
    for index in range(10):
        played.send(index)
    played.play(0.2)
    for index in range(10, 90):
        played.send(index)
        played.play(STEP_S)
    assert [step.index for step in played.steps] == list(range(played.steps[0].index, played.steps[-1].index + 1))
    loud, waiting = len(played.steps), 90 - played.steps[-1].picture
    for index in range(90, 400):
        played.send(index, level=0)
        played.play(STEP_S)
    assert len(set(np.diff([step.index for step in played.steps[loud:]]))) == 2, "some steps are left out"
    assert 400 - played.steps[-1].picture < waiting and played.steps[-1].silent


def test_after_a_cut_nothing_old_is_heard_and_the_last_old_pictures_come_at_once() -> None:
    played = Played()
    for index in range(20):
        played.send(index)
        if index < 14:
            played.play(STEP_S)
    played.lockstep.cut()
    (step,) = played.play(STEP_S)
    assert step.picture == 19 and not step.pcm.any() and step.silent
    played.send(20)  # on its way when the server was interrupted
    played.lockstep.resume(EPOCH_S + 21 * STEP_S)
    played.send(21)  # falls to silence
    rest = played.play(0.2)
    assert not any(step.pcm.any() for step in rest) and rest[0].picture == 21
    for index in range(22, 40):
        played.send(index)
        played.play(STEP_S)
    new = [step for step in played.steps if step.pcm.any()]
    new = [step for step in new if step.index > rest[-1].index]
    assert new[0].index - played.steps[0].index == 22, "what was on its way and what fades is not heard"
    assert [step.picture for step in new if step.picture is not None] == [
        step.index - played.steps[0].index for step in new if step.picture is not None
    ]


def test_a_cut_that_found_nothing_to_interrupt_mutes_nothing_that_comes_later() -> None:
    played = Played()
    for index in range(5):
        played.send(index, level=0)
        played.play(STEP_S)
    played.lockstep.cut()
    played.lockstep.resume(None)
    for index in range(5, 12):
        played.send(index)
        played.play(STEP_S)
    assert any((step.pcm == LOUD).all() for step in played.steps)
