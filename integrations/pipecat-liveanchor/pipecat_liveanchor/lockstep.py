"""Pictures and voice of one presenter, played in steps of one picture and the 40 ms of voice that belong to it. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

FPS: Final = 25
STEP_S: Final = 1 / FPS
RATE_HZ: Final = 48_000
STEP_SAMPLES: Final = RATE_HZ // FPS
SPARE_S: Final = 0.03
"""Time that pictures have to come after the voice of their moment: they are encoded and decoded for longer."""
GIVE_UP_S: Final = 0.2
FADE_STEPS: Final = 1
"""Steps after an interruption in which the old voice falls to silence."""
CALM_STEPS: Final = 50
LEFT_STEPS: Final = 2
TAIL_STEPS: Final = 4
LATE_S: Final = 0.01
FIRST_STEP: Final = 100
"""Number of the first picture's step; voice may come from a little before it."""
JOIN_SAMPLES: Final = 240
"""Voice that is this near to the end of the voice before follows on it: reports round."""
QUIET: Final = 20
"""Full scale is 32767; what Opus makes of silence stays below."""

Samples = NDArray[np.int16]


@dataclass(frozen=True)
class Step:
    """What is shown and heard now.

    Attributes:
        index: Number of the step on the sender's clock.
        picture: New picture; None where the one before stays.
        pcm: int16 (1920,), mono, 48 kHz.
        silent: Whether nothing was heard for some steps, this one included.
    """

    index: int
    picture: Any
    pcm: Samples
    silent: bool


class Lockstep:
    """Joins two streams step by step, without bursts: what came late is played later from then on, in lip sync.

    When more than two steps have waited for two seconds, one silent step is left out, so that a network that recovered
    leaves no delay behind.

    Args:
        clock: Gives monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._origin_s: float | None = None
        self._voice: dict[int, tuple[Samples, int]] = {}
        self._pictures: dict[int, Any] = {}
        self._next: int | None = None
        self._due = 0.0
        self._newest = 0
        self._deaf = False
        self._old_until = 0
        self._left: list[int] = []
        self._heard_to = 0
        self._quiet_steps = 0

    @property
    def next(self) -> int:
        """Step that is played next; 0 before the first one."""
        return self._next or 0

    def hear(self, place_s: float, samples: Samples) -> None:
        """Take voice; what comes before the first picture is left out.

        Args:
            place_s: Sender's time of the first sample, seconds.
            samples: int16 (n,), mono, 48 kHz.
        """
        if self._origin_s is None:
            return
        place = round((place_s - self._origin_s) * RATE_HZ)
        if abs(place - self._heard_to) <= JOIN_SAMPLES:
            place = self._heard_to
        self._heard_to = place + len(samples)
        while len(samples):
            index, offset = divmod(place, STEP_SAMPLES)
            piece, samples = samples[: STEP_SAMPLES - offset], samples[STEP_SAMPLES - offset :]
            place += len(piece)
            if self._next is not None and index < self._next:
                continue
            self._newest = max(self._newest, index)
            chunk, count = self._voice.get(index, (np.zeros(STEP_SAMPLES, np.int16), 0))
            if not (self._deaf or index < self._old_until):
                chunk[offset : offset + len(piece)] = piece
            self._voice[index] = chunk, count + len(piece)
            if self._next is None and count + len(piece) >= STEP_SAMPLES:
                self._next, self._due = index, self._clock() + SPARE_S
                self._voice = {one: kept for one, kept in self._voice.items() if one >= index}

    def see(self, place_s: float, picture: Any) -> None:
        """Take a picture and the sender's time of it in seconds; one that came too late for its step is shown with the next."""
        if self._origin_s is None:
            self._origin_s = place_s - FIRST_STEP * STEP_S
        index = self.step_of(place_s)
        self._pictures.setdefault(max(index, self.next), picture)

    def wait_s(self) -> float:
        """Seconds until `take` is worth a call."""
        if self._next is None:
            return STEP_S / 2
        return max(self._due - self._clock(), 0.0) or STEP_S / 8

    def take(self) -> Step | None:
        """The step that is due, None where none is. Voice that does not come for 0.2 s becomes silence."""
        now = self._clock()
        if self._next is None or now < self._due:
            return None
        index = self._next
        chunk, count = self._voice.get(index, (np.zeros(STEP_SAMPLES, np.int16), 0))
        whole = count >= STEP_SAMPLES or self._newest > index + 1
        if not whole and now - self._due < GIVE_UP_S:
            return None
        if now - self._due > LATE_S:
            self._due = now
        self._voice.pop(index, None)
        picture = self._picture(index)
        self._next, self._due = index + 1, self._due + STEP_S
        self._quiet_steps = self._quiet_steps + 1 if np.abs(chunk).max() <= QUIET else 0
        self._catch_up()
        return Step(index, picture, chunk, self._quiet_steps > TAIL_STEPS)

    def cut(self) -> None:
        """Hear nothing until `resume`; steps go on in silence.

        Nothing has to stay in step with a voice then, so pictures are shown as soon as they come: the last ones of the old speech
        within a step and not after the time that the voice would have waited.
        """
        self._deaf, self._quiet_steps = True, TAIL_STEPS
        self._voice = {index: (np.zeros_like(chunk), count) for index, (chunk, count) in self._voice.items()}

    def resume(self, place_s: float | None) -> None:
        """Hear again.

        Args:
            place_s: Sender's time of the interruption; what is older stays out. None where there was nothing to interrupt.
        """
        self._deaf = False
        if place_s is not None:
            self._old_until = self.step_of(place_s) + FADE_STEPS

    def step_of(self, place_s: float) -> int:
        """Step that a sender's time lies in; 0 before the first picture."""
        return 0 if self._origin_s is None else int((place_s - self._origin_s) * FPS + 0.5)

    def _picture(self, index: int) -> Any:
        """Picture to show with a step; after an interruption the newest of the old speech."""
        if self._deaf or index < self._old_until:
            old = [one for one in self._pictures if self._deaf or one < self._old_until]
            found = [self._pictures.pop(one) for one in sorted(old)]
            return found[-1] if found else None
        return self._pictures.pop(index, None)

    def _catch_up(self) -> None:
        """Leave the next step out where much has waited for long and nothing is heard."""
        self._left.append(self._newest - self.next)
        del self._left[:-CALM_STEPS]
        following = self._voice.get(self.next)
        if len(self._left) < CALM_STEPS or min(self._left) <= LEFT_STEPS or following is None:
            return
        if self._quiet_steps == 0 or np.abs(following[0]).max() > QUIET:
            return
        del self._voice[self.next]
        picture = self._pictures.pop(self.next, None)
        self._next = self.next + 1
        if picture is not None:
            self._pictures.setdefault(self._next, picture)
        self._left.clear()
