"""A session that speaks what is pushed may hear its client: on its own clock, without a mouth that moves and without an echo."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from kernels.arrays import F32
from pipeline.live.contracts import EndReason
from pipeline.live.other_side import LEAD, LONGEST_SILENCE, OtherSide
from pipeline.live.settings import LiveSettings
from pipeline.session.gestures import WholeVoice
from tests.support.live import heard_at_48_khz, live, spoken_frame, tone

PACKET = 960


def feed(side: OtherSide, pcm: F32, now: int, place: int = 0) -> tuple[int, int]:
    """Packets of 20 ms at the speed of sound; the media clock and the client's place after them."""
    samples = heard_at_48_khz(pcm)
    for start in range(0, len(samples), PACKET):
        side.feed(samples[start : start + PACKET], place + start, now + start // 3)
    return now + len(pcm), place + len(samples)


def test_what_comes_lies_a_fixed_lead_after_its_arrival() -> None:
    side = OtherSide(0.005)
    feed(side, tone(1.0), now=8000)
    heard = side.voice.read(8000 + LEAD, 16_000)
    assert np.abs(heard[200:15_000]).max() == pytest.approx(0.3, abs=0.02)
    assert not side.voice.read(0, 8000 + LEAD).any()
    assert int(np.argmax(np.abs(heard) > 0.15)) <= 48, "a soft start and filters, 3 ms in all"


def test_followers_get_every_sample_once_and_where_it_lies() -> None:
    side, pieces = OtherSide(0.005), []
    feed(side, tone(0.4), 0)
    side.follow(lambda pcm, position: pieces.append((position, pcm)))
    feed(side, tone(1.0), 6400, 3 * 6400)
    first, whole = pieces[0][0], np.concatenate([pcm for _, pcm in pieces])
    assert [position for position, _ in pieces] == [
        first + sum(len(pcm) for _, pcm in pieces[:i]) for i in range(len(pieces))
    ]
    assert len(whole) == pytest.approx(16_000, abs=40)
    assert np.array_equal(whole, side.voice.read(first, len(whole)))
    assert {len(pcm) for _, pcm in pieces} <= set(range(300, 340)), "as packets come"


def test_a_long_silence_is_short_for_followers() -> None:
    side, pieces = OtherSide(0.005), []
    side.follow(lambda pcm, position: pieces.append((position, pcm)))
    feed(side, tone(0.2), 0)
    feed(side, tone(0.2), 30 * 16_000, 30 * 48_000)
    assert max(len(pcm) for _, pcm in pieces) <= LONGEST_SILENCE + PACKET
    assert pieces[-1][0] + len(pieces[-1][1]) == side.voice.end


def test_only_a_voice_counts_as_loud() -> None:
    side = OtherSide(0.005)
    feed(side, tone(0.5, 0.001), 0)
    assert side.last_loud == 0
    feed(side, tone(0.5, 0.2), 8000, 24_000)
    assert side.last_loud == side.voice.end


def test_what_is_no_number_is_silence() -> None:
    side = OtherSide(0.005)
    side.feed(np.full(PACKET, np.nan, np.float32), 0, 0)
    assert np.isfinite(side.voice.read(0, 8000)).all()


def test_a_session_hears_its_client_but_says_nothing_of_it() -> None:
    async def scenario() -> None:
        async with live(listens=True) as stage:
            await stage.clock.advance(0.5)
            await stage.speak_into_microphone(tone(1.5))
            side = stage.session.other_side
            assert side is not None
            heard = side.voice.read(int(0.5 * 16_000), 2 * 16_000)
            assert np.sqrt(np.mean(np.square(heard))) > 0.1
            assert not stage.sink.heard().any(), "nobody hears it back"
            assert all(spoken_frame(video) is None for video in stage.sink.videos)
            assert not stage.sink.named("speaking_started") and not stage.stages.hops
            stage.session.voice.speak(tone(1.0), 1.0)
            await stage.clock.advance(2.0)
            assert len(stage.sink.named("speaking_finished")) == 1

    asyncio.run(scenario())


def test_without_listening_the_microphone_of_a_pushed_session_is_left_out() -> None:
    async def scenario() -> None:
        async with live() as stage:
            await stage.speak_into_microphone(tone(0.5))
            assert stage.session.other_side is None
            assert not stage.sink.heard().any()

    asyncio.run(scenario())


def test_a_session_lives_while_the_other_side_speaks() -> None:
    async def scenario(loud: bool) -> EndReason | None:
        async with live(listens=True, settings=LiveSettings(idle_ttl_s=1.0)) as stage:
            await stage.speak_into_microphone(tone(2.0, 0.2 if loud else 0.0))
            return stage.session.reason

    assert asyncio.run(scenario(True)) is None
    assert asyncio.run(scenario(False)) is EndReason.IDLE_TTL


def test_the_samples_can_be_read_as_any_voice() -> None:
    side = OtherSide(0.005)
    feed(side, tone(0.5), 0)
    whole = WholeVoice(side.voice.read(0, 16_000))
    assert np.array_equal(whole.read(-100, 900), side.voice.read(-100, 900))
