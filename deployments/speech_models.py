"""Loads what `AudioFeatures` and `MotionDiffusion` run."""

from __future__ import annotations

from deployments.config import ModelSettings
from engines.mini import load_engines
from pipeline.audio_features import AudioFeatures
from pipeline.mini import make_speech_stages
from pipeline.motion_diffusion import MotionDiffusion


def load_speech_models(settings: ModelSettings, device: str) -> tuple[AudioFeatures, MotionDiffusion]:
    """Both speech stages of the family.

    Raises:
        WeightsFileError: The weights are missing or damaged.
    """
    return make_speech_stages(load_engines(device, folder=settings.weights_dir))
