"""Another face of the same drawing: smooth displacements of the board, and of the landmarks with it."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from kernels.arrays import F32, F64
from pipeline.presenter.geometry import BOARD_H, BOARD_W, FACE_TOP, FACE_UNIT, FACE_X


@dataclass(frozen=True)
class Shape:
    """How a face differs from the drawing; 0 is the drawing, 0.1 is 10 % more.

    Attributes:
        jaw: Width at the jaw's corners.
        cheeks: Width at the cheekbones.
        chin: Width of the chin.
        length: Length of the lower face.
        nose: Width of the nose.
        nose_length: Length of the nose.
        eyes: Size of the eyes.
        tilt: How far the outer corners of the eyes rise, in shares of the eye's length.
        apart: Distance of the eyes, in face units.
        brows: How far the brows come down, in face units.
        lips: Height of the lips.
        mouth: Width of the mouth.
        neck: Width of the neck.
        shoulders: Width of the shoulders.
    """

    jaw: float = 0.0
    cheeks: float = 0.0
    chin: float = 0.0
    length: float = 0.0
    nose: float = 0.0
    nose_length: float = 0.0
    eyes: float = 0.0
    tilt: float = 0.0
    apart: float = 0.0
    brows: float = 0.0
    lips: float = 0.0
    mouth: float = 0.0
    neck: float = 0.0
    shoulders: float = 0.0

    def displacement(self, u: F64, v: F64) -> tuple[F64, F64]:
        """Where points of the drawing go: differences of face coordinates."""
        a, side = np.abs(u), np.sign(u)

        def hill(cu: float, cv: float, su: float, sv: float) -> F64:
            return np.asarray(np.exp(-0.5 * (((a - cu) / su) ** 2 + ((v - cv) / sv) ** 2)))

        def belt(cv: float, sv: float) -> F64:
            return np.asarray(np.exp(-0.5 * ((v - cv) / sv) ** 2) / (1.0 + (a / 0.55) ** 6))

        eye = hill(0.178, 0.335, 0.10, 0.065)
        nose, mouth = hill(0.0, 0.565, 0.085, 0.055), hill(0.0, 0.715, 0.15, 0.06)
        du = u * (
            self.jaw * belt(0.76, 0.13)
            + self.cheeks * belt(0.47, 0.14)
            + self.chin * belt(0.97, 0.09)
            + self.nose * nose
            + self.mouth * mouth
            + self.neck * belt(1.06, 0.10)
        )
        du = du + self.shoulders * u * np.exp(-0.5 * ((np.minimum(v, 1.9) - 1.9) / 0.28) ** 2)
        du = du + side * (self.eyes * (a - 0.178) * eye + self.apart * hill(0.178, 0.31, 0.11, 0.10))
        below = np.clip((v - 0.60) / 0.40, 0.0, 1.0)
        dv = self.length * below**1.5 * (3 - 2 * below) * 0.4 * np.exp(-0.5 * (np.maximum(v - 1.0, 0.0) / 0.35) ** 2)
        dv = dv + self.eyes * (v - 0.335) * eye - self.tilt * (a - 0.13) * hill(0.20, 0.335, 0.09, 0.06)
        dv = dv + self.brows * hill(0.18, 0.225, 0.13, 0.045) + self.lips * (v - 0.712) * mouth
        dv = dv + self.nose_length * 0.10 * hill(0.0, 0.575, 0.09, 0.06)
        return du, dv

    def points(self, points: F32) -> F32:
        """Landmarks of the board (n, 3) where the face has them."""
        u, v = (
            (points[:, 0].astype(np.float64) - FACE_X) / FACE_UNIT,
            (points[:, 1].astype(np.float64) - FACE_TOP) / FACE_UNIT,
        )
        du, dv = self.displacement(u, v)
        moved = points.copy()
        moved[:, 0] += (du * FACE_UNIT).astype(np.float32)
        moved[:, 1] += (dv * FACE_UNIT).astype(np.float32)
        return moved

    def apply(self, picture: F32) -> F32:
        """The board (1920, 1080, channels), displaced: the inverse is found by fixed-point iteration."""
        step = 4
        y, x = np.mgrid[0 : BOARD_H + step : step, 0 : BOARD_W + step : step].astype(np.float64)
        u1, v1 = (x - FACE_X) / FACE_UNIT, (y - FACE_TOP) / FACE_UNIT
        u, v = u1, v1
        for _ in range(12):
            du, dv = self.displacement(u, v)
            u, v = u1 - du, v1 - dv
        back = np.stack([u * FACE_UNIT + FACE_X, v * FACE_UNIT + FACE_TOP], axis=-1).astype(np.float32)
        grid_y, grid_x = np.mgrid[0:BOARD_H, 0:BOARD_W].astype(np.float32) / np.float32(step)
        fine = cv2.remap(back, grid_x, grid_y, cv2.INTER_LINEAR)
        return np.asarray(
            cv2.remap(picture, fine[..., 0], fine[..., 1], cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE), np.float32
        )
