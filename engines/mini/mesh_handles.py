"""From the 21 control points of `exp` to the motion of some 150 face handles, as one linear map per avatar.

Every handle's displacement is `motion @ coefficients`, where `coefficients` = [1, exp (63)]: the constant column closes
the lips of a source that smiles with an open mouth and takes its smile back, so that exp = 0 is the neutral face; the
other columns spread the control points over lips, jaw, cheeks and brows. Handles come in three groups: `common` ones,
and the upper and the lower lip, which part company.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator

from engines.face import topology
from engines.mini.control_points import CONTROL_POINTS, INDEX, Unit
from engines.mini.easing import smoothstep
from engines.mini.face_frame import FaceFrame, LipLines
from engines.mini.mesh_lattice import CROP
from engines.mini.rig import ACTION_INDEX, action_basis
from kernels.arrays import F64

COEFFICIENTS = 1 + 3 * len(CONTROL_POINTS)
PUCKER_CORNER_TRAVEL = 0.17
"""How far each mouth corner travels inwards at full pucker, in mouth widths."""
JAW_TRAVEL = 0.34
"""How far the chin travels down at full jaw opening, in mouth widths."""
UNCURL_PUCKER, UNCURL_JAW = 0.55, 0.35
"""Share of the mouth line's curvature (a smile) that a full pucker and a fully open jaw take away."""
SMILE_WIDTH = (0.58, 0.70)
"""Width of the mouth over the distance of the outer eye corners: not smiling at all, and at its most."""
SMILE_BEND = (0.06, 0.12)
"""How far the middle of closed lips lies below their corners, mouth widths, likewise."""
MOST_SMILE = 0.8
"""A friendly face stays one."""
FLAT_ALREADY = 0.7
"""Share of that which a smile that was taken back needs no longer."""
LEAST_KNOT_ANGLE = 0.08
UPPER_LIP_CLOSING, LOWER_LIP_CLOSING = 0.40, 0.60
JAW_CLOSING = 0.22
LIP_SPREAD_UPPER, LIP_SPREAD_LOWER = 0.24, 0.30
"""How far the outer lip edge moves outwards per unit of protrusion (and inwards when the lip rolls in)."""


@dataclass(frozen=True)
class Handles:
    """Handles and their linear motion.

    Attributes:
        points: float64 (h, 2), crop pixels, on the source picture.
        motion: float64 (h, 2, 64), crop pixels per coefficient.
    """

    points: F64
    motion: F64


def units_px(frame: FaceFrame) -> F64:
    """Pixels per 1.0 of every control point, float64 (21,)."""
    points = frame.points

    def length(a: int, b: int) -> float:
        return max(float(np.linalg.norm(points[a] - points[b])), 1.0)

    lengths = []
    for point in CONTROL_POINTS:
        right = point.name.endswith("right")
        if point.unit is Unit.MOUTH:
            lengths.append(frame.mouth_width)
        elif point.unit is Unit.FACE_HEIGHT:
            lengths.append(frame.face_height)
        elif point.unit is Unit.EYE_OPENING:
            lengths.append(length(159, 145) if right else length(386, 374))
        else:
            lengths.append(length(33, 133) if right else length(362, 263))
    return np.array(lengths)


def smile_of(frame: FaceFrame, lips: LipLines) -> float:
    """How much of the action `smile` the portrait's own mouth shows, 0 to `MOST_SMILE`.

    A smile widens the mouth; where the lips touch, it also bends their line, which an open mouth may do without smiling.
    """
    eyes = float(np.linalg.norm(frame.points[topology.EYE_OUTER_LEFT] - frame.points[topology.EYE_OUTER_RIGHT]))
    wide = smoothstep(*SMILE_WIDTH, np.array(frame.mouth_width / max(eyes, 1.0)))
    middle = np.mean(np.stack(lips.at(np.linspace(-0.25, 0.25, 11))))
    bent = smoothstep(*SMILE_BEND, np.array(middle / frame.mouth_width)) if lips.closed_source else np.zeros(())
    return MOST_SMILE * float(np.maximum(wide, bent))


class HandleBuilder:
    """Builds the handle groups of one face."""

    def __init__(self, frame: FaceFrame, lips: LipLines) -> None:
        self.frame = frame
        self.lips = lips
        units = units_px(frame)
        self._scalar = np.zeros((len(CONTROL_POINTS), 3, COEFFICIENTS))
        for k in range(len(CONTROL_POINTS)):
            for axis in range(3):
                self._scalar[k, axis, 1 + 3 * k + axis] = units[k]
        smile = action_basis()[ACTION_INDEX["smile"]].numpy().astype(np.float64)
        self._smile = smile_of(frame, lips)
        self._scalar[..., 0] = -self._smile * smile * units[:, None]  # exp = 0 is a neutral mouth

    def control(self, name: str) -> F64:
        """In-plane displacement of a control point, (2, 64)."""
        row = self._scalar[INDEX[name]]
        result: F64 = np.outer(self.frame.x_axis, row[0]) + np.outer(self.frame.y_axis, row[1])
        return result

    def down(self, row: F64) -> F64:
        """A scalar row (64,), pixels, as a displacement along the face's y axis, (2, 64)."""
        result: F64 = np.outer(self.frame.y_axis, row)
        return result

    def constant(self, pixels: float) -> F64:
        """A constant row, (64,)."""
        row = np.zeros(COEFFICIENTS)
        row[0] = pixels
        return row

    def jaw(self) -> F64:
        """Displacement of the jaw bone: the chin's, plus closing the source's open mouth."""
        return self.control("chin") + self.down(self.constant(-JAW_CLOSING * self.lips.gap))

    def common(self) -> Handles:
        """Everything but the lips proper."""
        parts: dict[int, F64] = {i: np.zeros((2, COEFFICIENTS)) for i in self._fixed()}
        jaw = self.jaw()
        parts |= {i: weight * jaw for i, weight in topology.JAW_WEIGHTS.items()}
        for side, corner, cheek, beside, above, below in (
            ("right", 61, 205, 57, 206, 202),
            ("left", 291, 425, 287, 426, 422),
        ):
            parts[corner] = self.control(f"mouth_corner_{side}") + self.down(self._uncurl(np.zeros(1))[0])
            parts[cheek] = self.control(f"cheek_{side}")
            parts[beside] = 0.82 * parts[corner]
            parts[above] = 0.35 * parts[corner] + 0.35 * parts[cheek]
            parts[below] = 0.45 * parts[corner] + 0.45 * jaw
        parts |= self._brows()
        points = [self.frame.points[i] for i in parts]
        motion = list(parts.values())
        neck = self._neck()
        return Handles(
            np.concatenate([np.array(points), neck]),
            np.concatenate([np.array(motion), np.zeros((len(neck), 2, COEFFICIENTS))]),
        )

    def upper_lip(self) -> Handles:
        """Inner and outer contour of the upper lip."""
        return self._lip(
            topology.UPPER_LIP_INNER,
            topology.UPPER_LIP_OUTER,
            ("mouth_corner_right", "lip_upper_right", "lip_upper_mid", "lip_upper_left", "mouth_corner_left"),
            closing=(UPPER_LIP_CLOSING, 0.22),
            follow=0.68,
            spread=LIP_SPREAD_UPPER,
            roundness=0.0,
        )

    def lower_lip(self) -> Handles:
        """Inner and outer contour of the lower lip."""
        return self._lip(
            topology.LOWER_LIP_INNER,
            topology.LOWER_LIP_OUTER,
            ("mouth_corner_right", "lip_lower_right", "lip_lower_mid", "lip_lower_left", "mouth_corner_left"),
            closing=(-LOWER_LIP_CLOSING, -0.46),
            follow=0.96,
            spread=-LIP_SPREAD_LOWER,
            roundness=0.5,
        )

    def _lip(
        self,
        inner: tuple[int, ...],
        outer: tuple[int, ...],
        controls: tuple[str, ...],
        *,
        closing: tuple[float, float],
        follow: float,
        spread: float,
        roundness: float,
    ) -> Handles:
        frame = self.frame
        planar = np.stack([self.control(name) for name in controls])
        protrusion = np.stack([self._scalar[INDEX[name], 2] for name in controls])
        points, motion = [], []
        for contour, is_inner in ((inner, True), (outer, False)):
            places = frame.points[list(contour)]
            u, v = frame.to_mouth(places)
            if is_inner and self.lips.closed_source:
                v = self.lips.at(u)[0]
                places = frame.from_mouth(u, v)
            basis = _lip_basis(u, roundness)
            spread_planar = np.einsum("pk,kdc->pdc", basis, planar)
            out = basis @ protrusion
            edge_upper, edge_lower = self.lips.at(u)
            gap = np.maximum(edge_lower - edge_upper, 0.0)
            share = closing[0] if is_inner else closing[1]
            if not is_inner:
                corner = np.einsum("pk,kdc->pdc", basis[:, [0, 4]], planar[[0, 4]])
                spread_planar = corner + follow * (spread_planar - corner)
                spread_planar += np.einsum("d,pc->pdc", frame.y_axis, spread * _bell(u)[:, None] * out)
            rows = self._uncurl((edge_upper + edge_lower) / 2)
            rows[:, 0] += share * gap
            spread_planar += np.einsum("d,pc->pdc", frame.y_axis, rows)
            for k in range(len(contour)):
                if k in (0, len(contour) - 1) and not is_inner:
                    continue  # the outer corners are common handles
                points.append(places[k])
                motion.append(spread_planar[k])
        return Handles(np.array(points), np.array(motion))

    def _uncurl(self, line: F64) -> F64:
        """Downward rows (p, 64) that flatten a smiling mouth line (its v at p points) as the lips pucker or the jaw drops."""
        inwards = self._scalar[INDEX["mouth_corner_right"], 0] - self._scalar[INDEX["mouth_corner_left"], 0]
        pucker = inwards / (2 * PUCKER_CORNER_TRAVEL * self.frame.mouth_width)
        drop = self._scalar[INDEX["chin"], 1] / (JAW_TRAVEL * self.frame.mouth_width)
        level = float(np.mean(np.stack(self.lips.at(np.linspace(-0.9, 0.9, 37)))))
        flatter = (UNCURL_PUCKER * pucker + UNCURL_JAW * drop) * (1.0 - FLAT_ALREADY * self._smile)
        flatter[0] = 0.0
        return np.outer(level - line, flatter)

    def _fixed(self) -> Iterable[int]:
        jaw = topology.JAW_WEIGHTS
        oval = [i for i in topology.FACE_OVAL if i not in jaw]
        eyes = topology.RIGHT_EYE_LOWER[::2] + topology.LEFT_EYE_LOWER[::2]
        lids = topology.RIGHT_EYE_UPPER[1::2] + topology.LEFT_EYE_UPPER[1::2]
        cheekbones = (119, 348, 117, 346, 50, 280, 101, 330, 36, 266, 123, 352, 227, 447)
        return [*topology.NOSE, *oval, *eyes, *lids, *cheekbones]

    def _brows(self) -> Mapping[int, F64]:
        parts: dict[int, F64] = {}
        for side, column in (("right", 0), ("left", 1)):
            inner, outer = self.control(f"brow_inner_{side}"), self.control(f"brow_outer_{side}")
            parts |= {ids[column]: a * inner + b * outer for ids, a, b in topology.BROW_WEIGHTS}
        both = (self.control("brow_inner_right") + self.control("brow_inner_left")) / 2
        parts |= {9: 0.45 * both, 151: 0.3 * both, 8: 0.2 * both}
        return parts

    def _neck(self) -> F64:
        """Fixed points below the jaw: the neck does not open."""
        frame = self.frame
        centre = frame.points[topology.CHIN]
        below = []
        for i in (58, 172, 136, 150, 149, 152, 378, 379, 365, 397, 288):
            outwards = 0.25 * (frame.points[i] - centre)
            place = frame.points[i] + outwards + 0.36 * frame.face_height * frame.y_axis
            below.append(np.clip(place, 8.0, CROP - 9.0))
        return np.array(below)


def _lip_basis(u: F64, roundness: float) -> F64:
    """How the five lip controls shape one contour, (p, 5).

    A mix of an arch that is elliptical towards the corners (sines of the ellipse's angle) and a smooth spline across the mouth.

    Args:
        u: Positions of the contour's 11 points, half mouth widths.
        roundness: Share of the ellipse; the rest is the spline.
    """
    reach = np.where(u < 0, max(-u[0], 1e-3), max(u[-1], 1e-3))
    angle = np.arccos(np.clip(-u / reach, -1.0, 1.0))
    knots = [0, 3, 5, 7, 10]

    def shapes(a: F64) -> F64:
        return np.stack([np.ones_like(a), np.cos(a), np.sin(a), np.sin(2 * a), np.sin(3 * a)], -1)

    at = angle[knots]
    if np.diff(at).min() < LEAST_KNOT_ANGLE:  # landmarks in disorder: any even spacing is better
        at = np.array([0.0, 1.2, np.pi / 2, np.pi - 1.2, np.pi])
    ellipse = shapes(angle) @ np.linalg.inv(shapes(at))
    order = np.maximum.accumulate(u + np.arange(len(u)) * 1e-6)
    spline = np.asarray(PchipInterpolator(order[knots], np.eye(5))(order))
    result: F64 = roundness * ellipse + (1.0 - roundness) * spline
    return result


def _bell(u: F64) -> F64:
    """1 in the middle of the mouth, 0 at the corners."""
    result: F64 = np.clip(1.0 - u**2, 0.0, 1.0) ** 0.7
    return result
