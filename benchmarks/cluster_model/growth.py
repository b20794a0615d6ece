"""How many sets run: sessions that come and go, and a policy that adds and takes whole sets. Tokens only, no pictures."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Final

from benchmarks.cluster_model.engine import Events

TARGET: Final = 0.85
LOOK_S: Final = 10.0
START_S: Final = 40.0
DOWN_EVERY_S: Final = 300.0


@dataclass(frozen=True)
class Growth:
    """What is simulated.

    Attributes:
        sets: Most that there can be.
        tokens: Sessions of one set.
        spare: Sets beyond what the target asks for.
        load: Mean sessions at the peak, as a share of what all sets take.
        stay_s: Mean length of a session.
        hours: Simulated time; load rises from a fifth to the peak and falls again.
    """

    sets: int
    tokens: int
    spare: int = 1
    load: float = 0.8
    stay_s: float = 300.0
    hours: float = 4.0


@dataclass(frozen=True)
class Grown:
    """What came of it.

    Attributes:
        refused: Share of the offers that found no token.
        mean_sets: Sets that ran, on average.
        used: Share of their tokens that was used, on average.
        most: Most sets at once.
    """

    refused: float
    mean_sets: float
    used: float
    most: int


class _Cell:
    def __init__(self, plan: Growth, seed: int) -> None:
        self.plan, self.events = plan, Events()
        self.draw = random.Random(seed)  # noqa: S311  # reproducible draws, no secrets
        self.ready = self.coming = 0
        self.held = self.offers = self.refused = self.most = 0
        self.set_s = self.token_s = 0.0
        self._changed = self._down_at = 0.0
        self.ready = self._wanted()

    def run(self) -> Grown:
        length = self.plan.hours * 3600
        self._arrive()
        self._look()
        self.events.run(length)
        self._count()
        return Grown(
            refused=self.refused / max(self.offers, 1),
            mean_sets=self.set_s / length,
            used=self.token_s / max(self.set_s * self.plan.tokens, 1e-9),
            most=self.most,
        )

    def _wanted(self) -> int:
        need = math.ceil(self.held / (TARGET * self.plan.tokens)) + self.plan.spare
        return min(max(need, 1), self.plan.sets)

    def _rate(self) -> float:
        """Offers per second now: up and down once."""
        share = self.events.now / (self.plan.hours * 3600)
        level = 0.2 + 0.8 * math.sin(math.pi * min(share, 1.0)) ** 2
        return level * self.plan.load * self.plan.sets * self.plan.tokens / self.plan.stay_s

    def _arrive(self) -> None:
        self.events.after(self.draw.expovariate(self._rate()), self._arrive)
        if self.events.now == 0.0:
            return
        self.offers += 1
        if self.held >= self.ready * self.plan.tokens:
            self.refused += 1
            return
        self._count()
        self.held += 1
        self.events.after(self.draw.expovariate(1 / self.plan.stay_s), self._leave)

    def _leave(self) -> None:
        self._count()
        self.held -= 1

    def _look(self) -> None:
        """Up at once by as many sets as are missing, down by one where a set's worth of tokens has been free for long."""
        self.events.after(LOOK_S, self._look)
        missing = self._wanted() - self.ready - self.coming
        if missing > 0:
            self.coming += missing
            self.events.after(START_S, lambda: self._came(missing))
        elif (
            missing < 0
            and self.events.now - self._down_at >= DOWN_EVERY_S
            and self.held <= (self.ready - 1) * self.plan.tokens
        ):
            self._count()
            self._down_at = self.events.now
            self.ready -= 1

    def _came(self, sets: int) -> None:
        self._count()
        self.coming -= sets
        self.ready += sets
        self._down_at = self.events.now

    def _count(self) -> None:
        passed, self._changed = self.events.now - self._changed, self.events.now
        self.set_s += passed * self.ready
        self.token_s += passed * self.held
        self.most = max(self.most, self.ready)


def grow(plan: Growth, seed: int = 0) -> Grown:
    """Simulate a cell."""
    return _Cell(plan, seed).run()
