"""468 face landmarks with the public face mesh model (192 x 192 input, Apache-2.0), on pictures and on video.

A region of interest (a rotated square, 1.5 times the face) is resampled to the network's input; it comes from a
detection, or from landmarks that are already known (the second pass on a picture, the previous frame in a video).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.face.detector import MIN_SCORE, FaceDetection, FaceDetector, check_rgb
from engines.face.litert_model import DEFAULT_THREADS, LiteRtModel
from kernels.arrays import F32, F64, U8
from kernels.errors import ShapeError

__all__ = ["FaceDetection", "FaceLandmarks", "FaceMesh", "FaceTracker"]


MESH_FILE: Final = "face_landmark.tflite"
INPUT_SIDE: Final = 192
LANDMARKS: Final = 468
ROI_SCALE: Final = 1.5
MIN_MESH_SCORE: Final = 0.5
_EYE_CORNER_RIGHT, _EYE_CORNER_LEFT = 33, 263
_KEY_EYE_RIGHT, _KEY_EYE_LEFT = 0, 1


@dataclass(frozen=True)
class FaceLandmarks:
    """Landmarks of one face.

    Attributes:
        points: float32 (468, 3) in image pixels, pixel centres at integers: x right, y down, z away from the viewer
            (0 near the middle of the head, negative towards the viewer, same scale as x).
        detector_score: Confidence of the detection this began with, 0..1.
        mesh_score: The mesh network's own confidence that its input shows a face, 0..1.
    """

    points: F32
    detector_score: float
    mesh_score: float

    @property
    def box(self) -> F32:
        """float32 (4,): x0, y0, x1, y1 around all points, image pixels."""
        return np.concatenate([self.points[:, :2].min(axis=0), self.points[:, :2].max(axis=0)])


@dataclass(frozen=True)
class Roi:
    """A rotated square in the image: `centre` (x, y) and `side` in pixels, `angle` in radians, clockwise on screen."""

    centre: tuple[float, float]
    side: float
    angle: float

    @classmethod
    def from_detection(cls, detection: FaceDetection) -> Roi:
        """The square around a detected box, turned so that the eyes are level."""
        box, keys = detection.box, detection.keypoints
        centre = (float(box[0] + box[2]) / 2, float(box[1] + box[3]) / 2)
        return cls(centre, detection.side * ROI_SCALE, _angle(keys[_KEY_EYE_RIGHT], keys[_KEY_EYE_LEFT]))

    @classmethod
    def from_points(cls, points: F32) -> Roi:
        """The square around landmarks (468, 2 or 3), turned so that the eyes are level."""
        angle = _angle(points[_EYE_CORNER_RIGHT], points[_EYE_CORNER_LEFT])
        cos, sin = np.cos(angle), np.sin(angle)
        level = points[:, :2] @ np.array([[cos, -sin], [sin, cos]], dtype=np.float32)
        low, high = level.min(axis=0), level.max(axis=0)
        x, y = (low + high) / 2
        centre = (float(cos * x - sin * y), float(sin * x + cos * y))
        return cls(centre, float((high - low).max()) * ROI_SCALE, angle)

    def to_image(self, size: int) -> F64:
        """float64 (2, 3): affine from pixels of a (size, size) crop to image pixels, pixel centres at integers."""
        scale = self.side / size
        cos, sin = np.cos(self.angle) * scale, np.sin(self.angle) * scale
        middle = (size - 1) / 2
        x, y = self.centre
        return np.array([[cos, -sin, x - middle * (cos - sin)], [sin, cos, y - middle * (sin + cos)]], dtype=np.float64)


class FaceMesh:
    """Detector and landmark network in one. Not thread-safe: one instance per thread.

    Args:
        weights_dir: Folder with the two tflite files (`engines.weights.home.face_weights_dir`).
        threads: CPU threads of one call.

    Raises:
        ModelFileError: A model is missing or unreadable.
    """

    def __init__(self, weights_dir: Path, threads: int = DEFAULT_THREADS) -> None:
        self._detector = FaceDetector(weights_dir, threads)
        self._model = LiteRtModel(weights_dir / MESH_FILE, threads)

    def detect(self, rgb: U8, min_score: float = MIN_SCORE, thorough: bool = True) -> list[FaceDetection]:
        """All faces of a uint8 (H, W, 3) RGB picture, best score first; see `FaceDetector.detect`."""
        return self._detector.detect(rgb, min_score, thorough)

    def landmarks(
        self, rgb: U8, detection: FaceDetection | None = None, previous: FaceLandmarks | None = None
    ) -> FaceLandmarks | None:
        """Landmarks of one face.

        Args:
            rgb: uint8 (H, W, 3), RGB.
            detection: The face to look at.
            previous: Landmarks of the same face in the previous frame of a video. When the mesh still finds a face
                there no detection is made; otherwise it falls back to `detection`, or to a fresh detection.

        Returns:
            None when there is no face: nothing detected, or the mesh network says that this is none.

        Raises:
            ShapeError: `rgb` is not an RGB picture.
        """
        check_rgb(rgb)
        if previous is not None:
            tracked = self.refine(rgb, Roi.from_points(previous.points), previous.detector_score)
            if tracked.mesh_score >= MIN_MESH_SCORE:
                return tracked
        if detection is None:
            found = self.detect(rgb, thorough=False)
            if not found:
                return None
            detection = max(found, key=lambda face: face.score * face.side)
        first = self.refine(rgb, Roi.from_detection(detection), detection.score)
        second = self.refine(rgb, Roi.from_points(first.points), detection.score)
        return second if second.mesh_score >= MIN_MESH_SCORE else None

    def refine(self, rgb: U8, roi: Roi, detector_score: float) -> FaceLandmarks:
        """Run the mesh network over a region, whatever its confidence.

        Args:
            rgb: uint8 (H, W, 3), RGB.
            roi: Where to look.
            detector_score: Passed through to the result.
        """
        if not (np.isfinite(roi.side) and roi.side > 0):
            raise ShapeError("roi", f"side {roi.side}", "a positive, finite side")
        pixels = _resample(rgb, roi)
        outputs = self._model.run((pixels.astype(np.float32) / 255.0)[None])
        raw, logit = (output.ravel() for output in sorted(outputs, key=lambda output: -output.size))
        local = raw.reshape(LANDMARKS, 3)
        affine = roi.to_image(INPUT_SIDE)
        # the network counts pixel edges (0..192), our affine pixel centres (-0.5..191.5)
        flat = (local[:, :2] - 0.5) @ affine[:, :2].T + affine[:, 2]
        points = np.concatenate([flat, local[:, 2:] * (roi.side / INPUT_SIDE)], axis=1)
        confidence = 1.0 / (1.0 + float(np.exp(-np.clip(logit[0], -80.0, 80.0))))
        return FaceLandmarks(points.astype(np.float32), detector_score, confidence)


class FaceTracker:
    """Landmarks of one face through a video: the previous frame says where to look, detection is the fallback.

    Args:
        mesh: The networks.
    """

    def __init__(self, mesh: FaceMesh) -> None:
        self._mesh = mesh
        self._previous: FaceLandmarks | None = None

    def update(self, rgb: U8) -> FaceLandmarks | None:
        """Landmarks in the next frame, uint8 (H, W, 3) RGB; None without a face (the next frame is searched anew)."""
        self._previous = self._mesh.landmarks(rgb, previous=self._previous)
        return self._previous

    def reset(self) -> None:
        """Forget the face: call at a cut."""
        self._previous = None


def _angle(right: NDArray[np.floating], left: NDArray[np.floating]) -> float:
    return float(np.arctan2(left[1] - right[1], left[0] - right[0]))


def _resample(rgb: U8, roi: Roi) -> U8:
    """The region as uint8 (192, 192, 3), area-filtered when it shrinks, edges replicated."""
    affine = roi.to_image(INPUT_SIDE)
    shrink = int(roi.side // INPUT_SIDE)
    if shrink >= 2:
        reach = roi.side * (abs(np.cos(roi.angle)) + abs(np.sin(roi.angle))) / 2 + shrink
        height, width = rgb.shape[:2]
        x0, x1 = (int(np.clip(roi.centre[0] + sign * reach, 0, width - 1)) for sign in (-1, 1))
        y0, y1 = (int(np.clip(roi.centre[1] + sign * reach, 0, height - 1)) for sign in (-1, 1))
        part = rgb[y0 : y1 + 1, x0 : x1 + 1]
        small_w, small_h = max(1, part.shape[1] // shrink), max(1, part.shape[0] // shrink)
        rgb = cv2.resize(part, (small_w, small_h), interpolation=cv2.INTER_AREA).astype(np.uint8, copy=False)
        scale = np.array([part.shape[1] / small_w, part.shape[0] / small_h])
        affine = affine.copy()
        affine[:, 2] = (affine[:, 2] - (x0, y0) + 0.5) / scale - 0.5
        affine[:, :2] /= scale[:, None]
    crop = cv2.warpAffine(
        rgb,
        affine,
        (INPUT_SIDE, INPUT_SIDE),
        flags=cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP,
        borderMode=cv2.BORDER_REPLICATE,
    )
    return crop.astype(np.uint8, copy=False)
