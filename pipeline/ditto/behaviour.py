"""How a Ditto avatar idles and begins to speak. All motion is offsets, see `pipeline.ditto.speaker`."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from engines.motion_layout import EXP, MOTION_DIM, PITCH, ROLL, YAW, bin_centres_deg
from kernels.arrays import F32
from pipeline.ditto.avatar_tensors import DittoTensors
from pipeline.ditto.blink_schedule import blink_indices
from pipeline.ditto.motion_diffusion import DittoMotionCarry, start_carry
from pipeline.ditto.speaker import blink_offsets
from pipeline.live.loop_choice import choose_loop
from pipeline.session.sway import ANGLES, sway
from pipeline.stages import Carry

_POSE: Final = dict(zip(ANGLES, (PITCH, YAW, ROLL), strict=True))
_BLOCK: Final = 64
"""Frames are made in whole blocks, so that a stretch rounds the same wherever it starts."""


class DittoBehaviour:
    """Says how an avatar of Ditto idles, begins and ends to speak.

    A picture sways a little and blinks (with the canned blink, where its configuration has one); a template video moves by itself.

    Args:
        tensors: The avatar's.
    """

    ends_twice = True

    def __init__(self, tensors: DittoTensors) -> None:
        self._speaker = tensors.speaker
        self._gaps = tensors.blink_gaps
        self._sways = tensors.is_image
        self.template_frames = 0 if tensors.is_image else len(tensors.motion)
        self._slopes = {name: logit_slope(tensors.motion[0, part]) for name, part in _POSE.items()}

    @property
    def mouth(self) -> slice:
        """Expression, eyes included."""
        return EXP

    def rest(self) -> F32:
        """Implement `pipeline.session.behaviour.MotionBehaviour`."""
        return np.zeros(MOTION_DIM, np.float32)

    def idle(self, seed: int, first_frame: int, n_frames: int) -> F32:
        """Implement `pipeline.session.behaviour.MotionBehaviour`."""
        if n_frames <= 0:
            return np.zeros((0, MOTION_DIM), np.float32)
        start = first_frame // _BLOCK * _BLOCK
        stop = -(-(first_frame + n_frames) // _BLOCK) * _BLOCK
        offsets = blink_offsets(self._speaker, blink_indices(seed, start, stop - start, self._gaps))
        if self._sways:
            curves = sway(seed, np.arange(start, stop, dtype=np.int64))
            for name, part in _POSE.items():
                offsets[:, part] = curves[name][:, None] * self._slopes[name]
        return offsets[first_frame - start : first_frame - start + n_frames].copy()

    def loop(self, seed: int, frames: int) -> F32:
        """The stretch of idle motion, float32 (frames, 265), that blinks often enough and turns gently."""
        return choose_loop(self, seed, frames)

    def start(
        self, seed: int, history: F32, first_frame: int, epoch: int, prepared: Carry | None, hop_frames: int = 0
    ) -> Carry:
        """Implement `pipeline.session.behaviour.MotionBehaviour`."""
        ready = prepared if isinstance(prepared, DittoMotionCarry) else None
        return start_carry(seed, history, self._speaker, self._gaps, first_frame, epoch, ready, hop_frames)


def logit_slope(logits: F32) -> F32:
    """What one degree adds to pose logits (66,): bin centres over the spread of the source's own angle.

    For a Gaussian over the bins this shifts the mean by exactly one degree; for others to first order.
    """
    centres = bin_centres_deg()
    share = torch.softmax(torch.from_numpy(np.array(logits, np.float32)), dim=0)
    mean = (share * centres).sum()
    variance = (share * (centres - mean) ** 2).sum().clamp(min=1.0)
    slope: F32 = ((centres - mean) / variance).numpy()
    return slope
