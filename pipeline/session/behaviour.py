"""What a session must know of an avatar: how its face idles, and how its speech begins and ends. Its family answers."""

from __future__ import annotations

from typing import Protocol

from kernels.arrays import F32
from pipeline.families import find_family
from pipeline.stages import Carry
from pipeline.types import Avatar


class MotionBehaviour(Protocol):
    """Motion of one avatar outside the neural stages. Pure functions: nothing is kept of a session.

    Motion has one row per frame; its width is the family's, 265 where it is that of `engines.motion_layout`.
    """

    @property
    def template_frames(self) -> int:
        """Frames of the avatar's own video, played to and fro from frame 0 on; 0: a still picture."""
        ...

    @property
    def ends_twice(self) -> bool:
        """Whether a video played to and fro shows its end frames twice where it turns."""
        ...

    @property
    def mouth(self) -> slice:
        """Columns of the motion that move the mouth: when speech ends it is at rest sooner than the head."""
        ...

    def rest(self) -> F32:
        """Motion (width,) of the avatar's still picture."""
        ...

    def idle(self, seed: int, first_frame: int, n_frames: int) -> F32:
        """Motion of the silent face, float32 (n_frames, width); `first_frame` may be negative."""
        ...

    def loop(self, seed: int, frames: int) -> F32:
        """Motion float32 (frames, width) of the loop that an idle live session shows, played to and fro.

        A template video's loop is the video itself, whatever `frames` says.
        """
        ...

    def start(
        self, seed: int, history: F32, first_frame: int, epoch: int, prepared: Carry | None, hop_frames: int = 0
    ) -> Carry:
        """The carry of speech that starts now.

        Args:
            seed: Session seed.
            history: float32 (n, width), motion shown so far, newest last.
            first_frame: Index of the first frame to be made.
            epoch: Session epoch.
            prepared: What the motion stage answered at set-up, where the family has one.
            hop_frames: One of `StageInfo.hop_choices`; 0: the stage's own hop.
        """
        ...


def behaviour_of(avatar: Avatar) -> MotionBehaviour:
    """The behaviour of an avatar.

    Raises:
        InvalidInputError: Its family is not known here.
        ShapeError: An array of the avatar is missing or has the wrong shape.
    """
    return find_family(avatar.family).behaviour(avatar)
