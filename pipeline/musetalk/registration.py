"""A picture or a clip of the speaker -> an `Avatar` of the family `musetalk`: boxes, latents, masks, and the frames in NV12.

A clip is read three times: for the face in every frame, for the part that moves, and for the rest, so that boxes can be steadied
over time without keeping its pictures in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final, Protocol

import cv2
import numpy as np
import torch

from engines.face.mesh import FaceMesh, FaceTracker
from engines.musetalk import FAMILY
from engines.musetalk.shapes import FACE_SIDE
from kernels.arrays import F32, U8
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.avatars.bundle import check_avatar, content_id
from pipeline.avatars.clip_frames import template_frames
from pipeline.avatars.face_choice import choose_face
from pipeline.avatars.face_crop import fit_canvas, soft_mask
from pipeline.avatars.portrait import DEFAULT_LIMITS, PortraitLimits, decode_portrait
from pipeline.avatars.portrait_errors import PortraitError
from pipeline.musetalk.avatar_tensors import MuseTalkTensors, even_square
from pipeline.musetalk.blend_mask import blend_mask, talking_region
from pipeline.musetalk.face_box import Box, crop_around, points_68, raw_box, steady_boxes
from pipeline.musetalk.face_labels import FaceLabels
from pipeline.musetalk.masters import KEPT_COLOUR
from pipeline.musetalk.moving_part import moving_part
from pipeline.types import Avatar, FaceRect

MAX_FRAMES: Final = 750
"""30 s at 25 frames/s."""
MAX_BYTES: Final = 2_000_000_000
"""Of a bundle; a clip that would take more is shortened."""
MIN_FACE_SHARE: Final = 0.5
"""Share of a clip's frames that must show the face."""
Canvases = Callable[[], Iterable[U8]]
"""Begins to read the frames of a clip, all of one size, even sides."""


class Reader(Protocol):
    """Reads faces; `engines.musetalk.painter.LatentReader` is one."""

    def read(self, face: torch.Tensor) -> torch.Tensor:
        """Latents (n, 8, 32, 32) of faces uint8 (n, 256, 256, 3), RGB."""
        ...


@dataclass(frozen=True)
class SourceModels:
    """What registration needs of the weights.

    Attributes:
        reader: Latents of a face.
        labels: Parts of a face.
        version: Version of what makes the latents.
    """

    reader: Reader
    labels: FaceLabels
    version: str


def register_picture(
    picture: U8 | bytes, mesh: FaceMesh, models: SourceModels, name: str = "", limits: PortraitLimits = DEFAULT_LIMITS
) -> Avatar:
    """Make a presenter of a portrait, whose mouth speaks and whose head stands still.

    Args:
        picture: A JPEG, PNG, WebP, HEIC or AVIF file, or decoded pixels uint8 (H, W, 3), RGB, upright.
        mesh: Finds the face.
        models: From the weights.
        name: For people; it is not part of the identity.
        limits: What to accept of a file.

    Raises:
        PortraitError: Its `code` says why.
    """
    rgb = decode_portrait(picture, limits) if isinstance(picture, bytes) else picture
    canvas = fit_canvas(rgb)
    return make_avatar(lambda: [canvas], [choose_face(canvas, mesh).landmarks], models, name)


def register_clip(
    video: Path | bytes, mesh: FaceMesh, models: SourceModels, name: str = "", max_frames: int = MAX_FRAMES
) -> Avatar:
    """Make a presenter that moves as in a clip, which is played to and fro; its mouth should be closed in it.

    Args:
        video: An MP4/MOV or WebM/Matroska file, or its content.
        mesh: Finds and follows the face.
        models: From the weights.
        name: For people; it is not part of the identity.
        max_frames: Frames at 25 frames/s to take.

    Raises:
        PortraitError: It cannot be read, or shows a face in too few of its frames; its `code` says why.
    """
    tracker = FaceTracker(mesh)
    faces = [
        None if (found := tracker.update(canvas)) is None else found.points
        for canvas in template_frames(video, max_frames)
    ]
    if not faces:
        raise PortraitError("portrait_unreadable", "no frame", "a video", "the video holds no frame")
    seen = sum(face is not None for face in faces)
    if seen < MIN_FACE_SHARE * len(faces):
        allowed = f"a face in {MIN_FACE_SHARE:.0%} of the frames"
        detail = "too few frames show a face; cut the video to a stretch in which the speaker looks into the camera"
        raise PortraitError("portrait_no_face", f"a face in {seen} of {len(faces)} frames", allowed, detail)
    return make_avatar(lambda: template_frames(video, max_frames), faces, models, name)


def make_avatar(canvases: Canvases, faces: Sequence[F32 | None], models: SourceModels, name: str = "") -> Avatar:
    """An avatar of canvases whose faces are known already.

    Frames without a face keep their place: they are shown as they are and never painted.

    Args:
        canvases: Reads one picture, or the frames of a clip; uint8 (H, W, 3), RGB.
        faces: The mesh of each frame, float32 (468, 3), canvas pixels; None where there is none; at least one is known.
        models: From the weights.
        name: For people.

    Raises:
        ShapeError: An array has the wrong shape or type.
    """
    found = np.array([face is not None for face in faces])
    measured = np.stack([np.zeros(4) if face is None else raw_box(points_68(face)) for face in faces])
    boxes = steady_boxes(measured, found)
    first = next(iter(canvases()))
    height, width = first.shape[:2]
    squares = [even_square(crop_around(box)) for box in boxes]
    patch = _patch_size(boxes[0], height, width)
    always = [square.rect(width, height) for square in squares]
    always += [FaceRect(*_corner(box, patch, height, width), patch[1], patch[0]) for box in boxes]
    rect = moving_part(canvases(), always)
    boxes = boxes[: _affordable(rect, patch)]
    made = [
        _frame(canvas, box, face, patch, models, rect if len(boxes) > 1 else None)
        for canvas, box, face in zip(islice(canvases(), len(boxes)), boxes, faces, strict=False)
    ]
    moving = len(made) > 1
    tensors = MuseTalkTensors(
        latents=np.stack([one.latents for one in made]),
        boxes=np.array(boxes, np.int32),
        faces=found[: len(made)],
        corners=np.array([one.corner for one in made], np.int32),
        patches=np.stack([one.patch for one in made]),
        masks=np.stack([one.mask for one in made]),
        y_planes=np.stack([one.y_plane for one in made]) if moving else None,
        uv_planes=np.stack([one.uv_plane for one in made]) if moving else None,
        version=models.version,
    )
    avatar = Avatar(
        avatar_id="",
        family=FAMILY,
        name=name,
        canvas_rgb=first,
        rect=rect,
        crop_to_canvas=squares[0].to_canvas(),
        mask=soft_mask(),
        tensors=tensors.pack(),
    )
    check_avatar(avatar)
    return replace(avatar, avatar_id=content_id(avatar))


@dataclass(frozen=True)
class _Frame:
    latents: np.ndarray
    corner: tuple[int, int]
    patch: U8
    mask: U8
    y_plane: U8
    uv_plane: U8


def _patch_size(box: Box, height: int, width: int) -> tuple[int, int]:
    """Height and width of the part that painting can change: the box's columns, from above the crop's middle to its bottom."""
    crop = crop_around(box)
    blur = int(0.1 * crop.width // 2 * 2) + 1
    rows = box.bottom - max(box.top, crop.top + crop.width // 2 - blur)
    return min(_even(rows + 1), height), min(_even(box.width + 1), width)


def _corner(box: Box, patch: tuple[int, int], height: int, width: int) -> tuple[int, int]:
    """Even x and y of the patch of a box, so that it lies on the canvas."""
    high, wide = patch
    x = min(max(box.left // 2 * 2, 0), width - wide)
    return x, min(max((box.bottom - high + 1) // 2 * 2, 0), height - high)


def _affordable(rect: FaceRect, patch: tuple[int, int]) -> int:
    """Frames of a clip that a bundle may hold."""
    high, wide = patch
    per_frame = rect.h * rect.w * 3 // 2 + high * wide * 4 + FACE_SIDE * FACE_SIDE // 4
    return max(1, MAX_BYTES // per_frame)


def _frame(
    canvas: U8, box: Box, face: F32 | None, size: tuple[int, int], models: SourceModels, rect: FaceRect | None
) -> _Frame:
    height, width = canvas.shape[:2]
    high, wide = size
    x, y = _corner(box, size, height, width)
    mask = np.zeros((high, wide), np.uint8)
    if face is not None:
        crop = crop_around(box)
        region = talking_region(models.labels.of(cut(canvas, crop), face[:, :2] - (crop.left, crop.top)))
        of_crop = blend_mask(region, box, crop)
        inside = box.within(width, height)
        left, top = max(inside.left, x), max(inside.top, y)
        right, bottom = min(inside.right, x + wide), min(inside.bottom, y + high)
        part = of_crop[top - crop.top : bottom - crop.top, left - crop.left : right - crop.left]
        mask[top - y : bottom - y, left - x : right - x] = part
    face_rgb = cv2.resize(cut(canvas, box), (FACE_SIDE, FACE_SIDE), interpolation=cv2.INTER_LANCZOS4)
    latents = models.reader.read(torch.from_numpy(np.ascontiguousarray(face_rgb, np.uint8))[None])[0].numpy()
    planes = (np.zeros((0, 0), np.uint8),) * 2
    if rect is not None:
        moving = canvas[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w]
        planes = rgb_to_nv12(np.ascontiguousarray(moving), colour=KEPT_COLOUR)
    return _Frame(
        latents.astype(np.float16), (x, y), canvas[y : y + high, x : x + wide].copy(), mask, planes[0], planes[1]
    )


def cut(canvas: U8, box: Box) -> U8:
    """A box of a canvas, uint8 (h, w, 3); outside the canvas its edge pixels are repeated."""
    height, width = canvas.shape[:2]
    inside = box.within(width, height)
    pads = (inside.top - box.top, box.bottom - inside.bottom, inside.left - box.left, box.right - inside.right)
    part = canvas[inside.top : inside.bottom, inside.left : inside.right]
    return np.asarray(cv2.copyMakeBorder(part, *pads, cv2.BORDER_REPLICATE), np.uint8)


def _even(number: int) -> int:
    return number + number % 2
