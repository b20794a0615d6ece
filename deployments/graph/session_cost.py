"""What one speaking session costs a set of stages, and how many such sessions a set can serve in time.

A *set* is one replica of every stage on one GPU. Two bounds hold: every stage has one thread that works on one batch at a time,
and the stages share the GPU. So one second of speech at 25 frames/s takes

    c = max(largest thread time of a stage, sum of the stages' GPU times)    milliseconds of the set,

and a set has `floor(0.85 * 1000 / c)` tokens; one token is one speaking session at 25 frames/s.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kernels.errors import InvalidInputError

USABLE: Final = 0.85
"""Share of a set's time that admission gives away; the rest absorbs sessions that ask in the same moment."""
MOST_FALL_PER_MINUTE: Final = 0.02
"""A cost rises at once and falls slowly: a quiet minute must not let in what a busy one cannot serve."""


@dataclass(frozen=True)
class StageCost:
    """What one second of speech at 25 frames/s takes of one stage.

    Attributes:
        stage: Name of the stage.
        thread_ms: Milliseconds of the stage's own thread.
        gpu_ms: Milliseconds of the GPU; 0 for a stage that runs on a CPU. For `rife`: of 25 frames in between.
    """

    stage: str
    thread_ms: float
    gpu_ms: float

    def __post_init__(self) -> None:
        """Check the ranges.

        Raises:
            InvalidInputError: A time is negative or no number.
        """
        for name in ("thread_ms", "gpu_ms"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise InvalidInputError(f"{self.stage}.{name}", repr(value), "0 or more milliseconds")


def ms_per_second(costs: Iterable[StageCost]) -> float:
    """Milliseconds of a set that one second of speech at 25 frames/s takes."""
    needed = _needed(costs)
    return max(max((cost.thread_ms for cost in needed), default=0.0), sum(cost.gpu_ms for cost in needed))


def tokens(costs: Iterable[StageCost]) -> float:
    """Sessions at 25 frames/s that a set serves in time while all of them speak, at least one; infinite without a GPU.

    Stages on CPUs share cores with the encoders and with each other: there, the host's measured headroom decides alone.
    """
    needed = _needed(costs)
    if not any(cost.gpu_ms > 0 for cost in needed):
        return math.inf
    return float(max(1, math.floor(USABLE * 1000.0 / ms_per_second(needed))))


def weight(costs: Iterable[StageCost], fps: float, doubles: bool) -> float:
    """Tokens that one session takes.

    Args:
        costs: Costs of the set's stages.
        fps: Frames per second that its viewers get.
        doubles: Whether the renderer draws the frames above 25 per second itself; else `rife` makes them.
    """
    known = list(costs)
    more = max(0.0, fps / 25.0 - 1.0)
    whole = ms_per_second(known)
    if more == 0.0 or whole <= 0.0:
        return 1.0
    maker = "renderer" if doubles else "rife"
    return 1.0 + more * sum(max(cost.thread_ms, cost.gpu_ms) for cost in known if cost.stage == maker) / whole


def _needed(costs: Iterable[StageCost]) -> list[StageCost]:
    """Costs of the stages that make frames at 25 per second; `rife` makes none of them."""
    return [cost for cost in costs if cost.stage != "rife"]


class MeasuredCost:
    """A cost in milliseconds that measurements refine: it rises at once and falls by at most 2 % a minute.

    Args:
        first: A guess, made before the first session came; the first measurement under load replaces it.
    """

    def __init__(self, first: float) -> None:
        self.value = first
        self._guessed = True

    def guessed_again(self, value: float) -> None:
        """Replace the guess by a newer one, in milliseconds; once load has been measured, that counts instead."""
        if self._guessed:
            self.value = value

    def measured(self, value: float, elapsed_s: float) -> float:
        """Take a measurement in.

        Args:
            value: Mean of the last stretch in milliseconds.
            elapsed_s: Length of that stretch in seconds.

        Returns:
            The cost from now on.
        """
        least = 0.0 if self._guessed else self.value * (1.0 - MOST_FALL_PER_MINUTE) ** (elapsed_s / 60.0)
        self.value, self._guessed = max(value, least), False
        return self.value
