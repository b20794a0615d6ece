"""The renderer stage of `mini`: motion -> face crops -> the NV12 rectangle of the canvas (the tail included)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from engines.mini.mesh_renderer import MeshFace, MeshRenderer
from engines.mini.outline import Outline
from kernels.nv12.composite import composite_nv12
from kernels.nv12.composite_plan import CompositePlan
from pipeline.bounded_cache import BoundedCache
from pipeline.mini.moving_head import MovingHead, draw_moving, outline_of, prepare_moving
from pipeline.session.cadence import at_rate
from pipeline.session.tail import DEFAULT_CACHE_BYTES, crop_batch, plan_of
from pipeline.stages import RenderRequest
from pipeline.types import MOTION_FPS, Avatar, CropBatch, Nv12RectBatch


@dataclass(frozen=True)
class PreparedFace:
    """An avatar, ready to draw: its mesh and its tail.

    Attributes:
        avatar: The avatar.
        face: Its mesh.
        tail: What brings the face onto the canvas: the picture around it moves along where the avatar's outline is known.
    """

    avatar: Avatar
    face: MeshFace
    tail: CompositePlan | MovingHead

    @property
    def size_bytes(self) -> int:
        """What the preparation holds in memory."""
        return self.face.nbytes + self.tail.nbytes + self.avatar.canvas_rgb.nbytes + self.avatar.mask.nbytes


class Renderer:
    """Draws chunks of any session; keeps nothing but prepared faces.

    Args:
        load_avatar: Id -> avatar; raises a typed error for an unknown id.
        device: Where the mesh is warped.
        cache_bytes: Bound on the prepared faces kept.
    """

    def __init__(
        self, load_avatar: Callable[[str], Avatar], device: str = "cpu", cache_bytes: int = DEFAULT_CACHE_BYTES
    ) -> None:
        self._load_avatar = load_avatar
        self._mesh = MeshRenderer(device)
        self._faces: BoundedCache[tuple[str, str], PreparedFace] = BoundedCache(cache_bytes, lambda f: f.size_bytes)
        self._still: BoundedCache[tuple[str, str], PreparedFace] = BoundedCache(cache_bytes, lambda f: f.size_bytes)

    def prepare(self, avatar_id: str, colour: str) -> PreparedFace:
        """The prepared face of an avatar, from the cache or made now (under a second)."""
        return self._faces.get_or_build((avatar_id, colour), lambda: self._prepare(avatar_id, colour, moving=True))

    def warm_avatars(self) -> list[str]:
        """Ids of the avatars that are prepared now."""
        return sorted({avatar_id for avatar_id, _ in self._faces.keys()})

    def render(self, request: RenderRequest) -> Nv12RectBatch:
        """Draw one chunk.

        Args:
            request: n frames of motion.

        Returns:
            n frames at 25 frames/s, 2 n at 50, those of the chunk's time at 59.94 (in between in motion space).

        Raises:
            ShapeError: Motion of the wrong shape.
            LiveAnchorError: The avatar cannot be loaded.
        """
        prepared = self.prepare(request.avatar_id, request.colour)
        motion = request.motion.motion
        if request.fps != MOTION_FPS:
            motion = at_rate(motion, request.motion.first_frame, request.following, request.fps)
        vectors = torch.from_numpy(motion)
        tail = prepared.tail
        if isinstance(tail, MovingHead):
            return draw_moving(tail, self._mesh, prepared.face, vectors)
        crops = self._mesh.render(prepared.face, vectors)
        y_planes, uv_planes = composite_nv12(crops, tail)  # on the crops' own device
        return Nv12RectBatch(prepared.avatar.rect, y_planes.cpu().numpy(), uv_planes.cpu().numpy())

    def crops(self, request: RenderRequest) -> CropBatch:
        """The face crops alone, one per frame of motion, for the stage that interpolates pictures; see `render`.

        Their tail puts them into a canvas that stands still, so their border does.
        """
        key = (request.avatar_id, request.colour)
        prepared = self._still.get_or_build(key, lambda: self._prepare(*key, moving=False))
        drawn = self._mesh.render(prepared.face, torch.from_numpy(request.motion.motion))
        return crop_batch(drawn.cpu().numpy(), request)

    def _prepare(self, avatar_id: str, colour: str, *, moving: bool) -> PreparedFace:
        avatar = self._load_avatar(avatar_id)
        outline = outline_of(avatar) if moving else None
        return PreparedFace(
            avatar=avatar,
            face=self._mesh.prepare(
                np.asarray(avatar.tensors["crop_rgb"], np.uint8),
                np.asarray(avatar.tensors["landmarks"], np.float32),
                outline,
            ),
            tail=self._tail(avatar, outline, colour) if moving else plan_of(avatar, colour),
        )

    def _tail(self, avatar: Avatar, outline: Outline | None, colour: str) -> CompositePlan | MovingHead:
        """On a GPU a face in a picture that stands still never leaves the device before it is composed."""
        if outline is None and self._mesh.device.type != "cpu":
            return plan_of(avatar, colour)
        return prepare_moving(avatar, outline, colour, self._mesh.device)
