"""Ditto's tail: crops into a still picture, or into the moving frames of a template video (`pipeline.session.moving_canvas`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch

from engines.ditto import FAMILY
from kernels.arrays import U8
from kernels.errors import InvalidInputError
from kernels.nv12.composite import composite_nv12
from kernels.nv12.composite_plan import CompositePlan
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.bounded_cache import BoundedCache
from pipeline.ditto.avatar_tensors import DittoTensors, unpack
from pipeline.ditto.motion_fields import mirror_index
from pipeline.rife.interpolator import FrameInterpolator
from pipeline.session.moving_canvas import Body, WholePicture, body_at, matrix_at
from pipeline.session.tail import DEFAULT_CACHE_BYTES, Placed, compose_still, empty_batch, plan_of
from pipeline.types import Avatar, FaceRect, Nv12RectBatch


@dataclass(frozen=True)
class DittoCanvas:
    """An avatar's canvas, ready for crops.

    Attributes:
        avatar: The avatar.
        tensors: Its arrays.
        colour: Colour standard of the NV12 picture.
        plan: Plan of a picture; None for a template video, whose background changes.
    """

    avatar: Avatar
    tensors: DittoTensors
    colour: str
    plan: CompositePlan | None

    @property
    def size_bytes(self) -> int:
        """Bytes that are held in memory, the mapped file not counted."""
        return 0 if self.plan is None else self.plan.nbytes

    def planes(self, crops: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Luma and chroma of a picture's rectangle, one per crop, where the crops are; not for template videos."""
        assert self.plan is not None  # noqa: S101 - the caller asked
        return composite_nv12(crops, self.plan)

    def compose(
        self, crops: torch.Tensor, frames: Sequence[Placed], background: Callable[[Body], U8] | None = None
    ) -> Nv12RectBatch:
        """Pictures.

        Args:
            crops: uint8 (n, 512, 512, 3), RGB.
            frames: Which crop, and where the body is; positions are whole where `background` is None.
            background: uint8 (H, W, 3), RGB, between two template frames.
        """
        if self.plan is not None:
            return compose_still(self.avatar.rect, self.plan, crops, frames)
        if not frames:
            return empty_batch(self.avatar.rect)
        pictures = [self._whole_picture(crops[one.crop][None], one.position, background) for one in frames]
        return Nv12RectBatch(self.avatar.rect, np.stack([y for y, _ in pictures]), np.stack([uv for _, uv in pictures]))

    def _whole_picture(
        self, crop: torch.Tensor, position: Fraction, background: Callable[[Body], U8] | None
    ) -> tuple[U8, U8]:
        """Make one frame of a template video: the whole canvas, with the face put back into it."""
        template, matrices = self.tensors.frames, self.tensors.crop_to_frame
        assert template is not None  # noqa: S101 - only template videos have no plan
        body = body_at(position, len(template), mirror_index)
        canvas = template[body.low] if body.low == body.high or background is None else background(body)
        picture = WholePicture(*rgb_to_nv12(canvas, colour=self.colour))

        def inside(rect: FaceRect) -> U8:
            return canvas[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w]

        picture.put_back(crop, matrix_at(matrices, body), self.avatar.mask, inside, self.colour)
        return picture.y_plane, picture.uv_plane


def open_canvas(avatar: Avatar, tensors: DittoTensors, colour: str) -> DittoCanvas:
    """The canvas of an avatar."""
    return DittoCanvas(avatar, tensors, colour, plan_of(avatar, colour) if tensors.is_image else None)


class DittoTail:
    """Implements `pipeline.session.tail.Tail`.

    Args:
        load_avatar: Id -> avatar; raises a typed error for an unknown id.
        interpolator: Makes backgrounds between template frames.
        cache_bytes: Bound on plans, and another one on interpolated backgrounds.
    """

    def __init__(
        self,
        load_avatar: Callable[[str], Avatar],
        interpolator: FrameInterpolator,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self._load_avatar = load_avatar
        self._interpolator = interpolator
        self._canvases: BoundedCache[tuple[str, str], DittoCanvas] = BoundedCache(cache_bytes, lambda c: c.size_bytes)
        self._backgrounds: BoundedCache[tuple[str, Body], U8] = BoundedCache(cache_bytes, lambda rgb: rgb.nbytes)

    def compose(self, avatar_id: str, colour: str, crops: torch.Tensor, frames: Sequence[Placed]) -> Nv12RectBatch:
        """Implement `Tail.compose`."""
        canvas = self._canvases.get_or_build((avatar_id, colour), lambda: self._open(avatar_id, colour))

        def background(body: Body) -> U8:
            return self._backgrounds.get_or_build((avatar_id, body), lambda: self._between(canvas.tensors, body))

        return canvas.compose(crops, frames, background)

    def _open(self, avatar_id: str, colour: str) -> DittoCanvas:
        avatar = self._load_avatar(avatar_id)
        if avatar.family != FAMILY:
            raise InvalidInputError("avatar_id", f"an avatar of the family {avatar.family}", f"one of {FAMILY}")
        return open_canvas(avatar, unpack(avatar), colour)

    def _between(self, tensors: DittoTensors, body: Body) -> U8:
        assert tensors.frames is not None  # noqa: S101 - only template videos have bodies between frames
        low, high = (
            self._interpolator.encode(torch.from_numpy(np.array(tensors.frames[index])[None]))
            for index in (body.low, body.high)
        )
        made: U8 = self._interpolator.between(low, high, [float(body.share)])[0].cpu().numpy()
        return made
