"""A timeline of looks: which expression a face wears, where it looks, how lively its head is. Pure values of time."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from kernels.arrays import F32, F64
from kernels.errors import InvalidInputError
from pipeline.types import MOTION_FPS

EXPRESSIONS: Final = ("happy", "sad", "angry", "surprised", "fear", "disgust", "contempt", "serious")
"""Expressions other than `neutral`, in the order of the channels of `Looks.values`."""
GAZE: Final = slice(len(EXPRESSIONS), len(EXPRESSIONS) + 2)
"""Channels of the gaze: x to the right of the picture, y down, -1..1."""
ENERGY: Final = GAZE.stop
"""Channel of the energy, less 1."""
NOD, RAISE, LIDS, ATTEND = range(ENERGY + 1, ENERGY + 5)
"""Channels of gestures (`pipeline.session.gestures`, `pipeline.session.listening`), which looks leave at 0: a nod in degrees, a
share of a brow raise, closure of the lids, and how far the eyes rest on the viewer instead of wandering, 0..1."""
CHANNELS: Final = ATTEND + 1
DEFAULT_RISE_S: Final = 0.35
"""Seconds in which a look comes, unless it says another time."""
MOST_KEPT: Final = 512
"""Looks of one face that still come, or have not come in full: each costs time with every stretch of frames."""
_PARTS: Final = ("expression", "gaze", "energy")


@dataclass(frozen=True)
class Look:
    """What a face changes to at a time; it holds until a later look changes it. None leaves a part as it is.

    Attributes:
        at_s: Second at which the change begins, on the clock of the speech or of the session.
        expression: `neutral` or one of `EXPRESSIONS`.
        strength: Strength of the expression, 0..1.
        gaze: Direction of the eyes in the picture, x to the right and y down, each -1..1; (0, 0) looks at the viewer.
        energy: Factor on the head's own movement, 0..2; 1 is the usual one.
        rise_s: Seconds that the change takes.
    """

    at_s: float = 0.0
    expression: str | None = None
    strength: float = 1.0
    gaze: tuple[float, float] | None = None
    energy: float | None = None
    rise_s: float = DEFAULT_RISE_S

    @property
    def parts(self) -> frozenset[str]:
        """Which parts it changes: `expression`, `gaze`, `energy`."""
        return frozenset(name for name in _PARTS if getattr(self, name) is not None)


@dataclass(frozen=True)
class Looks:
    """Looks in the order of their times; none at all is a neutral face."""

    looks: tuple[Look, ...] = ()

    def __bool__(self) -> bool:
        """Whether there is any look."""
        return bool(self.looks)

    @property
    def parts(self) -> frozenset[str]:
        """Which parts any look changes: `expression`, `gaze`, `energy`."""
        return frozenset(name for one in self.looks for name in one.parts)

    def values(self, first_frame: int, count: int) -> F32:
        """What the face shows in consecutive frames.

        A look comes on a raised cosine: it is half there after half of its `rise_s`. One that begins before the look before it
        has come takes over from what that shows, without a jump.

        Args:
            first_frame: Index of the first frame at 25 frames/s; may be negative.
            count: Number of frames.

        Returns:
            float32 (count, `CHANNELS`): strengths of `EXPRESSIONS`, gaze x and y, energy - 1, gestures. Zeros are a neutral face.
        """
        times = (first_frame + np.arange(count, dtype=np.float64)) / MOTION_FPS
        values = np.zeros((count, CHANNELS))
        for look in self.looks:
            share = _share(times - look.at_s, look.rise_s)
            for place, target in _targets(look):
                values[:, place] += (target - values[:, place]) * share[:, None]
        result: F32 = values.astype(np.float32)
        return result

    def at_rest(self, frame: int) -> bool:
        """Whether the face is neutral at a frame and in all later ones."""
        if any(look.at_s * MOTION_FPS > frame for look in self.looks):
            return False
        settled = all((look.at_s + look.rise_s) * MOTION_FPS <= frame for look in self.looks)
        return settled and not self.values(frame, 1).any()

    def along_with(self, more: Looks) -> Looks:
        """These looks and others, in the order of their times; at the same time the others come later."""
        return Looks(tuple(sorted((*self.looks, *more.looks), key=lambda look: look.at_s)))

    def then(self, more: Looks, at_s: float, now_s: float) -> Looks:
        """These looks up to a time, and from then on `more`, whose times count from there.

        What was planned for later is dropped, and so is what nothing shows of any more.

        Args:
            more: What follows.
            at_s: Second from which it follows.
            now_s: Second before which no frame is drawn any more; values from there to `at_s` stay what they are.

        Raises:
            InvalidInputError: More than `MOST_KEPT` looks would be kept.
        """
        kept = Looks(tuple(look for look in self.looks if look.at_s < at_s))._since(now_s)
        looks = (*kept, *(replace(look, at_s=at_s + look.at_s) for look in more.looks))
        if len(looks) > MOST_KEPT:
            raise InvalidInputError(
                "expressions", f"{len(looks)} changes that have not come in full", f"at most {MOST_KEPT}"
            )
        return Looks(looks)

    def _since(self, now_s: float) -> tuple[Look, ...]:
        """The looks that something is shown of from a time on: of each part, the newest that has come in full, and later ones."""
        first: dict[str, int] = {}
        for index, look in enumerate(self.looks):
            if look.at_s + look.rise_s <= now_s:
                first |= dict.fromkeys(look.parts, index)
        return tuple(
            look for index, look in enumerate(self.looks) if any(index >= first.get(part, 0) for part in look.parts)
        )


NEUTRAL_FACE: Final = Looks()


def _share(ages_s: F64, rise_s: float) -> F64:
    """Raised cosine from 0 at age 0 to 1 at `rise_s`; a step where that is 0."""
    if rise_s <= 0:
        return (ages_s >= 0).astype(np.float64)
    share: F64 = 0.5 - 0.5 * np.cos(np.pi * np.clip(ages_s / rise_s, 0.0, 1.0))
    return share


def _targets(look: Look) -> list[tuple[slice, F64]]:
    """Channels that a look changes, and what they become."""
    targets: list[tuple[slice, F64]] = []
    if look.expression is not None:
        strengths = np.array([look.strength if name == look.expression else 0.0 for name in EXPRESSIONS])
        targets.append((slice(0, len(EXPRESSIONS)), strengths))
    if look.gaze is not None:
        targets.append((GAZE, np.array(look.gaze, np.float64)))
    if look.energy is not None:
        targets.append((slice(ENERGY, ENERGY + 1), np.array([look.energy - 1.0])))
    return targets
