"""Ditto avatars without large networks: extractors that are formulas of the picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from engines.ditto.config import DittoConfig
from engines.ditto.source_reader import SourceReader
from engines.networks.ditto.motion_extractor import MotionInfo
from kernels.arrays import U8
from pipeline.ditto.face_landmarks import FoundFace
from pipeline.ditto.registration import SourceModels, make_avatar
from pipeline.types import Avatar
from tests.golden.support import motion_info
from tests.support.faces import presenter


class FormulaAppearance(nn.Module):
    """A volume whose every channel is the picture's grey."""

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        small = nn.functional.avg_pool2d(image.mean(1, keepdim=True), 4)
        return small[:, :, None].expand(-1, 32, 16, -1, -1).contiguous()


class FormulaMotion(nn.Module):
    """The golden motion of a fixed face, its translation moved by the picture's brightness."""

    def forward(self, image: torch.Tensor) -> MotionInfo:
        info = {name: torch.from_numpy(value) for name, value in motion_info("avatar").items()}
        info["t"] = info["t"] + image.mean()
        return MotionInfo(**info)


def source_models(**config: Any) -> SourceModels:
    reader = SourceReader(FormulaAppearance(), FormulaMotion())
    return SourceModels(reader, DittoConfig(**config), "0123456789abcdef")


def drawn_face(shift: tuple[int, int] = (0, 0)) -> tuple[U8, FoundFace]:
    """The presenter's canvas and its known face, both moved."""
    drawing = presenter()
    canvas = np.roll(drawing.rgb, (shift[1], shift[0]), axis=(0, 1))
    mesh = (drawing.landmarks + np.array([*shift, 0], np.float32)).astype(np.float32)
    return canvas, FoundFace(mesh[:, :2], mesh)


def still_avatar(**config: Any) -> Avatar:
    canvas, face = drawn_face()
    return make_avatar([canvas], [face], source_models(**config), "drawn")


def video_avatar(frames: int = 3, **config: Any) -> Avatar:
    pairs = [drawn_face((2 * i, i)) for i in range(frames)]
    return make_avatar([c for c, _ in pairs], [f for _, f in pairs], source_models(**config), "moving")
