"""What will be heard and when: samples by their position on the session's media clock, silence wherever there are none."""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np

from kernels.arrays import F32

CAPACITY: Final = 1 << 17
"""Number of samples kept, 8.2 s: the context of a feature window behind the present, and work ahead of it."""


class Timeline:
    """Keeps the samples of the newest `CAPACITY` positions; reading never fails, older and later positions are silent.

    Attributes:
        levelled: The same samples, brought to the level at which the networks hear them.
    """

    def __init__(self) -> None:
        self._ring = np.zeros(CAPACITY, np.float32)
        self._gains: deque[tuple[int, float]] = deque([(0, 1.0)])
        self._end = 0
        self.levelled = LevelledTimeline(self)

    @property
    def end(self) -> int:
        """Position after the last sample written."""
        return self._end

    def write(self, start: int, pcm: F32, gain: float = 1.0) -> None:
        """Put samples at `start`; what lies between the end so far and `start` is silent.

        Args:
            start: Position of the first one.
            pcm: float32 (n,).
            gain: What the networks hear them multiplied with.

        Raises:
            ValueError: `start` lies before the end so far, or there are more samples than are kept.
        """
        if start < self._end or len(pcm) > CAPACITY:
            raise ValueError(f"{len(pcm)} samples at {start}, the timeline ends at {self._end}")
        gap = min(start - self._end, CAPACITY)
        self._put(start - gap, np.zeros(gap, np.float32))
        self._put(start, pcm)
        self._end = start + len(pcm)
        if gain != self._gains[-1][1]:
            self._gains.append((start, gain))
        while len(self._gains) > 1 and self._gains[1][0] <= self._end - CAPACITY:
            self._gains.popleft()

    def gain(self, start: int, length: int) -> F32 | float:
        """What the networks hear samples start .. start + length multiplied with: one number, or float32 (length,)."""
        known = [(position, gain) for position, gain in self._gains if position < start + length]
        if not known or known[-1][0] <= start:
            return known[-1][1] if known else 1.0
        out = np.ones(length, np.float32)
        for position, gain in known:
            out[max(position - start, 0) :] = gain
        return out

    def read(self, start: int, length: int) -> F32:
        """A private copy of samples start .. start + length, float32 (length,)."""
        out = np.zeros(length, np.float32)
        first = max(start, self._end - CAPACITY, 0)
        last = min(start + length, self._end)
        if last > first:
            place = first % CAPACITY
            head = min(last - first, CAPACITY - place)
            out[first - start : first - start + head] = self._ring[place : place + head]
            out[first - start + head : last - start] = self._ring[: last - first - head]
        return out

    def cut(self, position: int, fade_samples: int) -> None:
        """Forget what lies after `position`, but for a fade to silence that begins there and takes `fade_samples`."""
        last = min(position + fade_samples, self._end)
        if position >= last:
            self._end = min(self._end, max(position, 0))
            self._forget_gains(self._end)
            return
        falling = np.linspace(1.0, 0.0, fade_samples, endpoint=False, dtype=np.float32)[: last - position]
        faded = self.read(position, last - position) * falling
        gain = float(np.ravel(self.gain(position, 1))[0])
        self._forget_gains(position)
        self._end = position
        self.write(position, faded, gain)

    def soften(self, samples: int, since: int) -> None:
        """Let the last `samples` before the end fall to silence: what was to follow comes later.

        Args:
            samples: Number of samples over which the voice falls.
            since: Position before which everything has been heard already and stays as it is.
        """
        first = max(self._end - samples, since, 0)
        if first < self._end:
            falling = ((self._end - np.arange(first, self._end)) / samples).astype(np.float32)
            self._put(first, self.read(first, self._end - first) * falling)

    def _forget_gains(self, position: int) -> None:
        while len(self._gains) > 1 and self._gains[-1][0] >= position:
            self._gains.pop()

    def _put(self, start: int, pcm: F32) -> None:
        place = start % CAPACITY
        head = min(len(pcm), CAPACITY - place)
        self._ring[place : place + head] = pcm[:head]
        self._ring[: len(pcm) - head] = pcm[head:]


class LevelledTimeline:
    """What the networks hear of a timeline: its samples times their gain.

    Args:
        timeline: What is heard by people.
    """

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline

    @property
    def end(self) -> int:
        """Position after the last sample written."""
        return self._timeline.end

    def read(self, start: int, length: int) -> F32:
        """A private copy of samples start .. start + length, float32 (length,), -1..1 where a gain is in force."""
        samples, gain = self._timeline.read(start, length), self._timeline.gain(start, length)
        return samples if isinstance(gain, float) and gain == 1.0 else np.clip(samples * np.float32(gain), -1.0, 1.0)
