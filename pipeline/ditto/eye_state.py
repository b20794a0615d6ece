"""How open the eyes are and where they look, from a 478-point mesh (ditto.md section 5)."""

from __future__ import annotations

from typing import Final

import numpy as np

from kernels.arrays import F32

_WIDTHS: Final = ((33, 133), (263, 362))
"""(outer, inner) corner of the left and of the right eye."""
_GAPS: Final = (((145, 159), (144, 160), (153, 158)), ((374, 386), (373, 387), (380, 385)))
_IRISES: Final = (468, 473)
_EPS: Final = 1e-8


_LIDS: Final = (
    (33, 7, 163, 144, 145, 153, 154, 155, 133, 173, 157, 158, 159, 160, 161, 246),
    (263, 249, 390, 373, 374, 380, 381, 382, 362, 398, 384, 385, 386, 387, 388, 466),
)
"""Lid contour of the left and of the right eye."""
_MIN_DISTANCE: Final = 1e-6


def with_irises(mesh: F32) -> F32:
    """A 468-point mesh with iris points where a person looks straight ahead: at the middle of each eye's lid contour.

    The public 468-point model has no irises; the 478-point one of the reference does. What is lost is where a portrait looks.

    Args:
        mesh: (n, 468, 3).

    Returns:
        float32 (n, 478, 3); 468 and 473 are the centres, the others of each iris lie there too.
    """
    centres = [mesh[:, list(lids)].mean(axis=1, keepdims=True) for lids in _LIDS]
    return np.concatenate([mesh, *(centre.repeat(5, axis=1) for centre in centres)], axis=1).astype(np.float32)


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
        distance = np.maximum(np.linalg.norm(offset, axis=-1, keepdims=True), _MIN_DISTANCE)
        unit_axis = axis / np.linalg.norm(axis, axis=-1, keepdims=True)
        sides.append((offset / distance - unit_axis) * distance)
    return np.stack(sides, axis=-1).reshape(len(mesh), 6).astype(np.float32)
