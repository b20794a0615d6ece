"""How a face of the family `mini` idles and begins to speak: the same for every avatar."""

from __future__ import annotations

from typing import Final

from engines.mini.motion_space import rest_motion
from engines.motion_layout import EXP
from kernels.arrays import F32
from pipeline.live.loop_choice import choose_loop
from pipeline.mini.idle_motion import idle_motion
from pipeline.mini.motion_diffusion import initial_carry
from pipeline.stages import Carry


class MiniBehaviour:
    """Implements `pipeline.session.behaviour.MotionBehaviour`; there is no set-up, so a prepared carry is never given."""

    template_frames = 0
    ends_twice = True
    mouth = EXP

    def rest(self) -> F32:
        """Motion (265,) of the still picture."""
        rest: F32 = rest_motion().numpy()
        return rest

    def idle(self, seed: int, first_frame: int, n_frames: int) -> F32:
        """Motion float32 (n_frames, 265) of the silent face."""
        return idle_motion(seed, first_frame, n_frames)

    def loop(self, seed: int, frames: int) -> F32:
        """The stretch of idle motion, float32 (frames, 265), that blinks often enough and turns gently."""
        return choose_loop(self, seed, frames)

    def start(
        self, seed: int, history: F32, first_frame: int, epoch: int, prepared: Carry | None, hop_frames: int = 0
    ) -> Carry:
        """The carry of speech that starts now."""
        return initial_carry(seed=seed, history=history, first_frame=first_frame, epoch=epoch, hop_frames=hop_frames)


MINI_BEHAVIOUR: Final = MiniBehaviour()
