"""The renderer stage of MuseTalk: rows -> painted faces, in batches over sessions -> the avatar's rectangle in NV12.

Frames in silence cost no network and no blend: their share is 0, and the avatar's own picture is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from engines.musetalk import FAMILY
from engines.runtimes.host_copies import Landing, to_device
from engines.runtimes.protocol import Runtime
from kernels.arrays import F32, U8
from kernels.errors import InvalidInputError
from kernels.nv12.painted import nv12_bytes, painted_nv12
from kernels.nv12.painting import Painting
from pipeline.avatars.stale import StaleAvatarError
from pipeline.bounded_cache import BoundedCache
from pipeline.musetalk.avatar_tensors import unpack
from pipeline.musetalk.device_patches import DevicePatches
from pipeline.musetalk.face_rows import read_rows
from pipeline.musetalk.own_pictures import MuseTalkOwnPictures
from pipeline.musetalk.prepared_face import PreparedFace
from pipeline.session.overlap import DrawOrder, OverlappedDrawing, Span
from pipeline.session.tail import crop_batch
from pipeline.stages import RenderRequest
from pipeline.types import CROP_SIZE, MOTION_FPS, Avatar, CropBatch, Nv12RectBatch

DEFAULT_CACHE_BYTES: Final = 2 * 2**30
_PATCHES_SHARE: Final = 0.5
"""Share of the bound on prepared faces that one avatar's patches may take on a device."""
Part = tuple[NDArray[Any], ...]
"""What a bucket has of one order: places, which of them were painted, and their rectangles as bytes; or crops."""


@dataclass(frozen=True)
class MuseTalkEngines:
    """What the renderer runs.

    Attributes:
        painter: Runs an `engines.musetalk.painter.Painter`.
        version: Version of what made the avatars' latents.
        batch: Frames per call of the networks.
    """

    painter: Runtime
    version: str
    batch: int = 1


@dataclass(frozen=True)
class _Shown:
    """One frame to be made: of whom, its place in the clip, how much of which painted face it shows (-1: of none)."""

    face: PreparedFace
    place: int
    share: float
    painted: int


@dataclass(frozen=True)
class _Flight:
    """A bucket on its way: the frames of each span, and what is being copied to the host.

    Attributes:
        spans: See `pipeline.session.overlap.Draws`.
        frames: Of each span.
        starts: Of each span, where its rectangles begin in what lands, in bytes; they lie behind each other.
        landing: The rectangles, and the painted faces where a span wants crops.
    """

    spans: Sequence[Span]
    frames: Sequence[Sequence[_Shown]]
    starts: Sequence[int]
    landing: Landing

    def wait(self) -> list[Part]:
        """Implement `pipeline.session.overlap.Flight`."""
        landed: list[U8] = [np.asarray(one, np.uint8) for one in self.landing.wait()]
        parts: list[Part] = []
        for span, frames, start in zip(self.spans, self.frames, self.starts, strict=True):
            if span.order.crops_only:
                parts.append((_crops(frames, landed[-1] if landed else None),))
            else:
                parts.append(_rectangles(frames, landed[0][start:] if landed else None))
        return parts


class MuseTalkRenderer:
    """Draws chunks of any session; keeps nothing but prepared faces.

    Args:
        load_avatar: Id -> avatar; raises a typed error for an unknown id.
        engines: The networks.
        cache_bytes: Bound on prepared faces.
    """

    def __init__(
        self,
        load_avatar: Callable[[str], Avatar],
        engines: MuseTalkEngines,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
    ) -> None:
        self._load_avatar = load_avatar
        self._engines = engines
        self._cache_bytes = cache_bytes
        self._faces: BoundedCache[tuple[str, str], PreparedFace] = BoundedCache(
            cache_bytes, lambda face: face.size_bytes
        )

    def prepare(self, avatar_id: str, colour: str) -> PreparedFace:
        """The prepared face of an avatar, from the cache or made now."""
        return self._faces.get_or_build((avatar_id, colour), lambda: self._prepare(avatar_id, colour))

    def warm_avatars(self) -> list[str]:
        """Ids of the avatars that are prepared now."""
        return sorted({avatar_id for avatar_id, _ in self._faces.keys()})

    def render(self, request: RenderRequest) -> Nv12RectBatch:
        """Draw one chunk.

        Args:
            request: n frames of rows at 25 frames/s.

        Returns:
            n frames.

        Raises:
            ShapeError: Rows of the wrong shape.
            InvalidInputError: Another frame rate, which this family makes by interpolating pictures, not here.
            StaleAvatarError: The avatar's latents belong to other weights.
            LiveAnchorError: The avatar cannot be loaded.
        """
        batch = self.alone(DrawOrder(request))
        assert isinstance(batch, Nv12RectBatch)  # noqa: S101 - narrows the type for the checker
        return batch

    def crops(self, request: RenderRequest) -> CropBatch:
        """The face crops alone, one per frame, for the stage that interpolates pictures; errors as for `render`."""
        batch = self.alone(DrawOrder(request, crops_only=True))
        assert isinstance(batch, CropBatch)  # noqa: S101 - narrows the type for the checker
        return batch

    def overlapped(self) -> OverlappedDrawing[Part, Nv12RectBatch | CropBatch]:
        """Draw orders of many sessions in shared buckets, in a thread of its own."""
        return OverlappedDrawing(self, bucket=max(self._engines.batch, 1))

    def open(self, order: DrawOrder) -> int | None:
        """Implement `pipeline.session.overlap.Draws`."""
        request = order.request
        if request.fps != MOTION_FPS and not order.crops_only:
            raise InvalidInputError("fps", str(request.fps), "25", f"the {FAMILY} renderer draws 25 frames/s")
        rows = request.motion.motion
        face = self.prepare(request.avatar_id, request.colour)
        read_rows(rows[:0], face.tensors.faces[:0])  # a wrong width belongs to this order, not to its bucket
        return len(rows)

    def launch(self, spans: Sequence[Span]) -> _Flight:
        """Queue the painting of one bucket, of any faces; see `pipeline.session.overlap.Draws`."""
        frames, tokens, asked, painted = list[list[_Shown]](), list[F32](), list[tuple[PreparedFace, list[int]]](), 0
        for span in spans:
            request = span.order.request
            face = self.prepare(request.avatar_id, request.colour)
            places = face.places(request.motion.first_frame + span.start, len(span))
            rows = read_rows(request.motion.motion[span.start : span.stop], face.tensors.faces[places])
            numbers = np.where(rows.shares > 0, painted + np.cumsum(rows.shares > 0) - 1, -1)
            frames.append(
                [
                    _Shown(face, place, float(share), int(number))
                    for place, share, number in zip(places, rows.shares, numbers, strict=True)
                ]
            )
            if len(rows.tokens):
                if not asked or asked[-1][0] is not face:
                    asked.append((face, []))
                asked[-1][1].extend(places[i] for i in rows.painted)
                tokens.append(rows.tokens)
                painted += len(rows.tokens)
        if not painted:
            return _Flight(spans, frames, [0] * len(spans), Landing([]))
        device = self._engines.painter.device
        latents = torch.cat([_rows_of(face.latents, places) for face, places in asked])
        faces = self._engines.painter.run(latents, to_device(np.concatenate(tokens), device))
        return _Flight(spans, frames, *self._put_in(spans, frames, faces))

    def join(self, order: DrawOrder, parts: Sequence[Part]) -> Nv12RectBatch | CropBatch:
        """Implement `pipeline.session.overlap.Draws`."""
        arrays = [one[0] if len(one) == 1 else np.concatenate(one) for one in zip(*parts, strict=True)]
        if order.crops_only:
            return crop_batch(arrays[0], order.request)
        face = self.prepare(order.request.avatar_id, order.request.colour)
        places, painted, packed = arrays
        return face.painted_parts(places, painted, packed).over(face.own)

    def alone(self, order: DrawOrder) -> Nv12RectBatch | CropBatch:
        """Draw one order, bucket after bucket; errors as for `render`."""
        count, batch = self.open(order) or 0, max(self._engines.batch, 1)
        starts = range(0, count, batch) if count else range(1)
        spans = [Span(order, start, min(start + batch, count)) for start in starts]
        return self.join(order, [part for span in spans for part in self.launch([span]).wait()])

    def _put_in(
        self, spans: Sequence[Span], frames: Sequence[Sequence[_Shown]], faces: torch.Tensor
    ) -> tuple[list[int], Landing]:
        """Queue the blending and the copies to the host: rectangles in NV12, and faces where a span wants crops.

        Returns:
            Where the rectangles of each span begin, and what lands.
        """
        by_colour: dict[str, list[tuple[int, list[Painting]]]] = {}
        for index, (span, shown) in enumerate(zip(spans, frames, strict=True)):
            if not span.order.crops_only:
                own = [one.face.painting(one.place, one.painted, one.share) for one in shown if one.painted >= 0]
                by_colour.setdefault(span.order.request.colour, []).append((index, own))
        starts, at, packed = [0] * len(spans), 0, list[torch.Tensor]()
        for colour, asked in by_colour.items():
            for index, own in asked:
                starts[index] = at
                at += sum(nv12_bytes(*one.size) for one in own)
            packed.append(painted_nv12(faces, [one for _, own in asked for one in own], colour))
        if not packed:
            packed.append(torch.zeros(0, dtype=torch.uint8, device=faces.device))
        landing = [packed[0] if len(packed) == 1 else torch.cat(packed)]
        if any(span.order.crops_only for span in spans):
            landing.append(faces)
        return starts, Landing(landing)

    def _prepare(self, avatar_id: str, colour: str) -> PreparedFace:
        avatar = self._load_avatar(avatar_id)
        if avatar.family != FAMILY:
            raise InvalidInputError("avatar_id", f"an avatar of the family {avatar.family}", f"one of {FAMILY}")
        tensors = unpack(avatar)
        if tensors.version != self._engines.version:
            raise StaleAvatarError(avatar.avatar_id, tensors.version, self._engines.version)
        device = self._engines.painter.device
        patches = DevicePatches(tensors, device, int(self._cache_bytes * _PATCHES_SHARE))
        latents = to_device(tensors.latents, device)
        own = MuseTalkOwnPictures(avatar, tensors, colour)
        return PreparedFace(avatar, tensors, colour, latents, own, patches)


def _rows_of(array: torch.Tensor, places: Sequence[int]) -> torch.Tensor:
    """Rows by index, without waiting for the device, as indexing by a list does: torch copies such an index at once."""
    return array.index_select(0, to_device(np.array(places, np.int64), array.device))


def _rectangles(frames: Sequence[_Shown], packed: U8 | None) -> Part:
    """Places int32 (n,), whether each was painted bool (n,), and the painted rectangles uint8 (m, bytes), copied."""
    places = np.array([one.place for one in frames], np.int32)
    painted = np.array([one.painted >= 0 for one in frames], np.bool_)
    if packed is None or not painted.any():
        size = frames[0].face.rectangle_bytes if frames else 0
        return places, painted, np.zeros((0, size), np.uint8)
    size, count = frames[0].face.rectangle_bytes, int(painted.sum())
    return places, painted, packed[: size * count].reshape(count, size).copy()


def _crops(frames: Sequence[_Shown], faces: U8 | None) -> U8:
    """The squares of a span around the face."""
    if not frames:
        return np.zeros((0, CROP_SIZE, CROP_SIZE, 3), np.uint8)
    painted = [None if one.painted < 0 or faces is None else faces[one.painted] for one in frames]
    return np.stack([one.face.crop(one.place, face, one.share) for one, face in zip(frames, painted, strict=True)])
