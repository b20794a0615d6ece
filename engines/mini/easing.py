"""The smoothstep curve `t^2 (3 - 2 t)`, flat at both ends, on tensors and on arrays."""

from __future__ import annotations

import numpy as np
import torch

from kernels.arrays import F64


def ease(t: torch.Tensor) -> torch.Tensor:
    """0 up to t = 0, 1 from t = 1 on; any shape."""
    t = t.clamp(0.0, 1.0)
    return t * t * (3.0 - 2.0 * t)


def smoothstep(edge0: float, edge1: float, value: F64) -> F64:
    """0 up to `edge0`, 1 from `edge1` on; any shape. Edges in falling order give a fall."""
    t = np.clip((value - edge0) / (edge1 - edge0), 0.0, 1.0)
    result: F64 = t * t * (3 - 2 * t)
    return result
