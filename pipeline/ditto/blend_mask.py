"""How much of a rendered crop shows at each of its pixels (ditto.md section 9)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np

from kernels.arrays import F32
from pipeline.types import CROP_SIZE

RAMP: Final = 26


@lru_cache(maxsize=1)
def blend_mask() -> F32:
    """float32 (512, 512): 1 inside the central 460 square, linear ramps at the sides, round corners."""
    ramp = np.linspace(0.0, 1.0, RAMP)
    side = np.concatenate([ramp, np.ones(CROP_SIZE - 2 * RAMP), ramp[::-1]])
    mask = np.minimum(side[:, None], side[None, :])
    corner = np.clip(np.hypot(1.0 - ramp[:, None], 1.0 - ramp[None, :]), 0.0, 1.0)
    rounded = 1.0 - corner
    mask[:RAMP, :RAMP] = rounded
    mask[:RAMP, -RAMP:] = rounded[:, ::-1]
    mask[-RAMP:, :RAMP] = rounded[::-1]
    mask[-RAMP:, -RAMP:] = rounded[::-1, ::-1]
    out: F32 = mask.astype(np.float32)
    out.setflags(write=False)
    return out
