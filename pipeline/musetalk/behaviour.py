"""How a MuseTalk avatar idles and begins to speak: in silence its own pictures are shown, and nothing is painted."""

from __future__ import annotations

from kernels.arrays import F32
from pipeline.musetalk.clip_place import ENDS_TWICE
from pipeline.musetalk.face_rows import SHARE, silent_rows
from pipeline.musetalk.spoken_frames import MuseTalkCarry, start_carry
from pipeline.stages import Carry


class MuseTalkBehaviour:
    """Implements `pipeline.session.behaviour.MotionBehaviour`.

    Args:
        clip_frames: Frames of the avatar's clip; 1: a picture.
    """

    ends_twice = ENDS_TWICE
    mouth = SHARE

    def __init__(self, clip_frames: int) -> None:
        self.template_frames = clip_frames if clip_frames > 1 else 0

    def rest(self) -> F32:
        """A silent row, float32 (19202,)."""
        row: F32 = silent_rows(1)[0]
        return row

    def idle(self, seed: int, first_frame: int, n_frames: int) -> F32:
        """Silent rows, float32 (n_frames, 19202): which picture is shown follows from the frame."""
        return silent_rows(n_frames)

    def loop(self, seed: int, frames: int) -> F32:
        """The clip, or the one picture, which needs no loop."""
        return silent_rows(self.template_frames or 1)

    def start(
        self, seed: int, history: F32, first_frame: int, epoch: int, prepared: Carry | None, hop_frames: int = 0
    ) -> MuseTalkCarry:
        """The carry of speech that starts now."""
        return start_carry(history, first_frame, epoch)
