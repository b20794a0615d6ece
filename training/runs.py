"""Stretches of frames for which something holds."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def runs_of_true(flags: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Every longest stretch of True in flags (n,), in order: int (k, 2), first index and the one behind the last."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], flags.astype(np.int8), [0]])))
    return edges.reshape(-1, 2)
