"""A Ditto motion stage over a motion model that is a formula, and speakers to go with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from benchmarks.ditto.formula import FILL, SALT
from engines.motion_layout import MOTION_DIM
from kernels.arrays import F32
from pipeline.ditto.condition import emotion_sequence
from pipeline.ditto.motion_diffusion import DittoMotionDiffusion, LiveSettings
from pipeline.ditto.speaker import Speaker


def speaker(name: str = "a", blink: bool = False, frames: int = 1) -> Speaker:
    return Speaker(
        source=FILL.normal(f"speaker/{name}/source", (MOTION_DIM,), SALT, 0.3),
        shape=FILL.normal(f"speaker/{name}/shape", (63,), SALT, 0.3),
        eye_open=FILL.uniform(f"speaker/{name}/open", (frames, 2), SALT, 0.2, 1.0),
        eye_ball=FILL.normal(f"speaker/{name}/ball", (frames, 6), SALT, 0.1),
        drive=np.concatenate([np.zeros(1, np.float32), np.ones(264, np.float32)]),
        blink=FILL.normal(f"speaker/{name}/blink", (15 if blink else 0, 63), SALT, 0.02),
    )


class FormulaModel:
    """(condition frame, conditions, noise) -> motion: a little of each, so that every input is felt."""

    name, device = "formula", torch.device("cpu")

    def __init__(self) -> None:
        self.batches: list[int] = []

    def run(self, *inputs: torch.Tensor) -> torch.Tensor:
        cond_frame, cond, noise = inputs
        self.batches.append(len(cond))
        return 0.3 * noise[:, -1] + 0.1 * noise[:, 0] + 0.5 * cond_frame[:, None] + 0.1 * cond[..., :MOTION_DIM]


def settings(**changes: Any) -> LiveSettings:
    return LiveSettings(**{"emotion": emotion_sequence(4), "steps": 3, "version": "v1", **changes})


def silence() -> F32:
    return FILL.normal("silence", (5, 1024), SALT, 0.1)


def stage(model: Any = None, **changes: Any) -> DittoMotionDiffusion:
    return DittoMotionDiffusion(model or FormulaModel(), settings(**changes), silence())
