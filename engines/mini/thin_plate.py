"""Thin-plate spline interpolation in the plane, as a fixed linear map from handle values to values anywhere.

s(p) = sum_i w_i r_i^2 log r_i + a_0 + a_1 x + a_2 y, with w chosen so that s(p_i) equals the value at handle i and the
bending energy is least (Duchon 1977; Bookstein 1989). Because s is linear in the handle values, the map for fixed
handles and fixed query points is one matrix, computed once per avatar.
"""

from __future__ import annotations

import numpy as np

from kernels.arrays import F64


def _kernel(a: F64, b: F64) -> F64:
    squared = ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1)
    result: F64 = 0.5 * squared * np.log(np.maximum(squared, 1e-12))
    return result


def thin_plate_matrix(handles: F64, queries: F64, smoothing: float = 1e-4) -> F64:
    """The interpolation matrix.

    Args:
        handles: float64 (h, 2), any unit; close duplicates are tolerated thanks to `smoothing`.
        queries: float64 (q, 2), same unit.
        smoothing: Added to the kernel's diagonal after the handles are scaled to unit size; 0 interpolates exactly.

    Returns:
        float64 (q, h): `matrix @ values` are the spline's values at the queries.
    """
    centre = handles.mean(0)
    extent = float(np.abs(handles - centre).max())
    h = (handles - centre) / extent
    q = (queries - centre) / extent
    count = len(h)
    system = np.zeros((count + 3, count + 3))
    system[:count, :count] = _kernel(h, h) + smoothing * np.eye(count)
    system[:count, count] = 1.0
    system[:count, count + 1 :] = h
    system[count:, :count] = system[:count, count:].T
    right = np.zeros((count + 3, count))
    right[:count] = np.eye(count)
    solution = np.linalg.solve(system, right)
    evaluate = np.concatenate([_kernel(q, h), np.ones((len(q), 1)), q], axis=1)
    result: F64 = evaluate @ solution
    return result
