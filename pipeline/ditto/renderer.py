"""The renderer stage of Ditto: offsets -> keypoints -> face crops -> the NV12 rectangle of the canvas (the tail included)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

import numpy as np
import torch
from torch import Tensor, nn

from engines.ditto.config import DittoConfig
from engines.ditto.render_runtime import SourceRuntime
from engines.motion_layout import MOTION_DIM
from engines.runtimes.protocol import Runtime
from kernels.arrays import F32
from kernels.errors import InvalidInputError, LiveAnchorError, ShapeError
from pipeline.bounded_cache import BoundedCache
from pipeline.ditto.avatar_tensors import FAMILY, DittoTensors, unpack
from pipeline.ditto.motion_fields import MotionFields, from_vector, mirror_index
from pipeline.ditto.motion_stitch import IMAGE_KEYS, FrameControl, MotionStitch, StitchOptions
from pipeline.ditto.tail import DittoCanvas, open_canvas
from pipeline.session.tail import Placed, crop_batch
from pipeline.stages import RenderRequest
from pipeline.types import Avatar, CropBatch, Nv12RectBatch

DEFAULT_CACHE_BYTES: Final = 2 * 2**30
_RESIDENT_SHARE: Final = 0.5
"""A template video's features stay on the device when they take at most this share of the cache; else they go up frame by frame."""


class StaleAvatarError(LiveAnchorError):
    """The avatar was registered with other weights than the renderer runs.

    Args:
        avatar_id: Which.
        made_with: Version of its features.
        running: Version of the extractors beside this renderer.
    """

    code = "stale_avatar"

    def __init__(self, avatar_id: str, made_with: str, running: str) -> None:
        super().__init__(avatar_id, made_with, running)
        self.avatar_id = avatar_id
        self.made_with = made_with
        self.running = running

    def __str__(self) -> str:
        """One line: what does not fit and what to do."""
        return f"avatar {self.avatar_id} was made with weights {self.made_with}, these are {self.running}: register it again"


@dataclass(frozen=True)
class DittoEngines:
    """What the renderer runs.

    Attributes:
        synthesis: Runs an `engines.ditto.face_synthesis.FaceSynthesis`.
        stitch: The stitching network, on the CPU: 0.1 MFLOP per frame.
        config: Which fields are driven, controls of every frame, whether keypoints are stitched.
        version: Version of the extractors that avatars must have been made with.
        batch: Frames per call of the networks.
    """

    synthesis: Runtime
    stitch: nn.Module
    config: DittoConfig
    version: str
    batch: int = 1


@dataclass(frozen=True)
class PreparedDittoFace:
    """One avatar, ready to draw.

    Attributes:
        avatar: The avatar.
        tensors: Its arrays.
        source: Motion of every source frame.
        options: How offsets are applied.
        resident: What the runtime draws from, n source frames on the device: float16 features (n, 32, 16, 64, 64), or what a
            `SourceRuntime` made of them; None where features go up frame by frame.
        canvas: The tail.
    """

    avatar: Avatar
    tensors: DittoTensors
    source: list[dict[str, F32]]
    options: StitchOptions
    resident: tuple[Tensor, ...] | None
    canvas: DittoCanvas

    @property
    def size_bytes(self) -> int:
        """What the preparation holds in memory beside the mapped file."""
        resident = sum(part.numel() * part.element_size() for part in self.resident or ())
        return resident + self.canvas.size_bytes + self.tensors.motion.nbytes * 4


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
        self._cache_bytes = cache_bytes
        self._faces: BoundedCache[tuple[str, str], PreparedDittoFace] = BoundedCache(
            cache_bytes, lambda face: face.size_bytes
        )

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
        if request.fps != 25:
            raise InvalidInputError("fps", str(request.fps), "25", "the ditto renderer draws 25 frames/s")
        face = self.prepare(request.avatar_id, request.colour)
        crops = self._crops(face, request.motion.motion, request.motion.first_frame)
        frames = [Placed(i, Fraction(request.motion.first_frame + i)) for i in range(len(crops))]
        return face.canvas.compose(crops, frames)

    def crops(self, request: RenderRequest) -> CropBatch:
        """The face crops alone, one per frame of motion, for the stage that interpolates pictures; errors as for `render`."""
        motion = request.motion
        face = self.prepare(request.avatar_id, request.colour)
        return crop_batch(self._crops(face, motion.motion, motion.first_frame).cpu().numpy(), request)

    def keypoints(self, face: PreparedDittoFace, motion: F32, first_frame: int) -> tuple[F32, F32]:
        """Keypoints of source and driven face, float32 (n, 21, 3) each.

        Raises:
            ShapeError: Motion of the wrong shape.
        """
        if motion.ndim != 2 or motion.shape[1] != MOTION_DIM:
            raise ShapeError("motion", str(motion.shape), f"(n, {MOTION_DIM})")
        if not len(motion):
            return np.zeros((0, 21, 3), np.float32), np.zeros((0, 21, 3), np.float32)
        stitch = self._stitch if self._engines.config.flag_stitching else None
        steps = MotionStitch(face.source, face.options, stitch, d0=_NO_OFFSET, first_frame=first_frame)
        return steps.steps(_offset_fields(motion))

    def _prepare(self, avatar_id: str, colour: str) -> PreparedDittoFace:
        avatar = self._load_avatar(avatar_id)
        if avatar.family != FAMILY:
            raise InvalidInputError("avatar_id", f"an avatar of the family {avatar.family}", f"one of {FAMILY}")
        tensors, engines = unpack(avatar), self._engines
        if tensors.version != engines.version:
            raise StaleAvatarError(avatar.avatar_id, tensors.version, engines.version)
        fits = tensors.volumes.nbytes <= self._cache_bytes * _RESIDENT_SHARE
        resident = self._source(tensors.volumes) if fits else None
        options = StitchOptions(
            is_image=tensors.is_image,
            keys=IMAGE_KEYS,
            drive_eye=engines.config.drive_eye,
            overall=frame_control(engines.config.overall_ctrl_info),
        )
        canvas = open_canvas(avatar, tensors, colour)
        return PreparedDittoFace(avatar, tensors, tensors.source_motion(), options, resident, canvas)

    def _crops(self, face: PreparedDittoFace, motion: F32, first_frame: int) -> Tensor:
        source, driven = self.keypoints(face, motion, first_frame)
        count, batch = len(face.source), self._engines.batch
        frames = [mirror_index(first_frame + i, count) for i in range(len(motion))]
        drawn = [torch.zeros((0, 512, 512, 3), dtype=torch.uint8)]
        for start in range(0, len(frames), batch):
            part = slice(start, start + batch)
            prepared = self._prepared(face, frames[part])
            drawn.append(self._draw(prepared, torch.from_numpy(source[part]), torch.from_numpy(driven[part])))
        return torch.cat(drawn[1:]) if len(drawn) > 1 else drawn[0]

    def _prepared(self, face: PreparedDittoFace, frames: list[int]) -> tuple[Tensor, ...]:
        """What these source frames contribute; one for all where the avatar is a picture."""
        if face.resident is None:
            return self._source(face.tensors.volumes[[0] if face.tensors.is_image else frames])
        return face.resident if face.tensors.is_image else tuple(part[frames] for part in face.resident)

    def _source(self, volumes: Any) -> tuple[Tensor, ...]:
        """Features on the device, with the work that depends on them alone done."""
        synthesis = self._engines.synthesis
        uploaded = _upload(volumes, synthesis.device)
        return synthesis.source(uploaded) if isinstance(synthesis, SourceRuntime) else (uploaded,)

    def _draw(self, prepared: tuple[Tensor, ...], source: Tensor, driven: Tensor) -> Tensor:
        synthesis = self._engines.synthesis
        if isinstance(synthesis, SourceRuntime):
            return synthesis.draw(prepared, source, driven)
        return synthesis.run(*prepared, source, driven)

    def _stitch(self, source: F32, driving: F32) -> F32:
        with torch.inference_mode():
            stitched: F32 = self._engines.stitch(torch.from_numpy(source), torch.from_numpy(driving)).numpy()
        return stitched


def frame_control(info: Mapping[str, Any]) -> FrameControl:
    """A configuration's `overall_ctrl_info` as controls of every frame.

    Raises:
        InvalidInputError: A control that is not known; it is named.
    """
    delta: dict[str, float] = {}
    alpha: dict[str, float] = {}
    delta_exp, vad_alpha = None, 1.0
    for name, value in info.items():
        kind, _, target = name.partition("_")
        if name == "delta_exp":
            delta_exp = np.asarray(value, np.float32).reshape(63)
        elif name == "vad_alpha":
            vad_alpha = float(value)
        elif kind == "delta" and target in ("pitch", "yaw", "roll"):
            delta[target] = float(value)
        elif kind == "alpha" and target in ("pitch", "yaw", "roll", "exp", "t", "scale"):
            alpha[target] = float(value)
        else:
            allowed = "delta_pitch, delta_yaw, delta_roll, alpha_<field>, delta_exp, vad_alpha"
            raise InvalidInputError("overall_ctrl_info", name[:40], allowed)
    return FrameControl(delta=delta, alpha=alpha, delta_exp=delta_exp, vad_alpha=vad_alpha)


def _offset_fields(rows: F32) -> dict[str, F32]:
    """Offsets (265,) or (n, 265) as fields; their scale is an offset too, not 1 plus one."""
    fields = from_vector(rows)
    fields["scale"] -= np.float32(1.0)
    return fields


_NO_OFFSET: Final[MotionFields] = _offset_fields(np.zeros(MOTION_DIM, np.float32))


def _upload(volumes: Any, device: torch.device) -> Tensor:
    """A copy on the device (mapped files are read-only, which torch does not know)."""
    return torch.from_numpy(np.array(volumes)).to(device)
