"""What viewers miss when processes die under them: kills of one kind after the other while everybody speaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.core.time_budget import TimeBudget
from benchmarks.graph.watched import Seen, longest_gap_s, voice_gap_s
from kernels.errors import LiveAnchorError

LOOK_EVERY_S: Final = 0.1
QUIET_S: Final = 2.0
"""Seconds before a kill, and after something stands in the dead one's place, in which everything must be as ever."""


@dataclass(frozen=True)
class Patience:
    """How long things may take.

    Attributes:
        steady_s: A viewer is served when something was drawn for it in so many last seconds; news of it come twice a second.
        wait_s: Seconds before a kill within which everybody must be served.
        kill_s: Seconds after it within which all must be as before.
        first_guess_s: What a kill is expected to take before one was seen.
    """

    steady_s: float = 1.5
    wait_s: float = 30.0
    kill_s: float = 60.0
    first_guess_s: float = 30.0


BUSY: Final = Patience(steady_s=8.0, wait_s=180.0, kill_s=300.0)
"""For a dry run on a machine that does other things."""


@dataclass(frozen=True)
class Victim:
    """Processes that die at once, and what stands for their being replaced.

    Attributes:
        name: What dies.
        pids: Gives the processes of kill number n.
        back: Whether others stand in the place of these processes and answer.
        least_s: Seconds for which viewers are looked at after the kill, at least.
        moves: Whether some viewer's session dies with it.
    """

    name: str
    pids: Callable[[int], Sequence[int]]
    back: Callable[[Sequence[int]], bool]
    least_s: float = 0.0
    moves: bool = False


@dataclass(frozen=True)
class Kill:
    """What one kill cost. Gaps are those of the viewer who missed most.

    Attributes:
        what: What died.
        gap_ms: Longest time for which nothing was drawn for a viewer's session: its face was held or idle.
        picture_gap_ms: Longest time between two pictures.
        voice_gap_ms: Longest time without the voice; 0 where it was never away for 0.2 s.
        inserted_ms: Most silence that was put into a viewer's microphone.
        back_s: Seconds until another one stood in the dead one's place and answered.
        before_ms: `gap_ms` in the seconds before the kill.
        moved: Viewers that had to make a new offer.
        told: What viewers were told of their pictures' quality.
    """

    what: str
    gap_ms: float
    picture_gap_ms: float
    voice_gap_ms: float
    inserted_ms: float
    back_s: float
    before_ms: float
    moved: int = 0
    told: list[str] = field(default_factory=list)


class Survival:
    """Kills processes and watches what viewers see.

    Args:
        seen: Gives what every viewer saw so far.
        budget: How much time is left.
        clock: Monotonic seconds.
        pause: Waits for some seconds.
        die: Ends a process at once.
        patience: How long things may take.
    """

    def __init__(
        self,
        seen: Callable[[], Sequence[Seen]],
        budget: TimeBudget,
        clock: Callable[[], float],
        pause: Callable[[float], object],
        die: Callable[[int], None],
        patience: Patience = Patience(),  # noqa: B008  # frozen
    ) -> None:
        self._seen, self._budget, self._clock, self._pause, self._die = seen, budget, clock, pause, die
        self._patience = patience
        self._longest_s = 0.0

    def kills(self, victims: Sequence[Victim], rounds: int, keep: Callable[[Kill], None]) -> list[str]:
        """Kill one of each, then one of each again; what one of them does not survive is not killed again.

        Args:
            victims: What dies, in this order.
            rounds: How often each dies.
            keep: Told of every kill that was seen to its end.

        Returns:
            Why kills were not seen to their ends.

        Raises:
            OutOfTimeError: There is no time for the next one; what was measured was kept.
        """
        failed: dict[str, str] = {}
        for number in range(rounds):
            for victim in [one for one in victims if one.name not in failed]:
                began = self._clock()
                self._budget.need(self._longest_s or self._patience.first_guess_s, f"another kill of {victim.name}")
                try:
                    keep(self._kill(victim, number))
                except LiveAnchorError as error:
                    if self._budget.left_s() <= 0:
                        raise
                    failed[victim.name] = f"{victim.name}: {error}"
                self._longest_s = max(self._longest_s, self._clock() - began)
        return list(failed.values())

    def _kill(self, victim: Victim, number: int) -> Kill:
        if not self._until(self._steady, self._patience.wait_s):
            raise LiveAnchorError(f"faces did not follow their voices before the kill ({self._lost()} viewers lost)")
        self._pause(QUIET_S)
        sessions = [one.session_ids[-1] for one in self._seen()]
        inserted = [one.inserted_ms for one in self._seen()]
        dying = victim.pids(number)
        if not dying:
            raise LiveAnchorError("there is none")
        at = self._clock()
        for pid in dying:
            self._die(pid)
        back_at: list[float] = []

        def over() -> bool:
            if not back_at and victim.back(dying):
                back_at.append(self._clock())
            now = self._clock()
            return bool(back_at) and now >= max(back_at[0] + QUIET_S, at + victim.least_s) and self._steady(at)

        if not self._until(over, self._patience.kill_s):
            raise LiveAnchorError(f"not as before within {self._patience.kill_s:g} s ({self._lost()} viewers lost)")
        until, seen = self._clock(), self._seen()
        moved = sum(one.session_ids[-1] != before for one, before in zip(seen, sessions, strict=True))
        if victim.moves and not moved:
            raise LiveAnchorError("no viewer's session was there")
        return Kill(
            victim.name,
            gap_ms=1e3 * max(longest_gap_s(one.drawn_at, at, until) for one in seen),
            picture_gap_ms=1e3 * max(longest_gap_s(one.pictures_at, at, until) for one in seen),
            voice_gap_ms=1e3 * max(voice_gap_s(one.voice_gaps, at, until) for one in seen),
            inserted_ms=max(one.inserted_ms - before for one, before in zip(seen, inserted, strict=True)),
            back_s=back_at[0] - at,
            before_ms=1e3 * max(longest_gap_s(one.drawn_at, at - QUIET_S, at) for one in seen),
            moved=moved,
            told=sorted({quality for one in seen for told_at, quality in one.told if told_at >= at}),
        )

    def _steady(self, since: float = 0.0) -> bool:
        """Whether something was drawn for everybody lately, and since a moment."""
        least = max(self._clock() - self._patience.steady_s, since)
        seen = self._seen()
        return bool(seen) and all(not one.lost and one.drawn_at[-1:] > [least] for one in seen)

    def _lost(self) -> int:
        return sum(one.lost for one in self._seen())

    def _until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        ends = self._clock() + timeout_s
        while not condition():
            if self._clock() > ends:
                return False
            self._budget.need(0.0, "this")
            self._pause(LOOK_EVERY_S)
        return True
