"""Speech that was pushed: utterances wait, one after the other, and are laid on the timeline shortly before they are heard."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.expression.looks import Looks
from pipeline.live.grid import frame_from, samples_of_ms
from pipeline.live.timeline import Timeline
from pipeline.media.running_level import RunningLevel
from pipeline.types import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME

PLACED_AHEAD: Final = samples_of_ms(1000)
"""Samples by which speech is laid on the timeline before it is heard, at most."""
SOFT: Final = samples_of_ms(2.5)
"""Samples that a voice takes to fall to silence before a gap in an utterance, and to rise after it."""
_RISING: Final = np.linspace(0.0, 1.0, SOFT, endpoint=False, dtype=np.float32)
OPEN_WITHOUT_AUDIO: Final = samples_of_ms(10_000)
"""Samples of time without audio after which an utterance ends that its client has not finished."""


class QueueFullError(InvalidInputError):
    """More speech waits than a session keeps."""

    code = "queue_full"


@dataclass(eq=False)
class Utterance:
    """One stretch of speech that begins and ends once.

    Attributes:
        utterance_id: Name of the utterance, unique in its session.
        finished: Whether nothing more will come.
        waiting: Samples that are not on the timeline yet.
        waiting_samples: Number of these samples.
        placed: Stretches of the timeline [start, stop) that hold its samples.
        sent: Number of samples that were heard.
        started: Whether its first sample was heard.
        last_audio: Position of the media clock when samples came last.
        gain: What the networks hear its samples multiplied with.
        marks: Changes of the face, by the number of its samples before them.
        laid: Number of samples that were put on the timeline.
    """

    utterance_id: str
    finished: bool = False
    waiting: deque[F32] = field(default_factory=deque)
    waiting_samples: int = 0
    placed: deque[tuple[int, int]] = field(default_factory=deque)
    sent: int = 0
    started: bool = False
    last_audio: int = 0
    gain: float = 1.0
    marks: deque[tuple[int, Looks]] = field(default_factory=deque)
    laid: int = 0

    @property
    def done(self) -> bool:
        """Whether everything was heard."""
        return self.finished and not self.waiting and not self.placed

    def add(self, pcm: F32, now: int, marks: Sequence[tuple[int, Looks]] = ()) -> None:
        """Add samples that came, float32 (n,), and changes of the face in them, each with the number of these samples before it."""
        self.last_audio = now
        self.marks.extend((self.laid + self.waiting_samples + before, looks) for before, looks in marks)
        if len(pcm):
            self.waiting.append(pcm)
            self.waiting_samples += len(pcm)

    def take(self, most: int) -> F32:
        """The next samples that wait, at most `most` of them; some must wait."""
        pcm = self.waiting.popleft()
        if len(pcm) > most:
            self.waiting.appendleft(pcm[most:])
            pcm = pcm[:most]
        self.waiting_samples -= len(pcm)
        return pcm

    def put(self, start: int, stop: int) -> None:
        """Note that samples were placed on the timeline at [start, stop)."""
        self.laid += stop - start
        if self.placed and self.placed[-1][1] == start:
            self.placed[-1] = (self.placed[-1][0], stop)
        else:
            self.placed.append((start, stop))

    def hear(self, until: int) -> int:
        """Note that the timeline was played up to `until`, and return how many more of its samples were heard."""
        heard = 0
        while self.placed and self.placed[0][0] < until:
            start, stop = self.placed.popleft()
            heard += min(stop, until) - start
            if stop > until:
                self.placed.appendleft((until, stop))
        self.sent += heard
        return heard

    def cut(self, position: int) -> None:
        """End the utterance at `position` of the timeline: nothing after it will be heard."""
        self.placed = deque((start, min(stop, position)) for start, stop in self.placed if start < position)
        self.waiting.clear()
        self.waiting_samples = 0
        self.finished = True


@dataclass(frozen=True)
class LeadTimes:
    """How far ahead of the media clock speech must lie, in samples.

    Attributes:
        start: Time from now to the first sample of an utterance of which everything needed is here.
        needed: Samples that must be here before the first frame of an utterance can be made.
        keep: An utterance whose samples end closer than this waits, so that it is heard with its lips.
    """

    start: int
    needed: int
    keep: int


class SpeechQueue:
    """Keeps the pushed utterances of one session and lays them on the timeline.

    Args:
        timeline: The timeline that samples are laid on.
        max_queued_s: Seconds of speech that may wait.
        name: Prefix that makes utterance ids unique.
        on_mark: Called with a place on the timeline and what the face changes to there, when the samples there are laid.
    """

    def __init__(
        self,
        timeline: Timeline,
        max_queued_s: float,
        name: str,
        on_mark: Callable[[int, Looks], None] = lambda at, to: None,
    ) -> None:
        self._on_mark = on_mark
        self._timeline = timeline
        self._max_samples = int(max_queued_s * SAMPLE_RATE_HZ)
        self._name = name
        self._count = 0
        self._queue: deque[Utterance] = deque()
        self._open: Utterance | None = None
        self._level = RunningLevel()
        self._heard_until = 0

    @property
    def queued_samples(self) -> int:
        """Number of samples that were not heard yet."""
        return sum(u.waiting_samples + sum(stop - start for start, stop in u.placed) for u in self._queue)

    @property
    def empty(self) -> bool:
        """Whether nothing waits, nothing plays and no utterance is open."""
        return not self._queue

    @property
    def more_may_come(self) -> bool:
        """Whether samples wait for a place on the timeline, or an utterance is still open."""
        return any(utterance.waiting or not utterance.finished for utterance in self._queue)

    @property
    def current(self) -> Utterance | None:
        """The utterance that is heard or comes next."""
        return self._queue[0] if self._queue else None

    def speak(self, pcm: F32, now: int, gain: float = 1.0) -> str:
        """Queue a whole utterance behind the others; an open one is heard to its end first.

        Args:
            pcm: float32 (n,), 16 kHz mono.
            now: Position of the media clock in samples.
            gain: What the networks hear it multiplied with.

        Returns:
            Its id.

        Raises:
            QueueFullError: More speech would wait than the session keeps.
        """
        utterance = self._new(pcm, now)
        utterance.gain = gain
        utterance.finished = True
        return utterance.utterance_id

    def push(self, pcm: F32, now: int) -> str:
        """Add to the open utterance, or begin one, and return its id.

        Raises:
            QueueFullError: More speech would wait than the session keeps.
        """
        if self._open is None:
            self._open = self._new(pcm, now)
        else:
            self._add(self._open, pcm, now)
        self._level.hear(pcm)
        self._open.gain = self._level.gain
        return self._open.utterance_id

    def announce(self, now: int) -> str:
        """Queue an utterance whose samples all come later, by `add`, until `close`; return its id. It keeps its place meanwhile."""
        return self._new(np.zeros(0, np.float32), now).utterance_id

    def add(self, utterance_id: str, pcm: F32, now: int, marks: Sequence[tuple[int, Looks]] = ()) -> bool:
        """Add to an announced utterance, and return whether it is still wanted: one that was cut is not.

        Arguments are those of `Utterance.add`.

        Raises:
            QueueFullError: More speech would wait than the session keeps.
        """
        utterance = self._waiting(utterance_id)
        if utterance is not None:
            self._add(utterance, pcm, now, marks)
        return utterance is not None

    def close(self, utterance_id: str) -> None:
        """Nothing more comes of an announced utterance; one that was cut is no error."""
        if (utterance := self._waiting(utterance_id)) is not None:
            utterance.finished = True

    def finish(self) -> str | None:
        """Close the open utterance and return its id; None where none is open."""
        utterance, self._open = self._open, None
        if utterance is None:
            return None
        utterance.finished = True
        return utterance.utterance_id

    def pump(self, now: int, leads: LeadTimes) -> bool:
        """Lay on the timeline what will be heard soon, and return whether anything was laid."""
        moved = False
        for utterance in list(self._queue):
            if utterance is self._open and now - utterance.last_audio > OPEN_WITHOUT_AUDIO:
                self.finish()
            while utterance.waiting and (room := self._room(utterance, now, leads)) > 0:
                self._place(utterance, now, room, leads)
                moved = True
            if utterance.waiting or not utterance.finished:
                break
        return moved

    @property
    def pending(self) -> bool:
        """Whether speech is heard or on its way."""
        return not self.empty

    def hear(self, start: int, until: int) -> tuple[int, list[Utterance]]:
        """Note that the timeline was played from `start` to `until`.

        Returns:
            Samples of speech that this added, and the utterances that are thereby over.
        """
        self._heard_until = until
        heard, over = 0, []
        for utterance in list(self._queue):
            heard += utterance.hear(until)
            if not utterance.done:
                break
            over.append(self._queue.popleft())
        return heard, over

    def cut(self, position: int) -> list[Utterance]:
        """End everything at `position` of the timeline and return the utterances that were in the queue, oldest first."""
        dropped = list(self._queue)
        for utterance in dropped:
            utterance.cut(position)
            utterance.hear(position)
        self._queue.clear()
        self._open = None
        return dropped

    def _new(self, pcm: F32, now: int) -> Utterance:
        self._check_room(pcm)
        self._count += 1
        utterance = Utterance(f"{self._name}-{self._count}")
        utterance.add(pcm, now)
        self._queue.append(utterance)
        return utterance

    def _add(self, utterance: Utterance, pcm: F32, now: int, marks: Sequence[tuple[int, Looks]] = ()) -> None:
        self._check_room(pcm)
        utterance.add(pcm, now, marks)

    def _waiting(self, utterance_id: str) -> Utterance | None:
        return next((one for one in self._queue if one.utterance_id == utterance_id), None)

    def _check_room(self, pcm: F32) -> None:
        queued = self.queued_samples
        if queued + len(pcm) > self._max_samples:
            got = f"{(queued + len(pcm)) / SAMPLE_RATE_HZ:.1f} s of waiting speech"
            raise QueueFullError("speech", got, f"at most {self._max_samples / SAMPLE_RATE_HZ:g} s")

    def _start(self, utterance: Utterance, now: int, leads: LeadTimes) -> int:
        """Where the next samples of an utterance go."""
        end = self._timeline.end
        missing = 0 if utterance.finished else max(leads.needed - utterance.waiting_samples, 0)
        soonest = now + leads.start + missing
        if not utterance.placed and not utterance.sent:
            return frame_from(max(end, soonest)) * SAMPLES_PER_FRAME
        return end if end >= now + leads.keep or utterance.finished and end > now else max(end, soonest)

    def _room(self, utterance: Utterance, now: int, leads: LeadTimes) -> int:
        return now + PLACED_AHEAD + leads.start - self._start(utterance, now, leads)

    def _place(self, utterance: Utterance, now: int, room: int, leads: LeadTimes) -> None:
        start = self._start(utterance, now, leads)
        pcm = utterance.take(room)
        if (utterance.placed or utterance.sent) and start > self._timeline.end:  # a gap in the middle must not click
            self._timeline.soften(SOFT, self._heard_until)
            pcm = pcm.copy()
            pcm[:SOFT] *= _RISING[: len(pcm)]
        self._timeline.write(start, pcm, utterance.gain)
        first = utterance.laid
        utterance.put(start, start + len(pcm))
        while utterance.marks and utterance.marks[0][0] < utterance.laid:
            before, looks = utterance.marks.popleft()
            self._on_mark(start + max(before - first, 0), looks)
