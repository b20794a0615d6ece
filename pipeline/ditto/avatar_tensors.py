"""What a Ditto avatar's bundle holds in addition to the canvas, and how it is read again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from engines.motion_layout import MOTION_DIM
from kernels.arrays import F16, F32, U8
from kernels.errors import ShapeError
from pipeline.avatars.arrays import sized_array
from pipeline.ditto.motion_fields import MotionFields, from_vector, to_vector
from pipeline.ditto.speaker import Speaker
from pipeline.types import Avatar

VOLUME_SHAPE: Final = (32, 16, 64, 64)
_KEYPOINT_VALUES: Final = 63
_SPEAKER: Final = {"source": 1, "shape": 1, "eye_open": 2, "eye_ball": 2, "drive": 1}
"""Field of `Speaker` -> dimensions; `blink` is left out of the bundle where there is none."""


@dataclass(frozen=True)
class DittoTensors:
    """The family's part of a bundle; arrays may be views of the memory-mapped file.

    Attributes:
        volumes: float16 (n, 32, 16, 64, 64), features of every source frame.
        motion: float32 (n, 328), their motion vectors, canonical keypoints behind.
        crop_to_frame: float32 (n, 2, 3), crop pixels to canvas pixels, centres at integers.
        frames: uint8 (n, H, W, 3), the canvas of every source frame; None for a picture.
        speaker: What the motion model knows of the avatar.
        blink_gaps: Frames between canned blinks, see `pipeline.ditto.blink_schedule.blink_indices`.
        version: Weights that volumes and motion come from.
    """

    volumes: F16
    motion: F32
    crop_to_frame: F32
    frames: U8 | None
    speaker: Speaker
    blink_gaps: int | tuple[int, ...]
    version: str

    @property
    def is_image(self) -> bool:
        """Whether the avatar is one picture (True) or a template video."""
        return self.frames is None

    def source_motion(self) -> list[dict[str, F32]]:
        """Motion of every source frame as fields, with `kp`."""
        return [{**from_vector(row[:MOTION_DIM]), "kp": row[None, MOTION_DIM:].copy()} for row in self.motion]

    def pack(self) -> dict[str, NDArray[np.generic]]:
        """As the bundle's named arrays."""
        gaps = (self.blink_gaps,) if isinstance(self.blink_gaps, int) else self.blink_gaps
        packed: dict[str, NDArray[np.generic]] = {
            "volumes": self.volumes,
            "motion": self.motion,
            "crop_to_frame": self.crop_to_frame,
            "version": np.frombuffer(self.version.encode("ascii"), np.uint8),
            "blink_gaps": np.array(gaps, np.int32),
        }
        packed |= {f"speaker.{name}": getattr(self.speaker, name) for name in _SPEAKER}
        if len(self.speaker.blink):
            packed["speaker.blink"] = self.speaker.blink
        if self.frames is not None:
            packed["frames"] = self.frames
        return packed


def pack_motion_rows(frames: Sequence[MotionFields]) -> F32:
    """Motion fields with `kp` -> float32 (n, 328)."""
    rows = [np.concatenate([to_vector(fields), fields["kp"][0].astype(np.float32)]) for fields in frames]
    return np.stack(rows)


def unpack(avatar: Avatar) -> DittoTensors:
    """Read a bundle's arrays; nothing large is copied.

    Raises:
        ShapeError: An array is missing or has the wrong shape or type; it names the array.
    """
    tensors = avatar.tensors
    count = len(sized_array(tensors, "motion", np.float32, (-1, MOTION_DIM + _KEYPOINT_VALUES)))
    frames = None
    if "frames" in tensors:
        frames = sized_array(tensors, "frames", np.uint8, (count, *avatar.canvas_rgb.shape))
    elif count != 1:
        raise ShapeError("tensors.frames", "none", f"uint8 ({count}, H, W, 3)")
    parts = {name: sized_array(tensors, f"speaker.{name}", np.float32, (-1,) * dims) for name, dims in _SPEAKER.items()}
    blink = np.zeros((0, _KEYPOINT_VALUES), np.float32)
    if "speaker.blink" in tensors:
        blink = sized_array(tensors, "speaker.blink", np.float32, (-1, _KEYPOINT_VALUES))
    gaps = tuple(int(gap) for gap in sized_array(tensors, "blink_gaps", np.int32, (-1,)))
    return DittoTensors(
        volumes=sized_array(tensors, "volumes", np.float16, (count, *VOLUME_SHAPE)),
        motion=tensors["motion"],  # type: ignore[arg-type]  # checked above
        crop_to_frame=sized_array(tensors, "crop_to_frame", np.float32, (count, 2, 3)),
        frames=frames,
        speaker=Speaker(**parts, blink=blink),
        blink_gaps=gaps[0] if len(gaps) == 1 else gaps,
        version=sized_array(tensors, "version", np.uint8, (-1,)).tobytes().decode("ascii", "replace"),
    )
