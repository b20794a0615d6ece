"""The tail puts crops into their canvas as NV12 rectangles; it is the end of the last stage that handles pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
import torch

from kernels.arrays import U8
from kernels.nv12.composite import composite_nv12
from kernels.nv12.composite_plan import CompositePlan, plan_composite
from pipeline.bounded_cache import BoundedCache
from pipeline.stages import RenderRequest
from pipeline.types import Avatar, CropBatch, FaceRect, Nv12RectBatch

DEFAULT_CACHE_BYTES = 512 * 2**20


@dataclass(frozen=True)
class Placed:
    """Says which picture is to be made of which crop.

    Attributes:
        crop: Index into the crops.
        position: Where between frames of motion the *body* is: 1.5 lies half-way from frame 1 to frame 2.
    """

    crop: int
    position: Fraction


class Tail(Protocol):
    """Puts crops of any avatar of a family into their canvas. Keeps nothing but prepared avatars."""

    def compose(self, avatar_id: str, colour: str, crops: torch.Tensor, frames: Sequence[Placed]) -> Nv12RectBatch:
        """Make pictures.

        Args:
            avatar_id: Id of the avatar that the crops show.
            colour: "bt709" or "bt601".
            crops: uint8 (n, 512, 512, 3), RGB, on the device that composites.
            frames: The m pictures to make, each of one crop.

        Returns:
            The m rectangles, on the host.

        Raises:
            LiveAnchorError: The avatar cannot be loaded.
        """
        ...


def crop_batch(crops: U8, request: RenderRequest) -> CropBatch:
    """Crops as the next stage wants them, with what the request says of them."""
    motion = request.motion
    return CropBatch(crops, motion.holds, request.avatar_id, motion.first_frame, request.epoch)


def plan_of(avatar: Avatar, colour: str) -> CompositePlan:
    """The plan of an avatar whose canvas stands still."""
    rect = avatar.rect
    background = avatar.canvas_rgb[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w]
    return plan_composite(avatar.crop_to_canvas, avatar.mask, background, rect, colour=colour)


def compose_still(rect: FaceRect, plan: CompositePlan, crops: torch.Tensor, frames: Sequence[Placed]) -> Nv12RectBatch:
    """Pictures of an avatar whose canvas stands still: each crop is composited once, however often it is shown."""
    y_planes, uv_planes = (planes.cpu().numpy() for planes in composite_nv12(crops, plan))
    if [frame.crop for frame in frames] != list(range(len(crops))):
        order = np.array([frame.crop for frame in frames], np.intp)
        y_planes, uv_planes = y_planes[order], uv_planes[order]
    return Nv12RectBatch(rect, y_planes, uv_planes)


class StillTail:
    """Puts crops into canvases that stand still; implements `Tail` for any family.

    Args:
        load_avatar: Id -> avatar; raises a typed error for an unknown id.
        cache_bytes: Bound on the memory of the plans kept, in bytes.
    """

    def __init__(self, load_avatar: Callable[[str], Avatar], cache_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        self._load_avatar = load_avatar
        self._plans: BoundedCache[tuple[str, str], tuple[FaceRect, CompositePlan]] = BoundedCache(
            cache_bytes, lambda entry: entry[1].nbytes
        )

    def compose(self, avatar_id: str, colour: str, crops: torch.Tensor, frames: Sequence[Placed]) -> Nv12RectBatch:
        """Make pictures as `Tail.compose` says; their positions do not matter where the canvas stands still."""
        rect, plan = self._plans.get_or_build((avatar_id, colour), lambda: self._prepare(avatar_id, colour))
        return compose_still(rect, plan, crops, frames)

    def _prepare(self, avatar_id: str, colour: str) -> tuple[FaceRect, CompositePlan]:
        avatar = self._load_avatar(avatar_id)
        return avatar.rect, plan_of(avatar, colour)


def empty_batch(rect: FaceRect) -> Nv12RectBatch:
    """A batch without pictures."""
    luma: U8 = np.zeros((0, rect.h, rect.w), np.uint8)
    return Nv12RectBatch(rect, luma, np.zeros((0, rect.h // 2, rect.w), np.uint8))
