"""When the next piece of a live session's motion is due: not too early, not too late, and not again at once after a failure."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pipeline.live.grid import frame_from, frame_of, samples_of_ms
from pipeline.live.timeline import Timeline
from pipeline.session.planner import Rules
from pipeline.stage_meter import StageMeter
from pipeline.types import MOTION_FPS, SAMPLE_RATE_HZ, SAMPLES_PER_FRAME

PREROLL_FRAMES: Final = 3
"""Frames by which the mouth begins to move before the sound, where there is time: as many as the encoder's look-ahead touches."""
LEAST_PREROLL_FRAMES: Final = 1
"""Frames by which it begins at least. Pushed speech waits no longer: from one frame in place of three on the lips of `mini` follow
the first half second of a sentence 3 ms later (median of 16; 28 at most)."""
CHAIN_RESERVE: Final = 1.25
"""Time that work is given, over what the slow quarter of recent calls took."""
LONGEST_HOLD_S: Final = 1.0
"""Nothing is waited for longer than this: a picture is held no longer, and stages are trusted to answer by then."""
_AHEAD: Final = samples_of_ms(400)
"""Samples that motion is made ahead of the media clock at most, so that an interruption wastes little."""
_FADE_AHEAD: Final = samples_of_ms(240)
_LATE: Final = samples_of_ms(200)
"""Speech that is further behind than this starts anew at the present."""
_BACK_OFF: Final = samples_of_ms(200)
_FADE_CHUNK: Final = 4
_HOLD_AT_INTERRUPTION: Final = (2, 6)
"""Frames that a picture is held at an interruption, at least and at most, until the way back is drawn."""


@dataclass(frozen=True)
class Cadence:
    """How speech is cut into work.

    Attributes:
        hop_frames: New frames per motion window.
        gate_frames: Whole frames after a hop that decide whether someone speaks.
        margin: Samples of time kept for computing.
        chunk_frames: Frames per render call.
    """

    hop_frames: int
    gate_frames: int
    margin: int
    chunk_frames: int


class Deadlines:
    """Compares the work of one session with its media clock.

    Args:
        stages: The stages; they say how long they take, and how far they look ahead.
        begin: Says how the utterance that begins is cut into work.
        timeline: The samples that will be heard.
        more_may_come: Whether samples may still be written where the timeline ends now.
        now: Position of the media clock in samples.

    Attributes:
        cadence: How the present utterance is cut into work, or the last one.
    """

    def __init__(
        self,
        stages: StageMeter,
        begin: Callable[[], Cadence],
        timeline: Timeline,
        more_may_come: Callable[[], bool],
        now: Callable[[], int],
    ) -> None:
        self._stages = stages
        self._begin = begin
        self.cadence = begin()
        self._timeline = timeline
        self._more_may_come = more_may_come
        self._now = now
        self._retry_at = 0

    @property
    def rules(self) -> Rules:
        """Rules for the planner: speech begins at any frame, a little before its sound; the loop shows idle frames."""
        cadence = self.cadence
        return Rules(cadence.hop_frames, cadence.gate_frames, grid=1, ahead=PREROLL_FRAMES, idle=0, fade=_FADE_CHUNK)

    def begin_speech(self) -> Cadence:
        """Choose how the utterance that begins is cut, and cut it so until the next one begins."""
        self.cadence = self._begin()
        return self.cadence

    @property
    def present(self) -> int:
        """The frame that is shown now."""
        return frame_of(self._now())

    @property
    def written(self) -> int:
        """Number of whole frames whose sound is on the timeline already."""
        return frame_of(self._timeline.end)

    @property
    def soonest(self) -> int:
        """The first frame that can still be drawn in time."""
        chain = int(min(self._stages.times.chain_s(), LONGEST_HOLD_S) * SAMPLE_RATE_HZ)
        return frame_from(self._now() + max(chain, SAMPLES_PER_FRAME))

    @property
    def soonest_speech(self) -> int:
        """The first frame at which speech can begin so that its pictures come in time, with the time that is kept for computing."""
        chain_s = min(CHAIN_RESERVE * self._stages.times.chain_s(), LONGEST_HOLD_S)
        return frame_from(self._now() + max(int(chain_s * SAMPLE_RATE_HZ), self.cadence.margin, SAMPLES_PER_FRAME))

    @property
    def way_back_frames(self) -> int:
        """Frames that a picture is held at an interruption, until the way back into the loop is drawn."""
        least, most = _HOLD_AT_INTERRUPTION
        return min(max(math.ceil(self._stages.times.chain_s() * MOTION_FPS), least), most)

    @property
    def waits(self) -> bool:
        """Whether a failure was so recent that no stage is called yet."""
        return self._now() < self._retry_at

    def back_off(self) -> None:
        """Call no stage for a while, because one failed."""
        self._retry_at = self._now() + _BACK_OFF

    def missed(self, frame: int) -> bool:
        """Whether speech that goes on at a frame is too far behind."""
        return frame * SAMPLES_PER_FRAME < self._now() - _LATE

    def speech_is_due(self, frame: int) -> bool:
        """Whether the hop of speech from a frame on is to be made now: all of it is here, or time presses."""
        start, now = frame * SAMPLES_PER_FRAME, self._now()
        if start > now + _AHEAD:
            return False
        cadence = self.cadence
        ahead = max(self._stages.info.lookahead_samples, cadence.gate_frames * SAMPLES_PER_FRAME)
        here = self._known(now) >= start + cadence.hop_frames * SAMPLES_PER_FRAME + ahead
        return here or now + cadence.margin // 2 >= start

    def fade_is_due(self, frame: int) -> bool:
        """Whether the frames of a fade from `frame` on are to be made now."""
        return frame * SAMPLES_PER_FRAME <= self._now() + _FADE_AHEAD

    def _known(self, now: int) -> int:
        """Position up to which it is certain what will be heard."""
        end = self._timeline.end
        return end if self._more_may_come() else max(end, now + 2 * SAMPLE_RATE_HZ)
