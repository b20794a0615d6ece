"""The rectangle of a presenter whose outline is known: the face crop inside a picture that moves with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from engines.mini.body_warp import BodyWarp, build_body, draw_body
from engines.mini.mesh_deform import Deformation, Pose
from engines.mini.outline import Outline, make_outline
from kernels.arrays import F32
from kernels.nv12.composite import composite_nv12
from kernels.nv12.composite_plan import CompositePlan, plan_composite
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.avatars.face_crop import square_of
from pipeline.mini.avatar_tensors import PERSON
from pipeline.types import CROP_SIZE, Avatar, FaceRect, Nv12RectBatch


@dataclass(frozen=True)
class MovingHead:
    """A presenter's picture around the face, ready to move.

    Attributes:
        rect: The rectangle.
        plan: Brings the face crop onto its square of the canvas, whole: the mask is in `body`.
        body: The picture around the face.
    """

    rect: FaceRect
    plan: CompositePlan
    body: BodyWarp

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.plan.nbytes + self.body.nbytes


def outline_of(avatar: Avatar) -> Outline | None:
    """The outline of the presenter around its crop; None where the bundle holds none."""
    if PERSON not in avatar.tensors:
        return None
    matrix, rect = avatar.crop_to_canvas.astype(np.float64), avatar.rect
    scale = float(matrix[0, 0])
    origin = (float(rect.x - matrix[0, 2]) / scale, float(rect.y - matrix[1, 2]) / scale)
    return make_outline(np.asarray(avatar.tensors[PERSON], np.uint8), origin, scale)


def prepare_moving(avatar: Avatar, outline: Outline, colour: str) -> MovingHead:
    """Prepare the picture around the face.

    Args:
        avatar: The presenter.
        outline: From `outline_of`.
        colour: "bt709" or "bt601".
    """
    canvas, rect = avatar.canvas_rgb, avatar.rect
    face = square_of(avatar.crop_to_canvas).rect(canvas.shape[1], canvas.shape[0])
    still = np.ascontiguousarray(canvas[face.y : face.y + face.h, face.x : face.x + face.w])
    whole = np.ones((CROP_SIZE, CROP_SIZE), np.float32)
    around = np.ascontiguousarray(canvas[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w])
    y_plane, uv_plane = rgb_to_nv12(around, colour=colour)
    left, top = face.x - rect.x, face.y - rect.y
    return MovingHead(
        rect=rect,
        plan=plan_composite(avatar.crop_to_canvas, whole, still, face, colour=colour),
        body=build_body(
            np.asarray(avatar.tensors["landmarks"], np.float32),
            outline,
            y_plane,
            uv_plane,
            (left, top, left + face.w, top + face.h),
            _mask_on(avatar, face),
        ),
    )


def draw_moving(
    moving: MovingHead, deformation: Deformation, poses: Sequence[Pose], crops: torch.Tensor
) -> Nv12RectBatch:
    """The rectangles of a batch.

    Args:
        moving: The presenter.
        deformation: Of its face, on the CPU.
        poses: Of every frame, batches of one on the CPU.
        crops: uint8 (n, 512, 512, 3), RGB, on any device.
    """
    faces_y, faces_uv = (planes.cpu().numpy() for planes in composite_nv12(crops, moving.plan))
    drawn = [draw_body(moving.body, deformation, *one) for one in zip(poses, faces_y, faces_uv, strict=True)]
    return Nv12RectBatch(moving.rect, np.stack([y for y, _ in drawn]), np.stack([uv for _, uv in drawn]))


def _mask_on(avatar: Avatar, face: FaceRect) -> F32:
    """The crop's mask on its square of the canvas."""
    nothing = np.zeros((face.h, face.w, 3), np.uint8)
    return plan_composite(avatar.crop_to_canvas, avatar.mask, nothing, face).mask
