"""What a kill costs is read off viewers' moments; kills end in time, and one that is not survived costs no other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

pytest.importorskip("ray.serve")
pytest.importorskip("aiortc")

from benchmarks.core.time_budget import OutOfTimeError, TimeBudget
from benchmarks.graph.survival import Kill, Survival, Victim
from benchmarks.graph.watched import Seen, longest_gap_s, voice_gap_s
from tests.support.manual_clock import ManualClock

STEP_S = 0.1
DRAWN_EVERY_S = 0.3


class Stage:
    """A world in which a viewer's session is drawn for every 0.3 s, but for some seconds after a death."""

    def __init__(self, away_s: float, viewers: int = 2) -> None:
        self.clock = ManualClock(100.0)
        self.viewers = [Seen(session_ids=[f"{one}"]) for one in range(viewers)]
        self.away_s = away_s
        self.died: list[int] = []
        self.dead_until = 0.0
        self.pass_s(3.0)

    def pass_s(self, seconds: float) -> None:
        for _ in range(round(seconds / STEP_S)):
            self.clock.now = round(self.clock.now + STEP_S, 3)
            for one in self.viewers:
                one.pictures_at.append(self.clock.now)
                since = one.drawn_at[-1] if one.drawn_at else 0.0
                if self.clock.now >= self.dead_until and self.clock.now - since >= DRAWN_EVERY_S - 1e-6:
                    one.drawn_at.append(self.clock.now)

    def die(self, pid: int) -> None:
        self.died.append(pid)
        self.dead_until = self.clock.now + self.away_s

    def survival(self, budget_s: float | None = None) -> Survival:
        return Survival(lambda: self.viewers, TimeBudget(budget_s, self.clock), self.clock, self.pass_s, self.die)

    def victim(
        self, name: str, back_after_s: float = 0.0, *, moves: bool = False, pids: Sequence[int] = (7,)
    ) -> Victim:
        def back(dying: Sequence[int]) -> bool:
            return self.clock.now >= self.dead_until - self.away_s + back_after_s

        return Victim(name, lambda number: pids, back, moves=moves)


def kills_of(survival: Survival, victims: Sequence[Victim], rounds: int = 1) -> tuple[list[Kill], list[str]]:
    kept: list[Kill] = []
    return kept, survival.kills(victims, rounds, kept.append)


def test_a_kill_costs_what_was_not_drawn_and_the_time_until_another_one_stands() -> None:
    stage = Stage(away_s=4.0)
    [kill], failed = kills_of(stage.survival(), [stage.victim("renderer", back_after_s=5.0)])
    assert not failed and stage.died == [7]
    assert kill.gap_ms == pytest.approx(4000, abs=1000 * (DRAWN_EVERY_S + STEP_S))
    assert kill.before_ms <= 1000 * (DRAWN_EVERY_S + STEP_S)
    assert kill.back_s == pytest.approx(5.0, abs=2 * STEP_S)
    assert kill.picture_gap_ms <= 1000 * 2 * STEP_S and kill.voice_gap_ms == 0.0


def test_what_does_not_come_back_is_not_killed_again_and_the_others_are() -> None:
    stage = Stage(away_s=1.0)
    gone, other = stage.victim("motion_diffusion", back_after_s=1e6), stage.victim("renderer")
    kept, failed = kills_of(stage.survival(), [gone, other], rounds=2)
    assert [one.what for one in kept] == ["renderer", "renderer"]
    assert len(failed) == 1 and failed[0].startswith("motion_diffusion: not as before")


def test_no_kill_begins_that_would_not_end_in_time() -> None:
    stage = Stage(away_s=1.0)
    kept: list[Kill] = []
    with pytest.raises(OutOfTimeError, match="another kill of renderer"):
        stage.survival(budget_s=80.0).kills([stage.victim("renderer")], 100, kept.append)
    assert 2 < len(kept) < 20 and len(stage.died) == len(kept), "what was measured was kept"


def test_a_kill_under_way_ends_with_the_time() -> None:
    stage = Stage(away_s=1e6)
    began = stage.clock.now
    with pytest.raises(OutOfTimeError):
        stage.survival(budget_s=60.0).kills([stage.victim("renderer")], 1, lambda kill: None)
    assert stage.clock.now - began <= 60.0


@pytest.mark.parametrize(("moves", "text"), [(True, "no viewer's session was there"), (False, "")])
def test_a_host_without_sessions_tells_nothing(moves: bool, text: str) -> None:
    stage = Stage(away_s=0.5)
    kept, failed = kills_of(stage.survival(), [stage.victim("host", moves=moves)])
    assert bool(kept) is not moves and ("".join(failed).endswith(text) if moves else not failed)


def test_a_viewer_that_is_lost_is_said() -> None:
    stage = Stage(away_s=0.5)
    die: Callable[[int], None] = stage.die

    def lose(pid: int) -> None:
        die(pid)
        stage.viewers[0].lost = True

    stage.die = lose  # type: ignore[method-assign]  # a death that takes a viewer along
    _, [failed] = kills_of(stage.survival(), [stage.victim("host")])
    assert "1 viewers lost" in failed


def test_gaps_are_those_around_the_kill_and_an_open_end_counts() -> None:
    steady = [0.04 * n for n in range(100)]
    broken = [at for at in steady if at < 1.0 or at > 3.0]
    assert longest_gap_s(steady, 1.0, 3.9) == pytest.approx(0.04)
    assert longest_gap_s(broken, 1.0, 3.9) == pytest.approx(3.04 - 0.96)
    assert longest_gap_s([0.0, 0.5], 1.0, 3.9) == pytest.approx(3.4), "nothing came after it"
    assert longest_gap_s([], 1.0, 3.9) == pytest.approx(2.9)
    assert voice_gap_s([(0.2, 0.3), (0.9, 0.7), (3.0, 0.2)], 1.0, 2.0) == pytest.approx(0.7)
    assert voice_gap_s([], 1.0, 2.0) == 0.0


def test_news_of_a_viewer_add_up_over_its_sessions() -> None:
    seen = Seen()

    def news(session: str, at: float, inserted: float) -> None:
        seen.take(
            {
                "session_id": session,
                "pictures_at": [at],
                "drawn_at": [at],
                "voice_gaps": [[at, 0.3]],
                "told": [[at, "reduced"]],
                "inserted_ms": inserted,
                "lost": False,
            }
        )

    news("a", 1.0, 40.0)
    news("a", 2.0, 60.0)
    news("b", 3.0, 20.0)
    assert seen.session_ids == ["a", "b"] and seen.pictures_at == [1.0, 2.0, 3.0]
    assert seen.inserted_ms == 80.0 and seen.told[-1] == (3.0, "reduced") and seen.voice_gaps[0] == (1.0, 0.3)
