"""The speech stages of the family `mini` over its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from engines.mini import FAMILY
from engines.mini.load import MiniEngines, load_engines
from pipeline.mini.audio_features import AudioFeatures
from pipeline.mini.motion_diffusion import MotionDiffusion, MotionShape
from pipeline.stages import EncoderShape

HOP_FRAMES: Final = 8


def make_speech_stages(engines: MiniEngines, hop_frames: int = HOP_FRAMES) -> tuple[AudioFeatures, MotionDiffusion]:
    """Stages over given engines; both use the same hop."""
    audio = AudioFeatures(
        engines.encoder,
        EncoderShape(engines.row_dim, engines.left_samples, engines.lookahead_samples, FAMILY, engines.version),
        hop_frames,
    )
    shape = MotionShape(
        seq_frames=engines.seq_frames,
        row_dim=engines.row_dim,
        steps=engines.steps,
        dofs=engines.dofs,
        silence_row=engines.silence_row.cpu().numpy().astype(np.float32),
        family=FAMILY,
        version=engines.version,
    )
    return audio, MotionDiffusion(engines.sampler, shape, hop_frames)


def load_speech_stages(
    device: str = "cpu", hop_frames: int = HOP_FRAMES, folder: Path | None = None
) -> tuple[AudioFeatures, MotionDiffusion]:
    """Stages over the embedded weights, or over those of a folder.

    Raises:
        WeightsFileError: The weights are missing or damaged.
    """
    return make_speech_stages(load_engines(device, folder=folder), hop_frames)
