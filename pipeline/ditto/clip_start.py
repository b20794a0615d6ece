"""How files of a Ditto avatar are cut for the neural stages."""

from __future__ import annotations

from typing import Final

from pipeline.config import FileMotion
from pipeline.ditto.audio_features import LOOKAHEAD_SAMPLES
from pipeline.ditto.avatar_tensors import unpack
from pipeline.ditto.clip_motion import ClipMode, DittoClipCarry, lead_samples, rows_wanted
from pipeline.ditto.feature_windows import HOP_FRAMES, ONLINE_LEAD
from pipeline.session.clip_motion import ClipStart
from pipeline.types import SAMPLES_PER_FRAME, Avatar

WINDOW_FRAMES: Final = 70
"""Features per call: one motion window's share at the reference's overlap, 14 HuBERT windows in one batch."""


def ditto_clip_start(avatar: Avatar, seed: int, samples: int, motion: FileMotion) -> ClipStart | None:
    """Start a clip, as `pipeline.session.clip_motion.clip_start` says. `auto` is `offline`: two-sided blends, a third of the work.

    Raises:
        ShapeError: An array of the avatar is missing or has the wrong shape.
    """
    if motion == "low_latency":
        return None
    mode: ClipMode = "compat" if motion == "compat" else "offline"
    tensors = unpack(avatar)
    frames, wanted, lead = -(-samples // SAMPLES_PER_FRAME), rows_wanted(mode, samples), lead_samples(mode)
    carry = DittoClipCarry(tensors.speaker, seed, mode, frames, wanted, tensors.blink_gaps)
    return ClipStart(carry, lead, ONLINE_LEAD + LOOKAHEAD_SAMPLES - lead, wanted, HOP_FRAMES, WINDOW_FRAMES)
