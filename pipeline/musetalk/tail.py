"""MuseTalk's tail above 25 frames/s: interpolated squares of the face into a picture, or into a clip and between its frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from engines.musetalk import FAMILY
from kernels.arrays import F32, U8
from kernels.errors import InvalidInputError
from kernels.nv12.composite_plan import CompositePlan
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.bounded_cache import BoundedCache
from pipeline.musetalk.avatar_tensors import MuseTalkTensors, unpack
from pipeline.musetalk.clip_place import clip_place
from pipeline.musetalk.masters import recoloured, to_rgb
from pipeline.rife.interpolator import FrameInterpolator
from pipeline.session.moving_canvas import Body, WholePicture, body_at, matrix_at
from pipeline.session.tail import DEFAULT_CACHE_BYTES, Placed, compose_still, empty_batch, plan_of
from pipeline.types import Avatar, FaceRect, Nv12RectBatch


@dataclass(frozen=True)
class _Canvas:
    """An avatar, with the maps from its squares to its rectangle float32 (n, 2, 3), and the plan of a picture."""

    avatar: Avatar
    tensors: MuseTalkTensors
    matrices: F32
    plan: CompositePlan | None

    @property
    def size_bytes(self) -> int:
        """Bytes that are held in memory, the mapped file not counted."""
        return self.matrices.nbytes + (0 if self.plan is None else self.plan.nbytes)

    def master(self, place: int) -> tuple[U8, U8]:
        """Planes of the avatar's rectangle in a clip's frame, as they are kept."""
        tensors = self.tensors
        assert tensors.y_planes is not None and tensors.uv_planes is not None  # noqa: S101 - only clips have no plan
        return tensors.y_planes[place], tensors.uv_planes[place]


class MuseTalkTail:
    """Implements `pipeline.session.tail.Tail`.

    Args:
        load_avatar: Id -> avatar; raises a typed error for an unknown id.
        interpolator: Makes backgrounds between a clip's frames.
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
        self._canvases: BoundedCache[tuple[str, str], _Canvas] = BoundedCache(cache_bytes, lambda c: c.size_bytes)
        self._backgrounds: BoundedCache[tuple[str, Body], U8] = BoundedCache(cache_bytes, lambda rgb: rgb.nbytes)

    def compose(self, avatar_id: str, colour: str, crops: torch.Tensor, frames: Sequence[Placed]) -> Nv12RectBatch:
        """Implement `Tail.compose`."""
        canvas = self._canvases.get_or_build((avatar_id, colour), lambda: self._open(avatar_id, colour))
        if canvas.plan is not None:
            return compose_still(canvas.avatar.rect, canvas.plan, crops, frames)
        if not frames:
            return empty_batch(canvas.avatar.rect)
        pictures = [self._whole(canvas, crops[one.crop][None], one, colour) for one in frames]
        return Nv12RectBatch(
            canvas.avatar.rect,
            np.stack([one.y_plane for one in pictures]),
            np.stack([one.uv_plane for one in pictures]),
        )

    def _open(self, avatar_id: str, colour: str) -> _Canvas:
        avatar = self._load_avatar(avatar_id)
        if avatar.family != FAMILY:
            raise InvalidInputError("avatar_id", f"an avatar of the family {avatar.family}", f"one of {FAMILY}")
        tensors = unpack(avatar)
        plan = plan_of(avatar, colour) if tensors.y_planes is None else None
        into_rect = tensors.crop_to_canvas() - np.array([[0, 0, avatar.rect.x], [0, 0, avatar.rect.y]], np.float32)
        return _Canvas(avatar, tensors, into_rect, plan)

    def _whole(self, canvas: _Canvas, crop: torch.Tensor, frame: Placed, colour: str) -> WholePicture:
        body = body_at(frame.position, len(canvas.tensors), clip_place)
        if body.low == body.high:
            y_plane, uv_plane = canvas.master(body.low)
            picture = WholePicture(*recoloured(y_plane, uv_plane, colour))

            def inside(rect: FaceRect) -> U8:
                rows, chroma = slice(rect.y, rect.y + rect.h), slice(rect.y // 2, (rect.y + rect.h) // 2)
                columns = slice(rect.x, rect.x + rect.w)
                return to_rgb(
                    np.ascontiguousarray(y_plane[rows, columns]), np.ascontiguousarray(uv_plane[chroma, columns])
                )

        else:
            avatar_id = canvas.avatar.avatar_id
            background = self._backgrounds.get_or_build((avatar_id, body), lambda: self._between(canvas, body))
            picture = WholePicture(*rgb_to_nv12(background, colour=colour))

            def inside(rect: FaceRect) -> U8:
                return background[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w]

        picture.put_back(crop, matrix_at(canvas.matrices, body), canvas.avatar.mask, inside, colour)
        return picture

    def _between(self, canvas: _Canvas, body: Body) -> U8:
        low, high = (
            self._interpolator.encode(torch.from_numpy(to_rgb(*canvas.master(place)))[None])
            for place in (body.low, body.high)
        )
        made: U8 = self._interpolator.between(low, high, [float(body.share)])[0].cpu().numpy()
        return made
