"""The rectangle of a presenter: the face inside a picture that moves with it where the outline is known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from engines.mini.body_warp import BodyPainter, BodyWarp, build_body
from engines.mini.face_planes import FacePainter, FacePlanes, build_face_planes
from engines.mini.mesh_deform import Pose
from engines.mini.mesh_renderer import MeshFace, MeshRenderer
from engines.mini.outline import Outline, make_outline
from kernels.arrays import F32, U8
from kernels.nv12.composite import composite_nv12
from kernels.nv12.composite_plan import CompositePlan, plan_composite
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.avatars.face_crop import cut_square, square_of
from pipeline.mini.avatar_tensors import PERSON
from pipeline.types import CROP_SIZE, Avatar, FaceRect, Nv12RectBatch

STEEPER: Final = np.float32(4.0)
"""Face and surroundings are one picture, moved by one formula: they need no long transition."""
Drawn = tuple[Pose, tuple[U8, U8]]
"""Where the head is in a frame, and the face's luma (h, w) and chroma (h / 2, w / 2, 2)."""


@dataclass(frozen=True)
class MovingHead:
    """A presenter's picture around the face, ready to move.

    Attributes:
        rect: The rectangle.
        face: Draws the face: on the CPU straight into the canvas's pixels, on a GPU as crops that are brought onto it, whole (the
            mask is in `body`).
        body: The picture around the face.
    """

    rect: FaceRect
    face: FacePlanes | CompositePlan
    body: BodyWarp

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return self.face.nbytes + self.body.nbytes


def outline_of(avatar: Avatar) -> Outline | None:
    """The outline of the presenter around its crop; None where the bundle holds none."""
    if PERSON not in avatar.tensors:
        return None
    matrix, rect = avatar.crop_to_canvas.astype(np.float64), avatar.rect
    scale = float(matrix[0, 0])
    origin = (float(rect.x - matrix[0, 2]) / scale, float(rect.y - matrix[1, 2]) / scale)
    return make_outline(np.asarray(avatar.tensors[PERSON], np.uint8), origin, scale)


def prepare_moving(avatar: Avatar, outline: Outline | None, colour: str, device: torch.device) -> MovingHead:
    """Prepare the picture around the face.

    Args:
        avatar: The presenter.
        outline: From `outline_of`; without it all but the face stands still.
        colour: "bt709" or "bt601".
        device: Where its face is drawn.
    """
    canvas, rect = avatar.canvas_rgb, avatar.rect
    square = square_of(avatar.crop_to_canvas)
    face = square.rect(canvas.shape[1], canvas.shape[0])
    around = np.ascontiguousarray(canvas[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w])
    y_plane, uv_plane = rgb_to_nv12(around, colour=colour)
    left, top = face.x - rect.x, face.y - rect.y
    landmarks = np.asarray(avatar.tensors["landmarks"], np.float32)
    body = build_body(
        landmarks, outline, y_plane, uv_plane, (left, top, left + face.w, top + face.h), _mask_on(avatar, face)
    )
    if device.type != "cpu":
        return MovingHead(rect, _whole_crops(avatar, face, colour), body)
    x, y = face.x - square.x, face.y - square.y
    part = (x, y, x + face.w, y + face.h)
    crop = np.asarray(avatar.tensors["crop_rgb"], np.uint8)
    return MovingHead(rect, build_face_planes(cut_square(canvas, square), crop, landmarks, part, colour), body)


@torch.inference_mode()
def draw_moving(moving: MovingHead, renderer: MeshRenderer, face: MeshFace, motion: torch.Tensor) -> Nv12RectBatch:
    """The rectangles of a batch.

    Args:
        moving: The presenter.
        renderer: Draws its face.
        face: The face, from the renderer's `prepare`.
        motion: float32 (n, 265).
    """
    rect = moving.rect
    y_planes = np.empty((len(motion), rect.h, rect.w), np.uint8)
    uv_planes = np.empty((len(motion), rect.h // 2, rect.w // 2, 2), np.uint8)
    if isinstance(moving.face, FacePlanes):
        frames = _drawn_here(moving.face, renderer, face, motion)
    else:
        frames = _drawn_as_crops(moving.face, renderer, face, motion)
    deformation, painter = renderer.deformation(face), BodyPainter(moving.body)
    for i, (pose, planes) in enumerate(frames):
        painter.draw(deformation, pose, planes, (y_planes[i], uv_planes[i]))
    return Nv12RectBatch(rect, y_planes, uv_planes.reshape(len(motion), rect.h // 2, rect.w))


def _drawn_here(planes: FacePlanes, renderer: MeshRenderer, face: MeshFace, motion: torch.Tensor) -> Iterator[Drawn]:
    painter = FacePainter(planes, face.mouth)
    for posed in renderer.posed(face, motion):
        yield posed.pose, painter.draw(posed)


def _drawn_as_crops(
    plan: CompositePlan, renderer: MeshRenderer, face: MeshFace, motion: torch.Tensor
) -> Iterator[Drawn]:
    crops = renderer.render(face, motion)
    y_planes, uv_planes = (planes.cpu().numpy() for planes in composite_nv12(crops, plan))
    for i, pose in enumerate(renderer.poses(face, motion)):
        yield pose, (y_planes[i], uv_planes[i].reshape(plan.height // 2, plan.width // 2, 2))


def _whole_crops(avatar: Avatar, face: FaceRect, colour: str) -> CompositePlan:
    """What brings whole crops onto their square of the canvas."""
    still = np.ascontiguousarray(avatar.canvas_rgb[face.y : face.y + face.h, face.x : face.x + face.w])
    whole = np.ones((CROP_SIZE, CROP_SIZE), np.float32)
    return plan_composite(avatar.crop_to_canvas, whole, still, face, colour=colour)


def _mask_on(avatar: Avatar, face: FaceRect) -> F32:
    """The share of the face on its square of the canvas: the crop's mask, but steeper."""
    nothing = np.zeros((face.h, face.w, 3), np.uint8)
    mask = plan_composite(avatar.crop_to_canvas, avatar.mask, nothing, face).mask
    return np.asarray(np.minimum(mask * STEEPER, 1.0), dtype=np.float32)
