"""MuseTalk with narrow networks: a checkpoint folder, written once per process, and avatars of the drawn presenter."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch

from engines.musetalk.version import latents_version
from kernels.arrays import F32, U8
from pipeline.musetalk.face_labels import MeshLabels
from pipeline.musetalk.registration import SourceModels, make_avatar
from pipeline.types import Avatar
from tests.support.faces import presenter
from tests.support.require import missing


def need_libraries() -> None:
    """Skip where the extra `musetalk` is not installed; a failure where it is promised."""
    for module in ("diffusers", "transformers"):
        if find_spec(module) is None:
            missing("EXTRAS", f"{module} is not installed; it comes with the extra musetalk")


@functools.cache
def _folder() -> Path:
    from benchmarks.musetalk.checkpoint_folder import write_folder

    return write_folder(Path(tempfile.mkdtemp(prefix="liveanchor-test-musetalk-")))


def narrow_folder() -> Path:
    """The folder; treat it as read-only."""
    need_libraries()
    return _folder()


def drawn(shift: int = 0) -> tuple[U8, F32]:
    """The presenter's canvas and mesh, moved to the right."""
    drawing = presenter()
    canvas = np.roll(drawing.rgb, shift, axis=1)
    return np.ascontiguousarray(canvas), (drawing.landmarks + np.array([shift, 0, 0], np.float32)).astype(np.float32)


class FormulaReader:
    """Latents that follow from the picture, without a network."""

    def read(self, face: torch.Tensor) -> torch.Tensor:
        grey = torch.nn.functional.avg_pool2d(face.float().mean(3)[:, None] / 255.0, 8)
        return torch.cat([grey - 0.1 * i for i in range(8)], dim=1)


def source_models() -> SourceModels:
    """Latents by formula, parts of the face from the mesh, under the version of the narrow folder."""
    return SourceModels(FormulaReader(), MeshLabels(), latents_version(narrow_folder()))


@functools.cache
def photo_avatar() -> Avatar:
    """The presenter as a picture."""
    return clip_avatar(1)


@functools.cache
def clip_avatar(frames: int = 5, lost: tuple[int, ...] = ()) -> Avatar:
    """The presenter as a clip that moves to the right by two pixels a frame; in some frames the face is not found."""
    pairs = [drawn(2 * i) for i in range(frames)]
    faces = [None if i in lost else mesh for i, (_, mesh) in enumerate(pairs)]
    return make_avatar(lambda: (canvas for canvas, _ in pairs), faces, source_models(), "drawn")


class Ears:
    """Stands for the speech encoder: rows that follow from the samples, without a network."""

    def encode(self, windows: Sequence[F32]) -> list[F32]:
        return [window[: len(window) // 320 * 320].reshape(-1, 320)[:, :1].repeat(1920, axis=1) for window in windows]


class Stamp:
    """Stands for the painter: a grey that follows from the latents and the tokens; counts its frames."""

    name, device = "stamp", torch.device("cpu")

    def __init__(self) -> None:
        self.batches: list[int] = []

    def run(self, *inputs: torch.Tensor) -> torch.Tensor:
        latents, tokens = inputs
        self.batches.append(len(latents))
        grey = (latents.float().mean((1, 2, 3)) * 40 + tokens.mean((1, 2)) * 400 + 128).clamp(0, 255)
        return grey.to(torch.uint8)[:, None, None, None].expand(-1, 256, 256, 3).contiguous()
