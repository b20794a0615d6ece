"""How open the eyes are and where they look, from a 478-point mesh (ditto.md section 5)."""

from __future__ import annotations

from typing import Final

import numpy as np

from pipeline.types import F32

_WIDTHS: Final = ((33, 133), (263, 362))
"""(outer, inner) corner of the left and of the right eye."""
_GAPS: Final = (((145, 159), (144, 160), (153, 158)), ((374, 386), (373, 387), (380, 385)))
_IRISES: Final = (468, 473)
_EPS: Final = 1e-8


def eye_open(mesh: F32) -> F32:
    """Sum of three lid gaps over the eye's width.

    Args:
        mesh: (n, 478, 3), normalised mesh coordinates.

    Returns:
        float32 (n, 2), left and right.
    """
    sides = []
    for (outer, inner), gaps in zip(_WIDTHS, _GAPS, strict=True):
        width = np.linalg.norm(mesh[:, outer] - mesh[:, inner], axis=-1)
        gap = sum(np.linalg.norm(mesh[:, a] - mesh[:, b], axis=-1) for a, b in gaps)
        sides.append(gap / (width + _EPS))
    return np.stack(sides, axis=1).astype(np.float32)


def eye_ball(mesh: F32) -> F32:
    """Direction of each iris from the eye's centre, minus the eye's own axis, scaled by the iris's distance.

    Args:
        mesh: (n, 478, 3), normalised mesh coordinates.

    Returns:
        float32 (n, 6): x left, x right, y left, y right, z left, z right.
    """
    sides = []
    for (outer, inner), iris in zip(_WIDTHS, _IRISES, strict=True):
        axis = mesh[:, outer] - mesh[:, inner]
        offset = mesh[:, iris] - (mesh[:, outer] + mesh[:, inner]) / 2.0
        distance = np.linalg.norm(offset, axis=-1, keepdims=True)
        unit_axis = axis / np.linalg.norm(axis, axis=-1, keepdims=True)
        sides.append((offset / distance - unit_axis) * distance)
    return np.stack(sides, axis=-1).reshape(len(mesh), 6).astype(np.float32)
