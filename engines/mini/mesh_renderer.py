"""The renderer of the `mini` family: a 2.5-D landmark mesh over one portrait, driven by the 265-d motion vector.

`prepare` solves everything that depends on the avatar only; `render` turns motion into pictures. Per frame: expression
and pose give a backward displacement lattice (`engines.mini.mesh_deform`), the eyes are drawn into the texture
(`engines.mini.eyelids`), the face is warped (`kernels.sampling.mesh_warp`), and the mouth is composed of lip layers over its
interior (`engines.mini.mouth_layers`, `mouth_interior`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass

import numpy as np
import torch

from engines.face import topology
from engines.mini.eye_patch import EyePatch, build_eye
from engines.mini.eyelids import render_eye
from engines.mini.face_frame import build_frame, build_lip_lines
from engines.mini.mesh_basis import build_deformation
from engines.mini.mesh_deform import Deformation, Pose, PosedFace, build_pose, pose_face
from engines.mini.mesh_lattice import CROP, FACE_CELL
from engines.mini.motion_limits import Motion, limit_motion
from engines.mini.mouth_compose import MouthLayers, build_mouth, compose_mouth
from engines.mini.mouth_layers import TEXTURE_SCALE, finer_texture, mouth_region
from engines.mini.outline import Outline
from engines.motion_layout import MOTION_DIM
from engines.motion_version import CONTROL_POINTS_VERSION
from kernels.arrays import F32, U8
from kernels.errors import ShapeError
from kernels.sampling.mesh_warp import mesh_warp


@dataclass(frozen=True)
class MeshFace:
    """A prepared avatar; immutable, shareable between threads.

    Attributes:
        version: `engines.motion_version.CONTROL_POINTS_VERSION` it was built for.
        texture: uint8 (1, 1024, 1024, 3), RGB, the crop at twice its resolution.
        deformation: Motion bases.
        right_eye: The subject's right eye.
        left_eye: The subject's left eye.
        mouth: Lip layers and mouth interior.
    """

    version: int
    texture: torch.Tensor
    deformation: Deformation
    right_eye: EyePatch
    left_eye: EyePatch
    mouth: MouthLayers

    @property
    def nbytes(self) -> int:
        """Bytes held by all tensors."""
        return _nbytes(self)


def _nbytes(value: object) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if is_dataclass(value):
        return sum(_nbytes(getattr(value, item.name)) for item in fields(value))
    return 0


class MeshRenderer:
    """Renders prepared faces on one device.

    Args:
        device: Any torch device; the CPU path runs frame by frame, so a frame never depends on its batch.
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = torch.device(device)

    def prepare(self, crop_rgb: U8, landmarks: F32, outline: Outline | None = None) -> MeshFace:
        """Precompute one avatar.

        Args:
            crop_rgb: uint8 (512, 512, 3), RGB.
            landmarks: float32 (468, 3), the public face mesh in crop pixels, z in the same unit, away from the viewer positive.
            outline: Of the person, where the picture around the crop is moved too (`engines.mini.body_warp`): the crop's border
                then moves along. None keeps the border still.

        Raises:
            ShapeError: Another shape or dtype, non-finite landmarks, or landmarks that are no face inside the crop.
        """
        _validate_source(crop_rgb, landmarks)
        frame = build_frame(landmarks)
        lips = build_lip_lines(frame, crop_rgb)
        region = mouth_region(frame)
        fine = finer_texture(crop_rgb)
        return MeshFace(
            version=CONTROL_POINTS_VERSION,
            texture=torch.from_numpy(fine)[None].to(self.device),
            deformation=build_deformation(frame, lips, region.padded, outline).to(self.device),
            right_eye=build_eye(frame, fine, right=True).to(self.device),
            left_eye=build_eye(frame, fine, right=False).to(self.device),
            mouth=build_mouth(frame, lips, region, crop_rgb, fine).to(self.device),
        )

    def deformation(self, face: MeshFace) -> Deformation:
        """The face's motion bases on the CPU."""
        return face.deformation.to(torch.device("cpu"))

    @torch.inference_mode()
    def poses(self, face: MeshFace, motion: torch.Tensor) -> list[Pose]:
        """Where the head is in every frame of `motion` as `render` draws it, each a batch of one on the CPU."""
        _validate_motion(motion)
        deformation, limited = self.deformation(face), limit_motion(motion.cpu())
        return [build_pose(deformation, limited.frame(i)) for i in range(len(motion))]

    @torch.inference_mode()
    def posed(self, face: MeshFace, motion: torch.Tensor) -> Iterator[PosedFace]:
        """The fields of every frame of `motion` as `render` draws it, one by one, so that none depends on its batch."""
        _validate_motion(motion)
        limited = limit_motion(motion.to(self.device))
        for i in range(len(motion)):
            yield pose_face(face.deformation, limited.frame(i))

    @torch.inference_mode()
    def render(self, face: MeshFace, motion: torch.Tensor) -> torch.Tensor:
        """Draw a batch of frames.

        Args:
            face: From `prepare` of a renderer on the same device.
            motion: float32 (n, 265), n >= 1, finite; layout in `engines.motion_layout`. Values outside the natural range are
                compressed smoothly (`engines.mini.motion_limits`).

        Returns:
            uint8 (n, 512, 512, 3), RGB, on the renderer's device.

        Raises:
            ShapeError: Another shape, dtype or device, an empty batch, or non-finite values.
        """
        _validate_motion(motion)
        limited = limit_motion(motion.to(self.device))
        if self.device.type != "cpu":
            return self._draw(face, limited, face.texture.repeat(len(motion), 1, 1, 1))
        texture = face.texture.clone()
        frames = torch.empty((len(motion), CROP, CROP, 3), dtype=torch.uint8)
        for i in range(len(motion)):
            self._draw(face, limited.frame(i), texture, frames[i : i + 1])
        return frames

    def _draw(
        self, face: MeshFace, motion: Motion, texture: torch.Tensor, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Draw n frames; `texture` (n, 1024, 1024, 3) is scratch that holds the face's own, eyes excepted."""
        posed = pose_face(face.deformation, motion)
        for eye, lids, gaze in (
            (face.right_eye, motion.lids[:, 0], motion.gaze[:, 0]),
            (face.left_eye, motion.lids[:, 1], motion.gaze[:, 1]),
        ):
            x, y, width, height = eye.box.tolist()
            texture[:, y : y + height, x : x + width] = render_eye(eye, lids, gaze)
        frames = mesh_warp(texture, posed.backward, FACE_CELL, texture_scale=float(TEXTURE_SCALE), out=out)
        compose_mouth(frames, face.mouth, posed)
        return frames


def _validate_source(crop: U8, landmarks: F32) -> None:
    if not isinstance(crop, np.ndarray) or crop.shape != (CROP, CROP, 3) or crop.dtype != np.uint8:
        raise ShapeError("crop_rgb", _describe(crop), f"uint8 ({CROP}, {CROP}, 3)")
    if (
        not isinstance(landmarks, np.ndarray)
        or landmarks.shape != (topology.LANDMARKS, 3)
        or landmarks.dtype != np.float32
    ):
        raise ShapeError("landmarks", _describe(landmarks), f"float32 ({topology.LANDMARKS}, 3)")
    if not np.isfinite(landmarks).all():
        raise ShapeError("landmarks", "NaN or infinite values", "finite crop pixels")
    size = float(np.ptp(landmarks[:, :2], axis=0).min())
    inside = ((landmarks[:, :2] > -0.05 * CROP) & (landmarks[:, :2] < 1.05 * CROP)).all()
    if size < CROP / 16 or not inside:
        raise ShapeError("landmarks", f"a face of {size:.0f} px", f"a face of at least {CROP // 16} px inside the crop")


def _describe(value: object) -> str:
    return f"{getattr(value, 'dtype', type(value).__name__)} {getattr(value, 'shape', '')}".strip()


def _validate_motion(motion: torch.Tensor) -> None:
    if not isinstance(motion, torch.Tensor) or motion.dtype != torch.float32:
        raise ShapeError("motion", str(getattr(motion, "dtype", type(motion).__name__)), "a float32 tensor")
    if motion.ndim != 2 or motion.shape[1] != MOTION_DIM or motion.shape[0] == 0:
        raise ShapeError("motion", str(tuple(motion.shape)), f"(n, {MOTION_DIM}) with n >= 1")
    if not bool(torch.isfinite(motion).all()):
        raise ShapeError("motion", "NaN or infinite values", "finite values")
