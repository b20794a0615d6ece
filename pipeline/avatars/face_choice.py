"""The one face of a picture that becomes the presenter, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from engines.face.mesh import FaceDetection, FaceMesh, Roi
from engines.face.plausibility import FaceCheck, FacePose, check_face, eye_openness, face_pose, shape_faults
from kernels.arrays import F32, U8
from pipeline.avatars.portrait_errors import PortraitError

MIN_FACE_PX: Final = 64
SECOND_FACE_RATIO: Final = 0.4
"""A second face smaller than this share of the first (a poster, a passer-by) is tolerated."""
MAX_YAW_DEG: Final = 28.0
MAX_PITCH_DEG: Final = 28.0
MAX_ROLL_DEG: Final = 30.0
MAX_OUTSIDE_SHARE: Final = 0.03
"""Share of landmarks that may lie outside the picture."""
MIN_EYE_OPENNESS: Final = 0.08
FACE_LIKE_SCORE: Final = 0.6
"""Detector score from which a refused detection is called "not a face" rather than "no face"."""
DOUBTFUL_SCORE: Final = 0.8
"""Below this detector score a face is also looked for upside down: the mesh network draws upright faces onto inverted ones
(upright faces score 0.83 and more, inverted ones up to 0.71)."""
_MAX_LOOKED_AT: Final = 12
_ONE_FACE: Final = f"one face, at least {MIN_FACE_PX} px high, seen from the front"


@dataclass(frozen=True)
class ChosenFace:
    """The presenter's face.

    Attributes:
        landmarks: float32 (468, 3), picture pixels, z away from the viewer.
        pose: How the head is turned.
        size_px: Longer side of the box around the landmarks.
    """

    landmarks: F32
    pose: FacePose
    size_px: float


@dataclass(frozen=True)
class _Candidate:
    detection: FaceDetection
    check: FaceCheck

    @property
    def size(self) -> float:
        return float(np.ptp(self.check.points[:, :2], axis=0).max())


def choose_face(rgb: U8, mesh: FaceMesh) -> ChosenFace:
    """Find the one presentable face.

    Args:
        rgb: uint8 (H, W, 3), RGB, upright.
        mesh: The networks.

    Raises:
        PortraitError: `portrait_no_face`, `portrait_not_a_face`, `portrait_two_faces`, `portrait_too_small`,
            `portrait_turned_away`, `portrait_cut_off` or `portrait_eyes_closed`.
    """
    detections = mesh.detect(rgb)
    candidates = _look_at(rgb, mesh, detections)
    steady = [candidate for candidate in candidates if candidate.check.is_steady]
    if not steady:
        raise _no_face(rgb, mesh, detections)
    main = max(steady, key=lambda candidate: candidate.size)
    doubtful = main.detection.score < DOUBTFUL_SCORE and abs(face_pose(main.check.points).roll) <= MAX_ROLL_DEG
    if doubtful and _best_score(mesh, np.rot90(rgb, 2)) > main.detection.score:
        raise _rotated("upside down")
    others = [c for c in steady if c is not main and c.size >= SECOND_FACE_RATIO * main.size]
    if others:
        got = f"{1 + len(others)} faces"
        raise PortraitError(
            "portrait_two_faces", got, _ONE_FACE, f"the picture shows {got} of similar size; crop it to one person"
        )
    _check_face(main, rgb.shape[1], rgb.shape[0])
    return ChosenFace(main.check.points, face_pose(main.check.points), main.size)


def _look_at(rgb: U8, mesh: FaceMesh, detections: list[FaceDetection]) -> list[_Candidate]:
    """The largest detections with their landmarks, second pass, and steadiness."""
    if not detections:
        return []
    largest = sorted(detections, key=lambda d: -d.side)[:_MAX_LOOKED_AT]
    candidates = []
    for detection in largest:
        first = mesh.refine(rgb, Roi.from_detection(detection), detection.score)
        second = mesh.refine(rgb, Roi.from_points(first.points), detection.score)
        candidates.append(_Candidate(detection, check_face(mesh, rgb, second)))
    return candidates


def _check_face(face: _Candidate, width: int, height: int) -> None:
    """Refuse a real face that cannot be animated well."""
    points = face.check.points
    if face.size < MIN_FACE_PX:
        got = f"a face of {face.size:.0f} px"
        detail = f"the face is only {face.size:.0f} px high; send a larger picture or crop closer"
        raise PortraitError("portrait_too_small", got, _ONE_FACE, detail)
    pose = face_pose(points)
    if abs(pose.yaw) > MAX_YAW_DEG or abs(pose.pitch) > MAX_PITCH_DEG:
        got = f"a head turned by {pose.yaw:.0f} and nodded by {pose.pitch:.0f} degrees"
        detail = f"{got} cannot be animated; send a picture that looks into the camera"
        raise PortraitError("portrait_turned_away", got, _ONE_FACE, detail)
    if abs(pose.roll) > MAX_ROLL_DEG:
        got = f"a head tilted by {pose.roll:.0f} degrees"
        raise PortraitError("portrait_turned_away", got, _ONE_FACE, f"{got}; rotate the picture upright")
    faults = shape_faults(points)
    if faults:
        raise PortraitError("portrait_not_a_face", "; ".join(faults), _ONE_FACE, f"this is no human face: {faults[0]}")
    outside = (points[:, :2] < -0.5).any(axis=1) | (points[:, :2] > (width - 0.5, height - 0.5)).any(axis=1)
    if outside.mean() > MAX_OUTSIDE_SHARE:
        got = f"a face of which {outside.mean():.0%} lies outside the picture"
        raise PortraitError("portrait_cut_off", got, _ONE_FACE, "the face is cut off by the picture's edge")
    if eye_openness(points) < MIN_EYE_OPENNESS:
        detail = "the eyes are closed; send a picture with open eyes"
        raise PortraitError("portrait_eyes_closed", "closed eyes", _ONE_FACE, detail)


def _no_face(rgb: U8, mesh: FaceMesh, detections: list[FaceDetection]) -> PortraitError:
    """Say as exactly as possible why no face was accepted; a picture lying on its side is recognised."""
    for turns, words in ((1, "a quarter turn"), (3, "a quarter turn"), (2, "upside down")):
        turned = np.ascontiguousarray(np.rot90(rgb, turns))
        found = mesh.detect(turned, thorough=False)
        if any(_is_upright_face(candidate.check) for candidate in _look_at(turned, mesh, found)):
            return _rotated(words)
    best = max((detection.score for detection in detections), default=0.0)
    if best >= FACE_LIKE_SCORE:
        detail = "something looks a little like a face, but it is not a human face seen from the front"
        return PortraitError("portrait_not_a_face", f"detector score {best:.2f}", _ONE_FACE, detail)
    return PortraitError("portrait_no_face", "no face", _ONE_FACE, "no face was found in the picture")


def _is_upright_face(check: FaceCheck) -> bool:
    return check.is_face and abs(face_pose(check.points).roll) <= MAX_ROLL_DEG


def _rotated(words: str) -> PortraitError:
    detail = f"the picture seems to be rotated ({words}); send it upright"
    return PortraitError("portrait_turned_away", f"a rotated picture ({words})", _ONE_FACE, detail)


def _best_score(mesh: FaceMesh, rgb: U8) -> float:
    found = mesh.detect(np.ascontiguousarray(rgb), thorough=False)
    return max((detection.score for detection in found), default=0.0)
