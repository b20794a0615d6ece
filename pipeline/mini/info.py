"""What sessions must know of the family `mini`."""

from __future__ import annotations

from typing import Final

from engines.mini import FAMILY
from pipeline.stages import AudioFacts, MotionFacts, StageInfo

HOP_CHOICES: Final = (4,)
"""At a hop of 4, r with labels is that of 8 (0.875 and 0.874 on 16 held-out sentences), at twice the motion model's work."""

DOUBLES: Final = True
"""The mesh renderer draws any frame between two motions."""


def stage_info(audio: AudioFacts, motion: MotionFacts) -> StageInfo:
    """The facts of the loaded stages, and what is always so in this family."""
    return StageInfo(
        family=FAMILY,
        hop_frames=motion.hop_frames,
        context_samples=audio.context_samples,
        lookahead_samples=audio.lookahead_samples,
        history_frames=motion.history_frames,
        doubles_in_motion_space=DOUBLES,
        hop_choices=HOP_CHOICES,
    )
