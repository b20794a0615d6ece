"""A picture judged together with its mirror image, so that the same is said of both.

Neither network is symmetric: one finds the left half of a face and not the right one, the other sees a turn to one side as a few
degrees more than the same turn to the other. Every judgement is therefore made twice and joined: means of measures, the worse of
doubts. Landmarks stay those of the picture itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from engines.face.detector import MIN_SCORE, FaceDetection, overlap
from engines.face.mesh import FaceMesh, Roi
from engines.face.plausibility import FaceCheck, FacePose, check_face, eye_openness, face_pose, mouth_aperture
from kernels.arrays import F32, U8

MAX_LOOKED_AT: Final = 12
_SAME_FACE_IOU: Final = 0.3


@dataclass(frozen=True)
class FaceJudgement:
    """Holds what was found of a face in a picture and in its mirror image.

    Attributes:
        score: Detector confidence, mean of both ways; a way that did not find it counts as the lowest that is reported.
        check: What was found in the picture itself.
        mirrored: What was found in the mirror image, in the mirror image's pixels.
    """

    score: float
    check: FaceCheck
    mirrored: FaceCheck

    @property
    def is_steady(self) -> bool:
        """True when the network is sure of it both ways; still true for a face in profile."""
        return self.check.is_steady and self.mirrored.is_steady

    @property
    def shape_faults(self) -> tuple[str, ...]:
        """What is wrong with the geometry in either way, each fault once."""
        return tuple(dict.fromkeys(self.check.shape_faults + self.mirrored.shape_faults))

    @property
    def size_px(self) -> float:
        """Longer side of the box around the landmarks."""
        return float(np.mean([np.ptp(points[:, :2], axis=0).max() for points in self._points]))

    @property
    def pose(self) -> FacePose:
        """Turn of the head in the picture."""
        here, there = (face_pose(points) for points in self._points)
        return FacePose((here.yaw - there.yaw) / 2, (here.pitch + there.pitch) / 2, (here.roll - there.roll) / 2)

    @property
    def eye_openness(self) -> float:
        """Lid gap over eye width."""
        return float(np.mean([eye_openness(points) for points in self._points]))

    @property
    def mouth_aperture(self) -> float:
        """Inner-lip gap over mouth width."""
        return float(np.mean([mouth_aperture(points) for points in self._points]))

    def outside_share(self, width: int, height: int) -> float:
        """Share of landmarks outside a picture of this size, mean of both ways."""
        return float(np.mean([_outside(points, width, height) for points in self._points]))

    @property
    def _points(self) -> tuple[F32, F32]:
        return self.check.points, self.mirrored.points


def judge_faces(mesh: FaceMesh, rgb: U8, thorough: bool = True) -> tuple[list[FaceJudgement], float]:
    """Find and judge the largest faces.

    Args:
        mesh: The networks.
        rgb: uint8 (H, W, 3), RGB.
        thorough: As in `FaceDetector.detect`.

    Returns:
        Judgements, largest detection first, and the best detector score of all detections (0 without any).
    """
    mirror = np.ascontiguousarray(rgb[:, ::-1])
    pairs = _pair(mesh.detect(rgb, thorough=thorough), mesh.detect(mirror, thorough=thorough), rgb.shape[1])
    pairs.sort(key=lambda pair: -max(pair[0].side, pair[1].side))
    judged = [
        FaceJudgement((here.score + there.score) / 2, _check(mesh, rgb, here), _check(mesh, mirror, there))
        for here, there in pairs[:MAX_LOOKED_AT]
    ]
    return judged, max((max(here.score, there.score) for here, there in pairs), default=0.0)


def best_score(mesh: FaceMesh, rgb: U8) -> float:
    """Best detector score of the picture, mean of both ways, 0..1; 0 without any detection."""
    ways = (np.ascontiguousarray(rgb), np.ascontiguousarray(rgb[:, ::-1]))
    return float(np.mean([max((d.score for d in mesh.detect(way, thorough=False)), default=0.0) for way in ways]))


def _check(mesh: FaceMesh, rgb: U8, detection: FaceDetection) -> FaceCheck:
    """First and second pass of the mesh, then steadiness."""
    first = mesh.refine(rgb, Roi.from_detection(detection), detection.score)
    second = mesh.refine(rgb, Roi.from_points(first.points), detection.score)
    return check_face(mesh, rgb, second)


def _pair(
    here: list[FaceDetection], there: list[FaceDetection], width: int
) -> list[tuple[FaceDetection, FaceDetection]]:
    """Detections of the picture and of its mirror image that are one face; a missing one is taken from the other way."""
    close = [
        (overlap(a.box, _mirrored(b, width).box), a.score + b.score, i, k)
        for i, a in enumerate(here)
        for k, b in enumerate(there)
    ]
    pairs, used_here, used_there = [], set(), set()
    for iou, _, i, k in sorted(close, key=lambda item: (-item[0], -item[1])):
        if iou >= _SAME_FACE_IOU and i not in used_here and k not in used_there:
            pairs.append((here[i], there[k]))
            used_here.add(i)
            used_there.add(k)
    pairs += [(a, replace(_mirrored(a, width), score=MIN_SCORE)) for i, a in enumerate(here) if i not in used_here]
    pairs += [(replace(_mirrored(b, width), score=MIN_SCORE), b) for k, b in enumerate(there) if k not in used_there]
    return pairs


def _mirrored(detection: FaceDetection, width: int) -> FaceDetection:
    """The same face in the mirror image of a picture of this width."""
    x0, y0, x1, y1 = detection.box
    keypoints = detection.keypoints[[1, 0, 2, 3, 5, 4]].copy()
    keypoints[:, 0] = width - 1 - keypoints[:, 0]
    return FaceDetection(detection.score, np.array([width - 1 - x1, y0, width - 1 - x0, y1], np.float32), keypoints)


def _outside(points: F32, width: int, height: int) -> float:
    out = (points[:, :2] < -0.5).any(axis=1) | (points[:, :2] > (width - 0.5, height - 0.5)).any(axis=1)
    return float(out.mean())
