"""The two neural speech stages of the `mini` family, ready to call."""

from __future__ import annotations

import numpy as np

from engines.mini import FAMILY, MiniEngines, load_engines
from pipeline.audio_features import AudioFeatures, EncoderShape
from pipeline.motion_diffusion import MotionDiffusion, MotionShape

HOP_FRAMES = 8


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


def load_speech_stages(device: str = "cpu", hop_frames: int = HOP_FRAMES) -> tuple[AudioFeatures, MotionDiffusion]:
    """Stages over the embedded weights.

    Raises:
        WeightsFileError: The embedded weights are missing or damaged.
    """
    return make_speech_stages(load_engines(device), hop_frames)
