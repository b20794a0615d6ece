"""Looks laid over the motion of a session, just before it is drawn: what makes motion never sees them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import replace

from kernels.arrays import F32
from pipeline.expression.looks import NEUTRAL_FACE, Look, Looks
from pipeline.families import find_family
from pipeline.family import Family
from pipeline.session.attention import Attention
from pipeline.session.gestures import Voice, gestures
from pipeline.types import Avatar, MotionChunk


class Expressed:
    """What one avatar's face expresses.

    Args:
        avatar: The avatar; its family knows how.
        looks: What it expresses, on the clock of its frames.
        voice: What it says; None where no gesture goes with it.
        seed: Session seed.
        attention: How it listens; None where it does not, or its family cannot show it.

    Attributes:
        attention: How it listens.

    Raises:
        InvalidInputError: The avatar's family cannot show them; it names the part.
    """

    def __init__(
        self,
        avatar: Avatar,
        looks: Looks = NEUTRAL_FACE,
        voice: Voice | None = None,
        seed: int = 0,
        attention: Attention | None = None,
    ) -> None:
        self._voice = voice
        self._seed = seed
        self._avatar = avatar
        self.attention = attention if self._family.listens else None
        self._planned: frozenset[Look] = frozenset()
        self.looks = NEUTRAL_FACE
        if looks:
            self.change(looks, 0.0, 0.0)

    def change(self, looks: Looks, at_s: float, now_s: float) -> None:
        """From a time on, express something else; the times of `looks` count from there.

        Args:
            looks: What else.
            at_s: Second from which it is expressed.
            now_s: Second before which no frame is asked for any more.

        Raises:
            InvalidInputError: The avatar's family cannot show them, and it names the part; or too many changes are under way.
        """
        self._family.check_looks(looks)
        self.looks = self.looks.then(looks, at_s, now_s)

    def plan(self, looks: Looks, at_s: float, now_s: float) -> None:
        """From a time on, express something else, unless `forget_plans` comes before; arguments and errors as in `change`."""
        before = self.looks.looks
        self.change(looks, at_s, now_s)
        new = frozenset(self.looks.looks) - frozenset(before)
        self._planned = frozenset(look for look in self._planned if look in self.looks.looks) | new

    def forget_plans(self, at_s: float) -> None:
        """Drop what was planned for later than a time."""
        kept = (look for look in self.looks.looks if look.at_s <= at_s or look not in self._planned)
        self.looks = Looks(tuple(kept))

    @property
    def _family(self) -> Family:
        return find_family(self._avatar.family)

    def at_rest(self, frame: int) -> bool:
        """Whether nothing is expressed at a frame and after it."""
        listens = self.attention is not None and not self.attention.rests(frame)
        return not listens and (not self.looks or self.looks.at_rest(frame))

    def lay_over(self, motion: F32, first_frame: int) -> F32:
        """Motion (n, width) of frames from `first_frame` on, with what they express."""
        if not len(motion) or (not self.looks and self._voice is None and self.attention is None):
            return motion
        values = self.looks.values(first_frame, len(motion))
        if self.attention is not None:
            values += self.attention.values(first_frame, len(motion))
        if self._voice is not None and self._family.gestures:
            values += gestures(self._voice, self._seed, first_frame, len(motion))
        return self._family.express(motion, values, self._avatar) if values.any() else motion

    async def hops(self, hops: AsyncIterator[MotionChunk]) -> AsyncGenerator[MotionChunk, None]:
        """Consecutive motion, with what it expresses."""
        async for hop in hops:
            yield replace(hop, motion=self.lay_over(hop.motion, hop.first_frame))
