"""Is it really a face, and how is it turned? The mesh network draws a human face onto cats and coffee cups too.

Three independent signs, chosen on 43 views of about 17 people (photos, paintings, film stills; faces of 40 to 570 px) and 29
false detections (a cat, cheetahs, a lion, a tree man, cups, buildings):

* geometry: eyes above nose above mouth above chin, sizes in human proportion;
* the mesh network's confidence stays high when the region is shifted, scaled and turned a little. Lowest of seven looks, and of
  seven more at the mirror image: people 0.998 and above (dark, blurred, small, grey, half in shade; but 0.74 for one of 56
  such pictures, a small face under strong noise). 840 random crops and shapes of animals and toys were searched by looks at the
  picture alone, which gave a cheetah 0.96 and a gorilla 0.59; the 23 doubtful ones were kept and judged both ways, and came to
  0.36 and below, but for a rag doll's painted face (0.93);
* the landmarks stay where they were: people wander by 0.007 to 0.032 of the face size, others by 0.017 to 0.128.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from engines.face.mesh import ROI_SCALE, FaceLandmarks, FaceMesh, Roi
from kernels.arrays import F32, F64, U8

MIN_STEADY_SCORE: Final = 0.98
MAX_WANDER: Final = 0.035
_VIEWS: Final = ((0.85, 0.0, 0.0, 0.0), (1.2, 0.0, 0.0, 0.0), (1.0, 0.17, 0.0, 0.0)) + (
    (1.0, -0.17, 0.0, 0.0),
    (1.0, 0.0, 0.06, 0.0),
    (1.0, 0.0, 0.0, 0.06),
)
"""(factor on the side, added angle in radians, shift right, shift down in units of the face) of the looks around."""

FOREHEAD, CHIN, NOSE_TIP = 10, 152, 1
MOUTH_CORNERS: Final = (61, 291)
INNER_LIPS: Final = (13, 14)
EYE_CORNERS: Final = ((33, 133), (362, 263))
"""(outer, inner) of the right eye, (inner, outer) of the left: left to right on screen."""
FACE_SIDES: Final = (234, 454)
NEUTRAL_PITCH_DEG: Final = 10.0
"""The mesh sees a level face as looking down by about this much (measured: 3 to 15 degrees on level portraits)."""


@dataclass(frozen=True)
class FacePose:
    """How the head is turned, in degrees.

    Attributes:
        yaw: Above 0 when the subject's left side is further away.
        pitch: Above 0 looks down, about 0 for a level face.
        roll: Above 0 is clockwise on screen.
    """

    yaw: float
    pitch: float
    roll: float


@dataclass(frozen=True)
class FaceCheck:
    """Result of looking at a face several times.

    Attributes:
        steady_score: Lowest mesh confidence of all looks, 0..1.
        wander: Mean over the looks of the RMS distance of landmarks from their first place, in units of the face size.
        shape_faults: What is wrong with the geometry, empty for a face.
        points: float32 (468, 3), image pixels: mean over all looks, steadier than any single one.
    """

    steady_score: float
    wander: float
    shape_faults: tuple[str, ...]
    points: F32

    @property
    def is_face(self) -> bool:
        """True when all three signs agree."""
        return self.is_steady and not self.shape_faults

    @property
    def is_steady(self) -> bool:
        """True when the network is sure of it from everywhere; still true for a face in profile."""
        return self.steady_score >= MIN_STEADY_SCORE and self.wander <= MAX_WANDER


def check_face(mesh: FaceMesh, rgb: U8, landmarks: FaceLandmarks) -> FaceCheck:
    """Look at a found face from six slightly different regions.

    Args:
        mesh: The networks.
        rgb: uint8 (H, W, 3), RGB: the picture the landmarks were found in.
        landmarks: The face.
    """
    base = Roi.from_points(landmarks.points)
    size = base.side / ROI_SCALE
    scores, distances, looks = [landmarks.mesh_score], [], [landmarks.points]
    for factor, angle, right, down in _VIEWS:
        centre = (base.centre[0] + right * size, base.centre[1] + down * size)
        look = mesh.refine(rgb, Roi(centre, base.side * factor, base.angle + angle), landmarks.detector_score)
        offset = look.points[:, :2] - landmarks.points[:, :2]
        scores.append(look.mesh_score)
        looks.append(look.points)
        distances.append(float(np.sqrt((offset**2).sum(axis=1).mean())) / size)
    points: F32 = np.mean(looks, axis=0, dtype=np.float32)
    return FaceCheck(min(scores), float(np.mean(distances)), tuple(shape_faults(points)), points)


def shape_faults(points: F32) -> list[str]:
    """Geometry that no human face has, in words; empty for a plausible face.

    Args:
        points: float32 (468, 2 or 3), x right, y down, any scale and roll. Tolerant: open mouths, closed eyes, small
            turns of the head and caricatures pass.
    """
    flat = points[:, :2].astype(np.float64)
    if not np.isfinite(flat).all():
        return ["landmarks are not finite"]
    eyes = [flat[list(corners)].mean(axis=0) for corners in EYE_CORNERS]
    across = eyes[1] - eyes[0]
    distance = float(np.hypot(*across))
    height = float(np.hypot(*(flat[CHIN] - flat[FOREHEAD])))
    if distance < 1e-6 or height < 1e-6:
        return ["landmarks collapse into a point"]
    x_axis = across / distance
    y_axis = np.array([-x_axis[1], x_axis[0]])

    def down(point: F64) -> float:
        return float((point - eyes[0]) @ y_axis) / distance

    mouth = flat[list(MOUTH_CORNERS)].mean(axis=0)
    rows = [down(flat[FOREHEAD]), 0.0, down(flat[NOSE_TIP]), down(mouth), down(flat[CHIN])]
    faults = []
    if any(below - above < 0.08 for above, below in zip(rows, rows[1:], strict=False)):
        faults.append("forehead, eyes, nose, mouth and chin are not in that order")
    mouth_width = float(np.hypot(*(flat[MOUTH_CORNERS[1]] - flat[MOUTH_CORNERS[0]]))) / distance
    if not 0.3 <= mouth_width <= 1.6:
        faults.append(f"the mouth is {mouth_width:.2f} eye distances wide")
    if not 1.2 <= height / distance <= 6.0:
        faults.append(f"the face is {height / distance:.2f} eye distances high")
    widths = [float(np.hypot(*(flat[b] - flat[a]))) / distance for a, b in EYE_CORNERS]
    if min(widths) < 0.1 or max(widths) / max(min(widths), 1e-6) > 5.0:
        faults.append(f"the eyes are {widths[0]:.2f} and {widths[1]:.2f} eye distances wide")
    if (flat[MOUTH_CORNERS[1]] - flat[MOUTH_CORNERS[0]]) @ x_axis <= 0:
        faults.append("the mouth is reversed against the eyes")
    return faults


def face_pose(points: F32) -> FacePose:
    """Turn of the head from landmarks float32 (468, 3), z away from the viewer; good to about 5 degrees."""
    solid = points.astype(np.float64)
    x_axis = solid[FACE_SIDES[1]] - solid[FACE_SIDES[0]]
    x_axis /= max(float(np.linalg.norm(x_axis)), 1e-9)
    y_axis = solid[CHIN] - solid[FOREHEAD]
    y_axis -= x_axis * float(x_axis @ y_axis)
    yaw = np.degrees(np.arctan2(x_axis[2], np.hypot(x_axis[0], x_axis[1])))
    pitch = np.degrees(np.arctan2(y_axis[2], np.hypot(y_axis[0], y_axis[1])))
    roll = np.degrees(np.arctan2(x_axis[1], x_axis[0]))
    return FacePose(float(yaw), float(pitch) - NEUTRAL_PITCH_DEG, float(roll))


def mouth_aperture(points: F32) -> float:
    """Inner-lip gap over mouth width, (468, 2 or 3) -> 0 when closed, about 0.7 wide open."""
    gap = np.linalg.norm(points[INNER_LIPS[1], :2] - points[INNER_LIPS[0], :2])
    width = np.linalg.norm(points[MOUTH_CORNERS[1], :2] - points[MOUTH_CORNERS[0], :2])
    return float(gap / max(float(width), 1e-6))


def eye_openness(points: F32) -> float:
    """Lid gap over eye width, mean of both eyes, (468, 2 or 3) -> below 0.12 shut, 0.2 to 0.5 open."""
    gaps = [float(np.linalg.norm(points[up, :2] - points[low, :2])) for up, low in ((159, 145), (386, 374))]
    widths = [float(np.linalg.norm(points[b, :2] - points[a, :2])) for a, b in EYE_CORNERS]
    return float(np.mean([gap / max(width, 1e-6) for gap, width in zip(gaps, widths, strict=True)]))
