"""What is on the screen at a tick: the picture that was drawn for it, the one before for a while, or the idle loop."""

from __future__ import annotations

import math

from pipeline.live.deadlines import LONGEST_HOLD_S
from pipeline.live.grid import MediaGrid
from pipeline.live.loop_place import LoopPlace
from pipeline.live.picture_shelf import PictureShelf
from pipeline.session.motion_score import MotionScore
from pipeline.types import Nv12Rect


class Screen:
    """Shows one session's pictures, and holds the last one where the next is late.

    Args:
        grid: Ticks of the session.
        place: The session's place in its idle loop.
        shelf: Pictures that were drawn.
        score: Motion of the frames.

    Attributes:
        shown: Index of the frame of motion that is shown.
        unseen: Whether no picture of what is being drawn was seen; the loop is shown instead, until one comes.
        calm_until: Frame before which pictures are held on purpose and do not count as late.
    """

    def __init__(self, grid: MediaGrid, place: LoopPlace, shelf: PictureShelf, score: MotionScore) -> None:
        self._grid = grid
        self._place = place
        self._shelf = shelf
        self._score = score
        self._drawn: tuple[int, float] | None = None
        self._held = 0
        self.shown = 0
        self.unseen = False
        self.calm_until = 0

    def is_drawn(self, frame: int) -> bool:
        """Whether a frame shows drawn pictures; others show the loop."""
        return self._drawn is not None and not self.unseen and self._drawn[0] <= frame < self._drawn[1]

    def draw_from(self, frame: int) -> None:
        """Show drawn pictures from a frame on, or go on showing them there."""
        goes_on = self._drawn is not None and self.is_drawn(frame - 1)
        self._drawn = (self._drawn[0] if self._drawn is not None and goes_on else frame, math.inf)

    def go_on_drawing(self, frame: int) -> None:
        """Show drawn pictures at a frame and after it, whatever was shown before."""
        self._drawn = (min(frame, self._drawn[0] if self._drawn is not None else frame), math.inf)

    def draw_idle_from(self, frame: int) -> None:
        """Show drawn pictures of the idle face from a frame on, in place of the loop's."""
        self._place.leave_still(frame)
        self._shelf.origin = self._place.start
        self.draw_from(frame)

    @property
    def has_loop(self) -> bool:
        """Whether the loop's pictures are here."""
        return self._place.has_pictures

    def draw_until(self, frame: int) -> None:
        """Show the loop from a frame on."""
        if self._drawn is not None:
            self._drawn = (self._drawn[0], frame)

    def draw_none(self) -> None:
        """Show the loop and no drawn picture."""
        self._drawn = None

    def enter_loop(self, frame: int) -> None:
        """Begin the loop at a frame, if its pictures have come and no drawn picture is shown there."""
        if self._place.ready and not self.is_drawn(frame):
            self._place.enter(frame)
            self._shelf.origin = self._place.start

    def take(self, tick: int) -> tuple[Nv12Rect | None, bool]:
        """The picture of a tick; ticks are taken in order.

        Returns:
            The picture, None to hold the one before, and whether one was due that had not come.
        """
        frame = tick // self._grid.ticks_per_frame
        rect = self._shelf.take(tick)
        if rect is not None:
            self.unseen = False
            self._show(frame)
            return rect, False
        if self.is_drawn(frame):
            self._held += 1
            if self._held < LONGEST_HOLD_S * self._grid.fps:
                return None, frame >= self.calm_until
            self._give_up(frame)
        self._show(frame)
        return self._place.picture(tick), False

    def _show(self, frame: int) -> None:
        self.shown, self._held = frame, 0

    def _give_up(self, frame: int) -> None:
        """Nothing has come for too long: show the loop, from where it is most like the picture that was held."""
        self._place.join(frame, self._score.at(self.shown))
        self._shelf.origin = self._place.start
        self._score.clear()
        self.unseen = True
