"""The renderer stage of Ditto: offsets -> keypoints -> face crops -> the NV12 rectangle of the canvas (the tail included)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from engines.ditto import FAMILY
from engines.ditto.config import DittoConfig
from engines.ditto.render_runtime import SourceRuntime
from engines.motion_layout import MOTION_DIM
from engines.runtimes.cuda_graphs import BUCKETS, BucketedGraph
from engines.runtimes.host_copies import Landing, to_device
from engines.runtimes.protocol import Runtime
from kernels.arrays import F32, U8
from kernels.errors import InvalidInputError, ShapeError
from pipeline.avatars.stale import StaleAvatarError
from pipeline.bounded_cache import BoundedCache
from pipeline.ditto.avatar_tensors import unpack
from pipeline.ditto.driven_keypoints import REST_DIM, DrivenKeypoints, rest_rows
from pipeline.ditto.motion_stitch import frame_control
from pipeline.ditto.prepared_face import PreparedDittoFace, of_every_frame
from pipeline.ditto.tail import open_canvas
from pipeline.session.overlap import DrawOrder, OverlappedDrawing, Span
from pipeline.session.tail import Placed, crop_batch
from pipeline.stages import RenderRequest
from pipeline.types import Avatar, CropBatch, Nv12RectBatch

DEFAULT_CACHE_BYTES: Final = 2 * 2**30
_RESIDENT_SHARE: Final = 0.5
"""A template video's features stay on the device when they take at most this share of the cache; else they go up frame by frame."""


@dataclass(frozen=True)
class DittoEngines:
    """What the renderer runs.

    Attributes:
        synthesis: Runs an `engines.ditto.face_synthesis.FaceSynthesis`.
        stitch: The stitching network; a copy runs where `synthesis` does.
        config: Which fields are driven, controls of every frame, whether keypoints are stitched.
        version: Version of the extractors that avatars must have been made with.
        batch: Frames per call of the networks.
    """

    synthesis: Runtime
    stitch: nn.Module
    config: DittoConfig
    version: str
    batch: int = 1


Part = tuple[U8, ...]
"""What a bucket has of one order: luma and chroma planes, or crops."""


@dataclass(frozen=True)
class _Flight:
    """A bucket on its way: how many arrays each span has, and the copies."""

    sizes: Sequence[int]
    landing: Landing

    def wait(self) -> list[Part]:
        """Implement `pipeline.session.overlap.Flight`."""
        arrays = iter(self.landing.wait())
        return [tuple(np.array(next(arrays), np.uint8) for _ in range(size)) for size in self.sizes]


class DittoRenderer:
    """Draws chunks of any session; keeps nothing but prepared faces.

    Args:
        load_avatar: Id -> avatar; raises a typed error for an unknown id.
        engines: The networks.
        cache_bytes: Bound on prepared faces.
    """

    def __init__(
        self,
        load_avatar: Callable[[str], Avatar],
        engines: DittoEngines,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self._load_avatar = load_avatar
        self._engines = engines
        self._device = engines.synthesis.device
        self._cache_bytes = cache_bytes
        self._faces: BoundedCache[tuple[str, str], PreparedDittoFace] = BoundedCache(
            cache_bytes, lambda face: face.size_bytes
        )
        stitch = copy.deepcopy(engines.stitch) if engines.config.flag_stitching else None
        driven = DrivenKeypoints(stitch, frame_control(engines.config.overall_ctrl_info)).to(self._device)
        self._driven = BucketedGraph(driven, self._at_rest, BUCKETS, self._device)
        if self._device.type == "cuda":
            self._driven.prepare()

    def prepare(self, avatar_id: str, colour: str) -> PreparedDittoFace:
        """The prepared face of an avatar, from the cache or made now."""
        return self._faces.get_or_build((avatar_id, colour), lambda: self._prepare(avatar_id, colour))

    def warm_avatars(self) -> list[str]:
        """Ids of the avatars that are prepared now."""
        return sorted({avatar_id for avatar_id, _ in self._faces.keys()})

    def render(self, request: RenderRequest) -> Nv12RectBatch:
        """Draw one chunk.

        Args:
            request: n frames of offsets at 25 frames/s.

        Returns:
            n frames.

        Raises:
            ShapeError: Motion of the wrong shape.
            InvalidInputError: 50 frames/s, which this family makes by interpolating pictures, not here.
            StaleAvatarError: The avatar's features belong to other weights.
            LiveAnchorError: The avatar cannot be loaded.
        """
        batch = self.alone(DrawOrder(request))
        assert isinstance(batch, Nv12RectBatch)  # noqa: S101 - narrows the type for the checker
        return batch

    def crops(self, request: RenderRequest) -> CropBatch:
        """The face crops alone, one per frame of motion, for the stage that interpolates pictures; errors as for `render`."""
        batch = self.alone(DrawOrder(request, crops_only=True))
        assert isinstance(batch, CropBatch)  # noqa: S101 - narrows the type for the checker
        return batch

    def overlapped(self) -> OverlappedDrawing[Part, Nv12RectBatch | CropBatch]:
        """Draw orders of many sessions in shared buckets, in a thread of its own."""
        return OverlappedDrawing(self, bucket=max(self._engines.batch, 1))

    def open(self, order: DrawOrder) -> int | None:
        """Implement `pipeline.session.overlap.Draws`: template videos, whose canvas moves, are drawn alone."""
        request = order.request
        if request.fps != 25 and not order.crops_only:
            raise InvalidInputError("fps", str(request.fps), "25", "the ditto renderer draws 25 frames/s")
        motion = request.motion.motion
        if motion.ndim != 2 or motion.shape[1] != MOTION_DIM:
            raise ShapeError("motion", str(motion.shape), f"(n, {MOTION_DIM})")
        face = self.prepare(request.avatar_id, request.colour)
        return len(motion) if order.crops_only or face.canvas.plan is not None else None

    def launch(self, spans: Sequence[Span]) -> _Flight:
        """Queue the frames of one bucket, of any faces, up to their copies to the host; see `pipeline.session.overlap.Draws`."""
        crops, done, made, sizes = self._draw(spans), 0, list[Tensor](), list[int]()
        for span in spans:
            part, request = crops[done : done + len(span)], span.order.request
            done += len(span)
            planes: tuple[Tensor, ...] = (part,)
            if not span.order.crops_only:
                planes = self.prepare(request.avatar_id, request.colour).canvas.planes(part)
            made += planes
            sizes.append(len(planes))
        return _Flight(sizes, Landing(made))

    def join(self, order: DrawOrder, parts: Sequence[Part]) -> Nv12RectBatch | CropBatch:
        """Implement `pipeline.session.overlap.Draws`."""
        arrays = [one[0] if len(one) == 1 else np.concatenate(one) for one in zip(*parts, strict=True)]
        if order.crops_only:
            return crop_batch(arrays[0], order.request)
        face = self.prepare(order.request.avatar_id, order.request.colour)
        return Nv12RectBatch(face.avatar.rect, arrays[0], arrays[1])

    def alone(self, order: DrawOrder) -> Nv12RectBatch | CropBatch:
        """Draw one order, bucket after bucket; errors as for `render`."""
        count, batch = self.open(order), self._engines.batch
        frames = len(order.request.motion.motion)
        if count is None:
            return self._moving(order.request)
        starts = range(0, frames, batch) if frames else range(1)
        spans = [Span(order, start, min(start + batch, frames)) for start in starts]
        return self.join(order, [part for span in spans for part in self.launch([span]).wait()])

    def keypoints(self, face: PreparedDittoFace, motion: F32, first_frame: int) -> tuple[Tensor, Tensor]:
        """Keypoints of source and driven face, float32 (n, 21, 3) each, on the device."""
        if not len(motion):
            return torch.zeros((0, 21, 3), device=self._device), torch.zeros((0, 21, 3), device=self._device)
        [rest] = face.at((face.rest,), first_frame, len(motion))
        return self._follow(rest, to_device(motion, self._device))

    def _follow(self, rest: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        points = self._driven(rest, offsets)
        assert isinstance(points, tuple)  # noqa: S101 - two outputs
        return points[0], points[1]

    def _at_rest(self, size: int) -> tuple[Tensor, Tensor]:
        return torch.zeros(size, REST_DIM), torch.zeros(size, MOTION_DIM)

    def _prepare(self, avatar_id: str, colour: str) -> PreparedDittoFace:
        avatar = self._load_avatar(avatar_id)
        if avatar.family != FAMILY:
            raise InvalidInputError("avatar_id", f"an avatar of the family {avatar.family}", f"one of {FAMILY}")
        tensors, engines = unpack(avatar), self._engines
        if tensors.version != engines.version:
            raise StaleAvatarError(avatar.avatar_id, tensors.version, engines.version)
        fits = tensors.volumes.nbytes <= self._cache_bytes * _RESIDENT_SHARE
        resident = self._source(tensors.volumes) if fits else None
        drive_eye = tensors.is_image if engines.config.drive_eye is None else engines.config.drive_eye
        rest = to_device(rest_rows(tensors.source_motion(), drive_eye=drive_eye), self._device)
        return PreparedDittoFace(avatar, tensors, rest, resident, open_canvas(avatar, tensors, colour))

    def _moving(self, request: RenderRequest) -> Nv12RectBatch:
        """A template video's chunk: its canvas is made frame by frame on the host."""
        face, order = self.prepare(request.avatar_id, request.colour), DrawOrder(request, crops_only=True)
        frames, batch, first = len(request.motion.motion), self._engines.batch, request.motion.first_frame
        drawn = [self._draw([Span(order, start, min(start + batch, frames))]) for start in range(0, frames, batch)]
        crops = torch.cat(drawn) if drawn else torch.zeros((0, 512, 512, 3), dtype=torch.uint8)
        return face.canvas.compose(crops, [Placed(i, Fraction(first + i)) for i in range(frames)])

    def _draw(self, spans: Sequence[Span]) -> Tensor:
        """Crops uint8 (n, 512, 512, 3) of the frames of these spans, on the device."""
        offsets, sources = list[F32](), list[tuple[Tensor, ...]]()
        for span in spans:
            request = span.order.request
            face, first = self.prepare(request.avatar_id, request.colour), request.motion.first_frame + span.start
            offsets.append(request.motion.motion[span.start : span.stop])
            sources.append((*face.at((face.rest,), first, len(span)), *self._prepared(face, first, len(span))))
        moved = np.concatenate(offsets)
        if not len(moved):
            return torch.zeros((0, 512, 512, 3), dtype=torch.uint8, device=self._device)
        rest, *prepared = of_every_frame(sources, [len(span) for span in spans])
        return self._crops(tuple(prepared), *self._follow(rest, to_device(moved, self._device)))

    def _prepared(self, face: PreparedDittoFace, first: int, count: int) -> tuple[Tensor, ...]:
        """What source frames contribute to `count` frames; one for all where the avatar is a picture."""
        if face.resident is not None:
            return face.at(face.resident, first, count)
        return self._source(face.tensors.volumes[face.source_frames(first, count)])

    def _source(self, volumes: Any) -> tuple[Tensor, ...]:
        """Features on the device, with the work that depends on them alone done."""
        synthesis = self._engines.synthesis
        uploaded = to_device(np.asarray(volumes), self._device)
        return synthesis.source(uploaded) if isinstance(synthesis, SourceRuntime) else (uploaded,)

    def _crops(self, prepared: tuple[Tensor, ...], source: Tensor, driven: Tensor) -> Tensor:
        synthesis = self._engines.synthesis
        if isinstance(synthesis, SourceRuntime):
            return synthesis.draw(prepared, source, driven)
        return synthesis.run(*prepared, source, driven)
