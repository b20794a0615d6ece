"""Makes `pipeline/presenter/template.npy`: where the 468 face-mesh points lie on the presenter that we draw.

The face-mesh network looks at the drawing from many slightly different scales, angles and offsets; the answers are taken
back to face coordinates, averaged and made symmetric. Lips and lids, whose curves the drawing defines, are then put
exactly onto those curves. Run it again after any change to the face: `python -m training.presenter_template`.
"""

from __future__ import annotations

from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from engines.face.mesh import FaceMesh
from engines.weights.home import face_weights_dir
from kernels.arrays import F64
from pipeline.presenter.compose import paint_board
from pipeline.presenter.eyes import LOWER_LID, UPPER_LID, Eye
from pipeline.presenter.face_shape import LIP_BOTTOM_HALF, LIP_TOP_HALF, MOUTH_LINE_HALF, whole
from pipeline.presenter.geometry import BOARD_H, BOARD_W, FACE_TOP, FACE_UNIT, FACE_X, spline
from pipeline.presenter.template import TEMPLATE_FILE

_UPPER: Final = (
    (61, 185, 40, 39, 37, 0, 267, 269, 270, 409, 291),
    (76, 184, 74, 73, 72, 11, 302, 303, 304, 408, 306),
    (62, 183, 42, 41, 38, 12, 268, 271, 272, 407, 292),
    (78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308),
)
_LOWER: Final = (
    (61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291),
    (76, 77, 90, 180, 85, 16, 315, 404, 320, 307, 306),
    (62, 96, 89, 179, 86, 15, 316, 403, 319, 325, 292),
    (78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308),
)
_RING_SHARE: Final = (0.0, 0.36, 0.70, 1.0)
"""How far each of the four lip rings lies from the outer contour towards the parting line."""
_CORNER_INSET: Final = (0.0, 0.030, 0.060, 0.090)
"""How far, in units of the mouth's half width, each ring's corner lies inside the mouth corner."""
_EYE_RIGHT: Final = (33, 133, (246, 161, 160, 159, 158, 157, 173), (7, 163, 144, 145, 153, 154, 155))
_EYE_LEFT: Final = (263, 362, (466, 388, 387, 386, 385, 384, 398), (249, 390, 373, 374, 380, 381, 382))


def measure(views: int = 24, seed: int = 0) -> F64:
    """Mean landmarks over jittered views of the drawing, face coordinates, float64 (468, 3)."""
    picture = np.round(paint_board() * 255.0).astype(np.uint8)
    mesh = FaceMesh(face_weights_dir())
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(views):
        scale, angle = rng.uniform(0.45, 0.72), np.radians(rng.uniform(-5.0, 5.0))
        size = (int(BOARD_W * scale), int(BOARD_H * scale))
        c, s = scale * np.cos(angle), scale * np.sin(angle)
        centre, shift = np.array([FACE_X, FACE_TOP + FACE_UNIT / 2]), rng.uniform(-12.0, 12.0, 2)
        turn = np.array([[c, -s], [s, c]])
        move = (centre * scale + shift) - turn @ centre
        view = cv2.warpAffine(picture, np.c_[turn, move], size, flags=cv2.INTER_AREA, borderMode=cv2.BORDER_REPLICATE)
        result = mesh.landmarks(view.astype(np.uint8, copy=False))
        if result is None:
            continue
        flat = (result.points[:, :2].astype(np.float64) - move) @ np.linalg.inv(turn).T
        depth = result.points[:, 2:].astype(np.float64) / scale
        found.append(np.concatenate([(flat - (FACE_X, FACE_TOP)) / FACE_UNIT, depth / FACE_UNIT], axis=1))
    return np.asarray(np.mean(found, axis=0), dtype=np.float64)


def mirror_pairs(points: F64) -> NDArray[np.intp]:
    """For every point the index of its twin on the other side of the face (itself on the axis)."""
    flipped = points * (-1.0, 1.0, 1.0)
    cost = np.linalg.norm(points[:, None] - flipped[None], axis=2) ** 2
    _, twin = linear_sum_assignment(cost)
    if not np.array_equal(twin[twin], np.arange(len(points))):
        raise RuntimeError("the measured mesh is too lopsided to pair its points; look at the drawing")
    return np.asarray(twin, dtype=np.intp)


def symmetrise(points: F64) -> F64:
    """The mean of the points and their mirror image."""
    twin = mirror_pairs(points)
    return (points + points[twin] * (-1.0, 1.0, 1.0)) / 2.0


def snap_lips(points: F64) -> None:
    """Put the four lip rings onto the drawn contours and the closed parting line, in place."""
    line, top, bottom = whole(MOUTH_LINE_HALF), whole(LIP_TOP_HALF), whole(LIP_BOTTOM_HALF)
    corner = line[-1, 0]
    columns = np.abs(
        np.concatenate([points[list(rings[0][1:-1]), 0] for rings in (_UPPER, _LOWER)]).reshape(2, 9)
    ).mean(axis=0)
    columns = (columns + columns[::-1]) / 2.0 * np.sign(np.arange(9) - 4.0)
    columns *= min(1.0, 0.90 * corner / columns.max())
    for rings, contour in ((_UPPER, top), (_LOWER, bottom)):
        for ring, share, inset in zip(rings, _RING_SHARE, _CORNER_INSET, strict=True):
            u = np.concatenate([[-1.0], columns / corner, [1.0]]) * corner * (1.0 - inset)
            outer, inner = np.interp(u, contour[:, 0], contour[:, 1]), np.interp(u, line[:, 0], line[:, 1])
            points[list(ring), 0] = u
            points[list(ring), 1] = outer + (inner - outer) * share


def snap_eyes(points: F64) -> None:
    """Put eye corners and lid edges onto the drawn lids, in place."""
    for side, (outer, inner, upper, lower) in ((-1.0, _EYE_RIGHT), (1.0, _EYE_LEFT)):
        eye = Eye(side)
        a_of = eye.to_face(np.array([(0.0, 0.0), (1.0, 0.0)]))
        points[[inner, outer], :2] = a_of
        for row, curve in ((upper, UPPER_LID), (lower, LOWER_LID)):
            lid = eye.to_face(spline(curve, 200))
            lid = lid[np.argsort(lid[:, 0])]
            u = np.clip(points[list(row), 0], lid[0, 0] + 0.004, lid[-1, 0] - 0.004)
            points[list(row), 0] = u
            points[list(row), 1] = np.interp(u, lid[:, 0], lid[:, 1])


def main() -> None:
    """Measure, symmetrise, snap, write."""
    points = symmetrise(measure())
    before = points.copy()
    snap_lips(points)
    snap_eyes(points)
    moved = np.linalg.norm((points - before)[:, :2], axis=1)
    np.save(TEMPLATE_FILE, points.astype(np.float32), allow_pickle=False)
    print(
        f"wrote {TEMPLATE_FILE.name}; snapping moved points by {moved.mean():.4f} face units on average, "
        f"{moved.max():.4f} at most"
    )


if __name__ == "__main__":
    main()
