"""Where a face lies in a picture or a template video, for the crop and for the eyes.

Default: our own 468-point mesh gives both. Where the operator supplies `landmark203.onnx`, its points give the crop, as in the
reference; they begin from the mesh, or from `2d106det.onnx` where that is supplied too.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import cv2
import numpy as np

from engines.ditto.checkpoints import LANDMARK_106_FILE, LANDMARK_203_FILE
from engines.ditto.landmarks import ROI_SCALE_106, SIDE_106, SIDE_203, Landmark106, Landmark203
from engines.face.mesh import FaceMesh, Roi
from kernels.arrays import F32, U8
from pipeline.avatars.face_choice import choose_face
from pipeline.avatars.portrait_errors import PortraitError
from pipeline.ditto.crop_geometry import FaceSquare, crop_matrices, face_square, transform_points

_SCALE_203: Final = 1.5
_SHIFT_203: Final = -0.1
_MIN_TRACKED_SCORE: Final = 0.5


@dataclass(frozen=True)
class FoundFace:
    """A face in one picture.

    Attributes:
        crop_points: float32 (468, 2), (106, 2) or (203, 2), picture pixels: what the crop is measured on.
        mesh: float32 (468, 3), picture pixels.
    """

    crop_points: F32
    mesh: F32


class FaceLandmarker:
    """Finds the one face of a picture, and follows it through a video.

    Args:
        mesh: Our networks.
        landmark203: The reference's finer model, where supplied.
        landmark106: What it begins from, where supplied.
    """

    def __init__(
        self, mesh: FaceMesh, landmark203: Landmark203 | None = None, landmark106: Landmark106 | None = None
    ) -> None:
        self._mesh = mesh
        self._landmark203 = landmark203
        self._landmark106 = landmark106

    def first(self, rgb: U8) -> FoundFace:
        """The presenter's face.

        Raises:
            PortraitError: There is none, or it cannot be used; its `code` says why.
        """
        mesh = choose_face(rgb, self._mesh).landmarks
        return FoundFace(self._crop_points(rgb, mesh, None), mesh)

    def following(self, rgb: U8, previous: FoundFace) -> FoundFace:
        """The same face in the next frame of a video.

        Raises:
            PortraitError: It is lost.
        """
        tracked = self._mesh.refine(rgb, Roi.from_points(previous.mesh), 1.0)
        if tracked.mesh_score < _MIN_TRACKED_SCORE:
            detail = "the face is lost in the middle of the video; cut it to a stretch in which the face stays in view"
            raise PortraitError("portrait_no_face", "a frame without the face", "the face in every frame", detail)
        return FoundFace(self._crop_points(rgb, tracked.points, previous.crop_points), tracked.points)

    def _crop_points(self, rgb: U8, mesh: F32, previous: F32 | None) -> F32:
        if previous is not None and self._landmark203 is not None:
            return self._find_203(rgb, previous, self._landmark203)
        start: F32 = mesh[:, :2]
        if self._landmark106 is not None:
            start = self._find_106(rgb, start, self._landmark106)
        return start if self._landmark203 is None else self._find_203(rgb, start, self._landmark203)

    @staticmethod
    def _find_203(rgb: U8, points: F32, model: Landmark203) -> F32:
        matrices = crop_matrices(face_square(points, scale=_SCALE_203, shift_down=_SHIFT_203), SIDE_203)
        crop = cv2.warpAffine(rgb, matrices.to_crop[:2], (SIDE_203, SIDE_203), flags=cv2.INTER_LINEAR)
        return transform_points(model.find(crop.astype(np.uint8, copy=False)), matrices.to_image)

    @staticmethod
    def _find_106(rgb: U8, points: F32, model: Landmark106) -> F32:
        low, high = points.min(axis=0), points.max(axis=0)
        square = FaceSquare((low + high) / 2.0, float((high - low).max()) * ROI_SCALE_106, 0.0)
        matrices = crop_matrices(square, SIDE_106, turn=False)
        crop = cv2.warpAffine(rgb, matrices.to_crop[:2], (SIDE_106, SIDE_106), flags=cv2.INTER_LINEAR)
        return transform_points(model.find(crop.astype(np.uint8, copy=False)), matrices.to_image)


def load_landmarker(mesh: FaceMesh, folder: Path, threads: int = 1) -> FaceLandmarker:
    """The landmarker with whatever models the checkpoint folder holds.

    Raises:
        WeightsFileError: A model is there but of no use.
    """
    finer, coarse = folder / LANDMARK_203_FILE, folder / LANDMARK_106_FILE
    return FaceLandmarker(
        mesh,
        Landmark203(finer, threads) if finer.is_file() else None,
        Landmark106(coarse, threads) if coarse.is_file() else None,
    )
