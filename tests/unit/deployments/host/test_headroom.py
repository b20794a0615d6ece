"""Admission by measured headroom, on a fake clock."""

from __future__ import annotations

import pytest

from deployments.host.headroom import MIN_SAMPLES, WINDOW_S, Headroom
from deployments.host.live_errors import NoCapacityError
from tests.support.manual_clock import ManualClock


def _chunks(headroom: Headroom, who: str, share: float, count: int = MIN_SAMPLES) -> None:
    for _ in range(count):
        headroom.chunk_done(who, share * 0.16, 0.16)


def test_twenty_offers_and_five_places_give_five_sessions_and_fifteen_refusals() -> None:
    headroom = Headroom(5, 0.8, ManualClock())
    admitted, refused = 0, 0
    for number in range(20):
        try:
            headroom.admit(f"s{number}")
            admitted += 1
        except NoCapacityError as error:
            assert (error.active, error.capacity) == (5, 5)
            refused += 1
    assert (admitted, refused, headroom.refused, headroom.active) == (5, 15, 15, 5)
    headroom.release("s3")
    headroom.release("s3")
    headroom.admit("s20")
    assert headroom.active == 5


def test_a_refusal_is_counted_when_no_other_host_is_asked() -> None:
    headroom = Headroom(0, 0.8, ManualClock())
    for last_try in (False, False, True):
        with pytest.raises(NoCapacityError):
            headroom.admit("s", last_try)
    assert headroom.refused == 1


def test_a_session_that_would_slow_all_others_down_is_refused() -> None:
    headroom = Headroom(8, 0.8, ManualClock())
    headroom.admit("s1")
    _chunks(headroom, "s1", 0.3)
    headroom.admit("s2")  # 0.3 * 2 / 1 = 0.6
    _chunks(headroom, "s1", 0.6)
    _chunks(headroom, "s2", 0.6)
    with pytest.raises(NoCapacityError, match=r"0\.60 of the time"):
        headroom.admit("s3")  # 0.6 * 3 / 2 = 0.9
    assert headroom.capacity() == 2


def test_few_samples_and_idle_sessions_refuse_nobody() -> None:
    headroom = Headroom(8, 0.8, ManualClock())
    _chunks(headroom, "s1", 5.0, MIN_SAMPLES - 1)
    headroom.admit("s1")
    assert headroom.capacity() == 8


def test_what_is_long_ago_does_not_count() -> None:
    clock = ManualClock()
    headroom = Headroom(8, 0.8, clock)
    headroom.admit("s1")
    _chunks(headroom, "s1", 2.0)
    assert headroom.capacity() == 1
    clock.now = WINDOW_S + 1
    assert headroom.capacity() == 8
    headroom.admit("s2")


def test_it_is_crowded_from_half_of_the_time_on_and_until_there_is_room_again() -> None:
    clock = ManualClock()
    headroom = Headroom(8, 2.0, clock)
    said = []
    for share in (0.4, 0.55, 0.4, 0.3, 0.55):
        _chunks(headroom, "s1", share)
        said.append(headroom.crowded())
        clock.now += WINDOW_S / 2 if share == 0.55 else WINDOW_S + 1.0
    assert said == [False, True, True, False, True]
    clock.now += WINDOW_S
    assert not headroom.crowded(), "nobody speaks any more"


def test_one_slow_chunk_refuses_nobody() -> None:
    headroom = Headroom(8, 0.8, ManualClock())
    headroom.admit("s1")
    _chunks(headroom, "s1", 0.2, 19)
    headroom.chunk_done("s1", 3.0, 0.16)
    assert headroom.share() == pytest.approx(0.2)


def test_what_a_session_took_leaves_with_it() -> None:
    headroom = Headroom(8, 0.8, ManualClock())
    headroom.admit("s1")
    _chunks(headroom, "s1", 2.0)
    headroom.release("s1")
    assert headroom.capacity() == 8
    headroom.admit("s2")


def test_who_waits_longest_for_a_client_gives_way_once_all_places_are_taken() -> None:
    clock = ManualClock()
    headroom = Headroom(3, 0.8, clock, grace_s=10.0)
    for now, session_id in enumerate(("s1", "s2", "s3")):
        assert headroom.give_way() is None, "there is room"
        clock.now = float(now)
        headroom.admit(session_id)
    clock.now = 9.9
    assert headroom.give_way() is None, "offers that come at once leave each other alone"
    headroom.client_came("s1")
    clock.now = 11.0
    assert headroom.give_way() == "s2"
    assert headroom.give_way() is None, "s2 is asked once, s3 has a second left"
    clock.now = 12.0
    assert headroom.give_way() == "s3"
    headroom.release("s2")
    headroom.admit("s4")
    clock.now = 500.0
    headroom.release("s4")
    headroom.admit("s5")
    assert headroom.give_way() is None, "of those that left nothing is remembered"


def test_nobody_gives_way_where_that_would_let_nobody_in() -> None:
    clock = ManualClock()
    headroom = Headroom(2, 0.8, clock, grace_s=10.0)
    headroom.admit("s1")
    headroom.admit("s2")
    headroom.client_came("s1")
    clock.now = 20.0
    _chunks(headroom, "s1", 2.0)
    assert headroom.give_way() is None
    clock.now += WINDOW_S + 1
    assert headroom.give_way() == "s2"


def test_a_session_that_adds_little_to_what_other_hosts_share_is_let_in() -> None:
    headroom = Headroom(8, 0.8, ManualClock())
    headroom.admit("s1")
    _chunks(headroom, "s1", 0.41)
    with pytest.raises(NoCapacityError):
        headroom.admit("s2")  # 0.41 * 2 / 1
    headroom.admit("s2", growth=6 / 5)
    _chunks(headroom, "s1", 0.81)
    with pytest.raises(NoCapacityError):
        headroom.admit("s3", growth=1.0)  # late already, whatever it adds
