"""Admission by tokens, on a fake clock."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deployments.graph.errors import NotReadyError
from deployments.graph.session_cost import StageCost
from deployments.host.headroom import WINDOW_S
from deployments.host.live_errors import NoCapacityError
from deployments.host.stage_set import SET_LOST_S, SLOW_WAIT_MS, StageReport
from deployments.host.token_pool import LEASE_S, SLOW_FOR_S, Lease, TokenPool
from tests.support.manual_clock import ManualClock


def _renderer(name: str, tokens: float, wait_ms: float = 0.0, avatars: frozenset[str] = frozenset()) -> StageReport:
    """A renderer whose set has so many tokens, and draws 50 frames/s at twice the cost."""
    cost = StageCost("renderer", 850.0 / tokens - 0.01, 1.0)
    return StageReport(name, cost, wait_ms, avatars, doubles=True)


def _pool(clock: ManualClock, **tokens: float) -> TokenPool:
    pool = TokenPool(clock)
    for name, count in tokens.items():
        pool.report(_renderer(name, count))
    return pool


def _admitted(pool: TokenPool, offers: int, fps: float = 25.0, avatar_id: str = "") -> list[Lease]:
    leases = []
    for number in range(offers):
        try:
            leases.append(pool.acquire(f"s{number}", fps, avatar_id))
        except NoCapacityError:
            continue
    return leases


def test_three_times_the_capacity_at_once_takes_exactly_what_fits() -> None:
    pool = _pool(ManualClock(), a=10, b=10)
    leases = _admitted(pool, 60)
    assert len(leases) == 20
    assert [sum(lease.set_id == name for lease in leases) for name in "ab"] == [10, 10]
    assert (pool.stats().refused, pool.stats().free) == (40, 0.0)


def test_a_refusal_says_how_many_speak_and_how_many_could() -> None:
    pool = _pool(ManualClock(), a=2)
    _admitted(pool, 2)
    with pytest.raises(NoCapacityError) as refused:
        pool.acquire("late", 25.0)
    assert (refused.value.active, refused.value.capacity) == (2, 2)


def test_without_any_set_nothing_is_let_in() -> None:
    pool = TokenPool(ManualClock())
    with pytest.raises(NotReadyError, match="set of stages"):
        pool.acquire("s", 25.0)
    assert pool.stats().refused == 0  # no GPU is taken


def test_sessions_that_cost_more_take_more_and_never_half_of_it() -> None:
    pool = _pool(ManualClock(), a=3, b=3)
    leases = _admitted(pool, 10, fps=50.0)
    assert len(leases) == 2  # one token is left on each set, and no session is cut in two
    assert {lease.set_id for lease in leases} == {"a", "b"}


def test_a_session_that_asks_again_keeps_what_it_has() -> None:
    pool = _pool(ManualClock(), a=2, b=2)
    assert pool.acquire("s", 25.0) == pool.acquire("s", 25.0)
    assert pool.stats().free == 3.0


def test_tokens_that_are_given_back_are_free_at_once_and_only_once() -> None:
    pool = _pool(ManualClock(), a=1)
    pool.acquire("s", 25.0)
    pool.release("s")
    pool.release("s")
    assert pool.acquire("t", 25.0).set_id == "a"
    with pytest.raises(NoCapacityError):
        pool.acquire("u", 25.0)


def test_what_a_dead_host_held_is_free_after_its_lease() -> None:
    clock = ManualClock()
    pool = _pool(clock, a=1)
    pool.acquire("s", 25.0)
    clock.now = LEASE_S
    pool.report(_renderer("a", 1))
    with pytest.raises(NoCapacityError):
        pool.acquire("t", 25.0)
    clock.now = LEASE_S + 0.1
    assert pool.acquire("t", 25.0).set_id == "a"


def test_a_host_that_renews_keeps_its_sessions_for_hours() -> None:
    clock = ManualClock()
    pool = _pool(clock, a=1)
    lease = pool.acquire("s", 25.0)
    for step in range(1, 2000):
        clock.now = step * 2.0
        pool.report(_renderer("a", 1))
        assert pool.renew([lease]) == [lease]
    with pytest.raises(NoCapacityError):
        pool.acquire("t", 25.0)


def test_a_set_is_crowded_from_three_fifths_of_its_tokens_on_until_half_of_them_are_free() -> None:
    pool = _pool(ManualClock(), a=10)
    leases = [pool.acquire(f"s{number}", 25.0) for number in range(5)]
    said = [pool.renew(leases)[0].crowded]
    for last, stays in ((6, True), (5, False), (4, False), (5, True)):
        pool.acquire(f"s{last - 1}", 25.0) if stays else pool.release(f"s{last}")
        said.append(pool.renew(leases[:1])[0].crowded)
    assert said == [False, True, True, False, False]


def test_a_pool_that_starts_anew_learns_its_sessions_and_moves_none_of_them() -> None:
    clock = ManualClock()
    before = _pool(clock, a=2, b=2)
    leases = [before.acquire(f"s{number}", 25.0) for number in range(4)]
    after = TokenPool(clock)
    assert after.renew(leases) == leases  # no set has reported yet
    for name in "ab":
        after.report(_renderer(name, 2))
    assert after.renew(leases) == leases
    with pytest.raises(NoCapacityError):
        after.acquire("late", 25.0)


def test_the_freest_set_takes_a_session_and_the_avatar_breaks_ties() -> None:
    pool = _pool(ManualClock(), a=9, b=4)
    assert pool.acquire("s", 25.0, "face").set_id == "a"
    homes = set()
    for run in range(8):
        even = _pool(ManualClock(), a=8, b=8, c=8)
        homes.add(even.acquire(f"s{run}", 25.0, "face").set_id)
    assert len(homes) == 1  # every session of one avatar begins on the same of equal sets
    spread = {_pool(ManualClock(), a=8, b=8, c=8).acquire("s", 25.0, f"face{number}").set_id for number in range(40)}
    assert spread == {"a", "b", "c"}  # and avatars spread over all of them


def test_a_set_that_has_the_avatar_wins_up_to_two_tokens() -> None:
    for used, home in ((2, "warm"), (3, "cold")):
        pool = TokenPool(ManualClock())
        pool.report(_renderer("warm", 10.0 - used, avatars=frozenset({"face"})))
        pool.report(_renderer("cold", 10.0))
        assert pool.acquire("s", 25.0, "face").set_id == home


def test_one_popular_avatar_fills_every_set() -> None:
    pool = _pool(ManualClock(), a=10, b=10, c=10, d=10)
    leases = _admitted(pool, 100, avatar_id="anchor")
    assert [sum(lease.set_id == name for lease in leases) for name in "abcd"] == [10, 10, 10, 10]


def test_sessions_of_a_dead_set_move_as_far_as_tokens_allow() -> None:
    clock = ManualClock()
    pool = _pool(clock, a=3, b=4)
    leases = [pool.acquire(f"s{number}", 25.0) for number in range(6)]
    pool.release("s1")
    leases = [lease for lease in leases if lease.session_id != "s1"]
    clock.now = SET_LOST_S - 1
    pool.report(_renderer("b", 4))
    pool.renew(leases)
    clock.now = SET_LOST_S + 1
    moved = pool.renew(leases)
    assert [lease.session_id for lease in moved] == [lease.session_id for lease in leases]
    assert sum(lease.set_id == "b" for lease in moved) == 4
    assert sum(lease.set_id == "a" for lease in moved) == 1  # one waits for its set to come back
    pool.report(_renderer("a", 3))
    assert pool.renew(moved) == moved


def test_a_set_that_is_silent_counts_as_gone() -> None:
    clock = ManualClock()
    pool = _pool(clock, a=5)
    lease = pool.acquire("s", 25.0)
    clock.now = SET_LOST_S - 1
    pool.report(_renderer("b", 5))
    assert pool.renew([lease]) == [lease]
    clock.now = SET_LOST_S + 1
    [moved] = pool.renew([lease])
    assert moved.set_id == "b"


def test_a_session_weighs_what_it_costs_on_its_set() -> None:
    clock = ManualClock()
    pool = TokenPool(clock)
    pool.report(_renderer("a", 8))
    lease = pool.acquire("s", 50.0)
    clock.now = SET_LOST_S - 1
    pool.report(replace(_renderer("b", 8), doubles=False))  # its `rife` costs nothing yet
    pool.renew([lease])
    clock.now = SET_LOST_S + 1
    [moved] = pool.renew([lease])
    assert (lease.weight, moved.set_id, moved.weight) == (2.0, "b", 1.0)


def test_a_slow_set_gives_away_one_session_at_a_time_and_only_where_there_is_room() -> None:
    clock = ManualClock()
    pool = _pool(clock, a=4, b=1)
    leases = [pool.acquire(f"s{number}", 25.0) for number in range(4)]
    leases = [lease for lease in leases if lease.set_id == "a"]

    def slow_for(seconds: float, room: float) -> list[Lease]:
        for _ in range(int(seconds)):
            clock.now += 1.0
            pool.report(_renderer("a", 4, wait_ms=SLOW_WAIT_MS + 1))
            pool.report(_renderer("b", room))
        return pool.renew(leases)

    assert slow_for(SLOW_FOR_S + 2, room=1) == leases  # nowhere to go
    moved = slow_for(1, room=9)
    assert sum(lease.set_id == "b" for lease in moved) == 1
    assert sum(lease.set_id == "b" for lease in slow_for(SLOW_FOR_S - 2, room=9)) == 1
    assert sum(lease.set_id == "b" for lease in slow_for(3, room=9)) == 2


def test_a_cost_that_rises_ends_no_session_and_lets_none_in() -> None:
    pool = _pool(ManualClock(), a=4)
    leases = [pool.acquire(f"s{number}", 25.0) for number in range(4)]
    pool.report(_renderer("a", 2))
    assert pool.renew(leases) == leases
    pool.release("s0")
    with pytest.raises(NoCapacityError):
        pool.acquire("t", 25.0)


@given(
    st.lists(
        st.tuples(st.sampled_from(["acquire", "release"]), st.integers(0, 30), st.sampled_from([25.0, 30.0, 50.0])),
        max_size=80,
    )
)
def test_no_order_of_calls_gives_away_more_than_there_is(calls: list[tuple[str, int, float]]) -> None:
    pool = _pool(ManualClock(), a=5, b=3)
    for action, number, fps in calls:
        if action == "release":
            pool.release(f"s{number}")
            continue
        try:
            pool.acquire(f"s{number}", fps, f"face{number % 3}")
        except NoCapacityError:
            pass
        stats = pool.stats()
        assert all(stats.used[name] <= stats.tokens[name] for name in stats.tokens)


def test_the_operator_bounds_what_a_set_takes_with_and_without_a_gpu() -> None:
    for gpu_ms in (0.0, 10.0):
        pool = TokenPool(ManualClock())
        pool.report(StageReport("a", StageCost("renderer", 10.0, gpu_ms), most=2))
        assert len(_admitted(pool, 6)) == 2


def test_a_set_without_a_gpu_is_bounded_by_its_hosts_alone() -> None:
    pool = TokenPool(ManualClock())
    pool.report(StageReport("a", StageCost("renderer", 400.0, 0.0)))
    assert len(_admitted(pool, 50)) == 50


def test_every_stage_of_a_set_counts_and_only_the_renderer_makes_it_one() -> None:
    pool = TokenPool(ManualClock())
    pool.report(StageReport("a", StageCost("motion_diffusion", 20.0, 20.0)))
    with pytest.raises(NotReadyError):
        pool.acquire("s", 25.0)
    pool.report(StageReport("a", StageCost("renderer", 60.0, 60.0)))
    assert pool.stats().tokens == {"a": 10.0}  # 850 / 80


def test_who_comes_back_after_a_hosts_death_adds_nothing_to_what_the_set_bore() -> None:
    clock = ManualClock()
    pool = _pool(clock, a=10)
    leases = _admitted(pool, 6)
    assert [lease.growth for lease in leases] == [1.0, 2.0, 3 / 2, 4 / 3, 5 / 4, 6 / 5]
    pool.renew(leases)
    for lost in leases[:3]:
        pool.release(lost.session_id)
        pool.release(lost.session_id)
    assert [pool.acquire(f"back{number}", 25.0).growth for number in range(4)] == [1.0, 1.0, 1.0, 7 / 6]
    pool.release("back3")  # no host had it: it was no load, and vouches for nobody
    assert pool.acquire("new", 25.0).growth == 7 / 6


def test_old_load_vouches_for_nobody_and_a_set_without_bound_neither() -> None:
    clock = ManualClock()
    pool = _pool(clock, a=10)
    leases = _admitted(pool, 3)
    pool.renew(leases)
    pool.release("s0")
    clock.now += WINDOW_S / 2
    pool.renew(leases[1:])
    assert pool.acquire("soon", 25.0).growth == 1.0
    clock.now += WINDOW_S / 2 + 0.1
    pool.report(_renderer("a", 10))
    assert pool.acquire("late", 25.0).growth == 4 / 3
    endless = TokenPool(clock)
    endless.report(StageReport("cpu", StageCost("renderer", 0.0, 0.0)))
    assert endless.acquire("s", 25.0).growth == math.inf
