"""Every segment of an agent's speech is reported once, with what was heard of it."""

from __future__ import annotations

import pytest

from pipeline.livekit.segments import Segment, Segments

Report = tuple[float, bool]


def spoken(*utterances: str) -> tuple[Segments, list[Segment], list[Report]]:
    told: list[Report] = []
    segments = Segments(lambda position_s, interrupted: told.append((position_s, interrupted)))
    found = [segments.begin() for _ in utterances]
    for segment, utterance in zip(found, utterances, strict=True):
        segment.utterance_id = utterance
    return segments, found, told


def test_a_segment_is_over_when_it_was_heard_and_not_when_it_was_sent() -> None:
    segments, (one,), told = spoken("u1")
    segments.end(one)
    assert segments.sent("u1", 2.0, 5.0) and told == []
    segments.heard("u1")
    segments.heard("u1")
    assert told == [(2.0, False)] and one.told


def test_a_stream_without_a_sample_is_over_at_its_end() -> None:
    segments, (empty,), told = spoken("")
    segments.end(empty)
    segments.end(empty)
    segments.cut(1.0, 0.0, [])
    assert told == [(0.0, False)]


def test_a_cut_takes_off_what_waits_to_be_heard() -> None:
    segments, _, told = spoken("u1", "u2", "")
    segments.cut(10.0, 0.25, [("u1", 1.5), ("u2", 0.0)])
    assert told == [(1.25, True), (0.0, True), (0.0, True)]
    segments.cut(11.0, 0.0, [("u1", 1.5)])
    assert not segments.sent("u1", 1.5, 11.0) and len(told) == 3, "once each"


def test_what_was_sent_to_its_end_may_still_be_cut_in_its_last_moments() -> None:
    segments, _, told = spoken("u1", "u2")
    segments.sent("u1", 2.0, 6.0)  # then 0.1 s of silence, then 0.05 s of the next
    segments.cut(6.15, 0.2, [("u2", 0.05)])
    assert [(round(position_s, 9), cut) for position_s, cut in told] == [(1.95, True), (0.0, True)]
    segments.heard("u1")
    assert len(told) == 2


def test_silence_after_speech_takes_nothing_off_it() -> None:
    segments, _, told = spoken("u1")
    segments.sent("u1", 2.0, 6.0)
    segments.cut(6.5, 0.3, [])
    assert told == [(pytest.approx(2.0), True)]


def test_utterances_of_others_are_nobody_s_segment() -> None:
    segments, _, told = spoken("u1")
    assert not segments.sent("text-1", 1.0, 3.0)
    segments.heard("text-1")
    segments.cut(4.0, 0.0, [("text-2", 1.0)])
    assert told == []
