"""Samples that a speech encoder can be given, whatever came in."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernels.arrays import F32

PCM_LIMIT: Final = 8.0
"""Samples are kept inside +-8, 18 dB above full scale."""


def clean_pcm(pcm: F32) -> F32:
    """Finite float32 samples inside +-8: NaN and infinity become digital silence."""
    out = np.nan_to_num(np.asarray(pcm, dtype=np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    return np.clip(out, -PCM_LIMIT, PCM_LIMIT)
