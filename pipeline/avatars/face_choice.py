"""The one face of a picture that becomes the presenter, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from engines.face.both_ways import FaceJudgement, best_score, judge_faces
from engines.face.mesh import FaceMesh
from engines.face.plausibility import FacePose
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
CONTINUED_SCORE: Final = 0.8
"""Detector score from which the upper or lower part of a face, continued by its mirror image, is known (0.81 to 0.90 were seen)."""
_ONE_FACE: Final = f"one face, at least {MIN_FACE_PX} px high, seen from the front"


@dataclass(frozen=True)
class ChosenFace:
    """The presenter's face.

    Attributes:
        landmarks: float32 (468, 3), picture pixels, z away from the viewer.
        pose: How the head is turned.
        size_px: Longer side of the box around the landmarks.
        mouth_aperture: Inner-lip gap over mouth width, 0 when closed.
    """

    landmarks: F32
    pose: FacePose
    size_px: float
    mouth_aperture: float


def choose_face(rgb: U8, mesh: FaceMesh) -> ChosenFace:
    """Find the one presentable face.

    The verdict on a picture and on its mirror image is the same.

    Args:
        rgb: uint8 (H, W, 3), RGB, upright.
        mesh: The networks.

    Raises:
        PortraitError: `portrait_no_face`, `portrait_not_a_face`, `portrait_two_faces`, `portrait_too_small`,
            `portrait_turned_away`, `portrait_cut_off` or `portrait_eyes_closed`.
    """
    height, width = rgb.shape[:2]
    judged, best = judge_faces(mesh, rgb)
    steady = [face for face in judged if face.is_steady]
    if not steady:
        raise _no_face(rgb, mesh, best)
    main = max(steady, key=lambda face: face.size_px)
    others = [face for face in steady if face is not main and face.size_px >= SECOND_FACE_RATIO * main.size_px]
    upright = abs(main.pose.roll) <= MAX_ROLL_DEG
    if upright and not others and main.outside_share(width, height) > MAX_OUTSIDE_SHARE:
        raise _cut_off(main.outside_share(width, height))
    if upright and main.score < DOUBTFUL_SCORE and best_score(mesh, np.rot90(rgb, 2)) > main.score:
        raise _rotated("upside down")
    if others:
        got = f"{1 + len(others)} faces"
        raise PortraitError(
            "portrait_two_faces", got, _ONE_FACE, f"the picture shows {got} of similar size; crop it to one person"
        )
    _check_face(main)
    return ChosenFace(main.check.points, main.pose, main.size_px, main.mouth_aperture)


def _check_face(face: FaceJudgement) -> None:
    """Refuse a real face that cannot be animated well."""
    if face.size_px < MIN_FACE_PX:
        got = f"a face of {face.size_px:.0f} px"
        detail = f"the face is only {face.size_px:.0f} px high; send a larger picture or crop closer"
        raise PortraitError("portrait_too_small", got, _ONE_FACE, detail)
    pose = face.pose
    if abs(pose.yaw) > MAX_YAW_DEG or abs(pose.pitch) > MAX_PITCH_DEG:
        got = f"a head turned by {pose.yaw:.0f} and nodded by {pose.pitch:.0f} degrees"
        detail = f"{got} cannot be animated; send a picture that looks into the camera"
        raise PortraitError("portrait_turned_away", got, _ONE_FACE, detail)
    if abs(pose.roll) > MAX_ROLL_DEG:
        got = f"a head tilted by {pose.roll:.0f} degrees"
        raise PortraitError("portrait_turned_away", got, _ONE_FACE, f"{got}; rotate the picture upright")
    faults = face.shape_faults
    if faults:
        raise PortraitError("portrait_not_a_face", "; ".join(faults), _ONE_FACE, f"this is no human face: {faults[0]}")
    if face.eye_openness < MIN_EYE_OPENNESS:
        detail = "the eyes are closed; send a picture with open eyes"
        raise PortraitError("portrait_eyes_closed", "closed eyes", _ONE_FACE, detail)


def _no_face(rgb: U8, mesh: FaceMesh, best: float) -> PortraitError:
    """Say as exactly as possible why no face was accepted; a cut face and a picture lying on its side are recognised.

    Args:
        rgb: The picture.
        mesh: The networks.
        best: Best detector score in it.
    """
    if _is_part_of_a_face(rgb, mesh):
        return _cut_off(0.5)
    for turns, words in ((1, "a quarter turn"), (3, "a quarter turn"), (2, "upside down")):
        turned = np.ascontiguousarray(np.rot90(rgb, turns))
        if any(_is_upright_face(face) for face in judge_faces(mesh, turned, thorough=False)[0]):
            return _rotated(words)
    if best >= FACE_LIKE_SCORE:
        detail = "something looks a little like a face, but it is not a human face seen from the front"
        return PortraitError("portrait_not_a_face", f"detector score {best:.2f}", _ONE_FACE, detail)
    return PortraitError("portrait_no_face", "no face", _ONE_FACE, "no face was found in the picture")


def _is_part_of_a_face(rgb: U8, mesh: FaceMesh) -> bool:
    """Whether a face runs over an edge: continued by its mirror image it is found.

    Left and right halves make a whole face then. Eyes without a mouth, or a mouth without eyes, make an odd one that the mesh reads
    differently from look to look; there the detector's score decides.
    """
    for axis in (1, 0):
        length = rgb.shape[axis]
        reach = length // 2
        margins = [(0, 0), (0, 0), (0, 0)]
        margins[axis] = (reach, reach)
        for face in judge_faces(mesh, np.pad(rgb, margins, mode="reflect"), thorough=False)[0]:
            along = face.check.points[:, 1 - axis]
            inside = ((along >= reach) & (along < reach + length)).mean()
            known = face.is_steady or (axis == 0 and face.score >= CONTINUED_SCORE)
            if known and _is_upright(face) and face.size_px >= MIN_FACE_PX and 0.25 <= inside <= 0.9:
                return True
    return False


def _is_upright_face(face: FaceJudgement) -> bool:
    return face.is_steady and _is_upright(face)


def _is_upright(face: FaceJudgement) -> bool:
    return not face.shape_faults and abs(face.pose.roll) <= MAX_ROLL_DEG


def _cut_off(outside: float) -> PortraitError:
    got = f"a face of which {outside:.0%} lies outside the picture"
    return PortraitError("portrait_cut_off", got, _ONE_FACE, "the face is cut off by the picture's edge")


def _rotated(words: str) -> PortraitError:
    detail = f"the picture seems to be rotated ({words}); send it upright"
    return PortraitError("portrait_turned_away", f"a rotated picture ({words})", _ONE_FACE, detail)
