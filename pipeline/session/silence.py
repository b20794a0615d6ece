"""Which frames are silent: short-time energy with hysteresis and a hold, decided from samples alone.

A silent stretch costs no neural work: the session plays procedural idle motion there. The gate opens on one loud frame and
closes only after `hold_frames` quiet ones, so that a pause inside a sentence never flaps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernels.arrays import F32
from kernels.audio.rms_energy import Hysteresis, hysteresis_mask
from pipeline.config import SilenceSettings
from pipeline.types import SAMPLES_PER_FRAME


def frame_rms(pcm: F32) -> F32:
    """Root mean square of each whole frame of 640 samples; the mean (DC) of a frame does not count.

    Args:
        pcm: float32 (n * 640,).

    Returns:
        float32 (n,), computed in float64, so that a faint tail is not lost.
    """
    frames = pcm[: len(pcm) - len(pcm) % SAMPLES_PER_FRAME].reshape(-1, SAMPLES_PER_FRAME).astype(np.float64)
    frames -= frames.mean(axis=1, keepdims=True)
    power: F32 = np.sqrt(np.einsum("ij,ij->i", frames, frames) / SAMPLES_PER_FRAME).astype(np.float32)
    return power


@dataclass(frozen=True)
class SilenceGate:
    """State of the gate between calls.

    Attributes:
        settings: Thresholds, linear full scale.
        speaking: State after the last frame seen.
        quiet_frames: Quiet frames in a row, up to the last frame seen.
    """

    settings: SilenceSettings
    speaking: bool = False
    quiet_frames: int = 0

    def step(self, rms: F32) -> tuple[NDArray[np.bool_], SilenceGate]:
        """Advance over frames of energy `rms` (n,).

        Returns:
            (n,) True where the frame counts as speech, and the gate after it.
        """
        settings = self.settings
        state = Hysteresis(
            settings.open_rms, settings.close_rms, settings.hold_frames, self.speaking, self.quiet_frames
        )
        speech, speaking, quiet = hysteresis_mask(rms, state)
        return speech, replace(self, speaking=speaking, quiet_frames=quiet)
