"""A face that listens: what it does follows from the two voices and the seed alone, and comes and goes without a jump."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.arrays import F32
from pipeline.expression.looks import ATTEND, CHANNELS, LIDS, NOD, RAISE
from pipeline.session.attention import Attention
from pipeline.session.gestures import PAUSE_FRAMES, WholeVoice
from pipeline.session.listening import BROWS, HOLD_FRAMES, LATER, NOD_DEG, NOD_SHARE, RISE_FRAMES, listening

SILENT = WholeVoice(np.zeros(0, np.float32))
BEGINS, ENDS = 50, 110
"""Frames of a phrase."""


def phrases(*spans: tuple[int, int], frames: int = 400, level: float = 0.15) -> WholeVoice:
    """A voice that is loud in spans of frames, four syllables a second."""
    times = np.arange(frames * 640)
    syllables = 0.6 + 0.4 * np.sin(2 * np.pi * 4 * times / 16_000)
    loud = np.zeros(frames * 640)
    for first, stop in spans:
        loud[first * 640 : stop * 640] = 1.0
    return WholeVoice((level * np.sqrt(2) * loud * syllables * np.sin(0.3 * times)).astype(np.float32))


def whole(other: WholeVoice, own: WholeVoice = SILENT, seed: int = 7, frames: int = 400) -> F32:
    return listening(other, own, seed, 0, frames)


def test_a_face_attends_from_soon_after_a_voice_until_some_time_after_it() -> None:
    values = whole(phrases((BEGINS, ENDS)))
    share = values[:, ATTEND]
    assert not values[: BEGINS + LATER].any(), "nothing before it can be known"
    assert share[BEGINS + LATER + RISE_FRAMES + 5] == pytest.approx(1.0)
    assert (share[BEGINS + 30 : ENDS + HOLD_FRAMES] > 0.99).all()
    assert not values[ENDS + LATER + HOLD_FRAMES + RISE_FRAMES + 1 :].any()
    np.testing.assert_allclose(values[:, RAISE], BROWS * share, atol=1e-6)


def test_it_nods_and_blinks_where_a_phrase_ends() -> None:
    nodded = 0
    for seed in range(40):
        values = whole(phrases((BEGINS, ENDS)), seed=seed)
        due = ENDS + PAUSE_FRAMES - 1 + LATER
        late = values[due : due + 40]
        deepest = float(late[:, NOD].max())
        nodded += deepest > 1
        assert deepest < 0.5 or NOD_DEG[0] - 0.1 <= deepest <= NOD_DEG[1]
        assert late[:, LIDS].max() == 1.0
    assert nodded / 40 == pytest.approx(NOD_SHARE, abs=0.13), "most phrases, as the seed says"


def test_nothing_jumps() -> None:
    steps = np.abs(np.diff(whole(phrases((50, 110), (125, 160), (190, 260)))[:, [ATTEND, RAISE, NOD]], axis=0))
    assert steps.max(axis=0)[0] <= 0.14 and steps.max(axis=0)[1] <= 0.02
    assert steps.max(axis=0)[2] <= 0.9, "22 degrees a second"


def test_any_stretch_can_be_made_alone() -> None:
    other, own = phrases((50, 110), (130, 170)), phrases((200, 260))
    pieces = [listening(other, own, 7, first, 4) for first in range(0, 400, 4)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole(other, own))
    assert not np.array_equal(whole(other, own, seed=8), whole(other, own)), "the seed decides"


def test_what_is_shown_follows_from_samples_that_are_here() -> None:
    other = phrases((50, 110), (130, 170))
    known = other.read(0, 120 * 640)
    cut = listening(WholeVoice(known), SILENT, 7, 0, 120 + LATER)
    np.testing.assert_array_equal(cut, whole(other)[: 120 + LATER])


def test_a_face_that_speaks_does_not_listen() -> None:
    share = whole(phrases((50, 300)), phrases((150, 200)))[:, ATTEND]
    assert share[140] == 1.0 and not share[150 + RISE_FRAMES : 200].any() and share[240] == 1.0
    assert np.abs(np.diff(share)).max() <= 0.14


@pytest.mark.parametrize("quiet", [phrases((50, 300), level=0.004), phrases((50, 52), (120, 122)), SILENT])
def test_a_room_and_clicks_are_no_voice(quiet: WholeVoice) -> None:
    assert not whole(quiet).any()


class Coming:
    """A voice of which as much is here as a test says."""

    def __init__(self, voice: WholeVoice) -> None:
        self._voice, self.end = voice, 0

    def read(self, start: int, length: int) -> F32:
        return WholeVoice(self._voice.read(0, self.end)).read(start, length)


def test_attention_opens_only_where_it_is_seen_and_there_is_room() -> None:
    crowded = [False]
    other = Coming(phrases((50, 300)))
    attention = Attention(other, SILENT, 7, lambda: crowded[0])
    other.end = 40 * 640
    assert not attention.stirs(45) and attention.rests(0)
    other.end = 70 * 640
    assert attention.stirs(70) and not attention.values(60, 20).any(), "a loop shows the face until it is opened"
    crowded[0] = True
    assert not attention.stirs(70), "who listens gives way"


def test_attention_comes_late_and_gives_way_without_a_jump() -> None:
    crowded = [False]
    other = Coming(phrases((50, 390)))
    other.end = 390 * 640
    attention = Attention(other, SILENT, 7, lambda: crowded[0])
    attention.open(200)
    attention.look_after(240)
    crowded[0] = True
    attention.look_after(260)
    attention.look_after(300)  # once
    values = attention.values(190, 110)
    assert values.shape == (110, CHANNELS) and not values[:11].any()
    share = values[:, ATTEND]
    assert share[30] == 1.0 and not share[260 + RISE_FRAMES - 190 :].any() and np.abs(np.diff(share)).max() <= 0.14
    assert not attention.rests(260 + RISE_FRAMES - 1) and attention.rests(260 + RISE_FRAMES)
    attention.close()
    assert attention.rests(230) and not attention.values(190, 110).any()
