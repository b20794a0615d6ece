"""What the renderer must know about a source picture: its feature volume and its motion."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import nn

from engines.ditto.checkpoints import load_network
from kernels.arrays import F16, F32
from kernels.errors import ShapeError

INPUT_SIDE: Final = 256


@dataclass(frozen=True)
class SourceReading:
    """What the extractors read in a source picture.

    Attributes:
        volume: float16 (32, 16, 64, 64); the reference's own run yields half precision too.
        motion: Field -> float32 (1, k): pitch, yaw, roll 66 logits, t 3, exp 63, scale 1, kp 63.
    """

    volume: F16
    motion: dict[str, F32]


class SourceReader:
    """Appearance and motion extractor; float32 on every device (66-bin logits want it).

    Args:
        appearance: The appearance extractor.
        motion: The motion extractor.
        device: Torch device.
    """

    def __init__(self, appearance: nn.Module, motion: nn.Module, device: str = "cpu") -> None:
        self._device = torch.device(device)
        self._appearance = appearance.eval().to(self._device)
        self._motion = motion.eval().to(self._device)

    def read(self, picture: F32) -> SourceReading:
        """Read a face crop.

        Args:
            picture: float32 (256, 256, 3), RGB in 0..1.

        Raises:
            ShapeError: Another shape or type.
        """
        if picture.shape != (INPUT_SIDE, INPUT_SIDE, 3) or picture.dtype != np.float32:
            raise ShapeError("picture", f"{picture.dtype} {picture.shape}", f"float32 ({INPUT_SIDE}, {INPUT_SIDE}, 3)")
        batch = torch.from_numpy(np.ascontiguousarray(picture.transpose(2, 0, 1)))[None].to(self._device)
        with torch.inference_mode():
            volume = self._appearance(batch)[0].half().cpu().numpy()
            info = self._motion(batch)
        motion = {name: value.float().cpu().numpy() for name, value in info._asdict().items()}
        return SourceReading(volume, motion)


def load_source_reader(folder: Path, device: str = "cpu") -> SourceReader:
    """The reader over the public checkpoints.

    Raises:
        WeightsFileError: A file is missing, damaged, or of another network.
    """
    return SourceReader(load_network(folder, "appearance_extractor"), load_network(folder, "motion_extractor"), device)
