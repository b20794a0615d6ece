"""A sheet of pictures that shows seams and fades: `python -m benchmarks.musetalk.seams --portrait FILE --out sheet.jpg`.

No weights are needed: a stand-in paints the avatar's own face, a third brighter and warmer, so that every pixel that painting can
reach is seen. Above, the shares of a fade-in; below, the face alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import cv2
import numpy as np
import torch

from kernels.arrays import U8
from pipeline.avatars.face_models import load_face_mesh
from pipeline.musetalk.avatar_tensors import MuseTalkTensors, unpack
from pipeline.musetalk.blend import mix
from pipeline.musetalk.bypass import FADE_FRAMES
from pipeline.musetalk.face_labels import MeshLabels
from pipeline.musetalk.registration import SourceModels, register_picture

_CAST: Final = np.array([1.35, 1.2, 1.05], np.float32)
_HEIGHT: Final = 640


class NoLatents:
    """Stands for the autoencoder, whose latents nobody reads here."""

    def read(self, face: torch.Tensor) -> torch.Tensor:
        """Zeros (n, 8, 32, 32)."""
        return torch.zeros(len(face), 8, 32, 32)


def painted(canvas: U8, tensors: MuseTalkTensors, share: float) -> U8:
    """The canvas with the stand-in's face at a share of 0..1."""
    x, y = (int(number) for number in tensors.corners[0])
    patch, mask = np.asarray(tensors.patches[0]), np.asarray(tensors.masks[0])
    out = canvas.copy()
    cast = np.clip(patch * _CAST, 0, 255).astype(np.uint8)
    out[y : y + patch.shape[0], x : x + patch.shape[1]] = mix(patch, cast, mask, share)
    return out


def sheet(portrait: bytes) -> U8:
    """The sheet, uint8 (H, W, 3), RGB."""
    avatar = register_picture(portrait, load_face_mesh(), SourceModels(NoLatents(), MeshLabels(), "stand-in"))
    tensors, canvas = unpack(avatar), np.asarray(avatar.canvas_rgb)
    rows = []
    box = tensors.box(0)
    grown = (
        slice(max(box.top, 0), box.bottom + box.height // 3),
        slice(max(box.left - box.width // 4, 0), box.right + box.width // 4),
    )
    for part in ((slice(None), slice(None)), grown):
        pictures = [painted(canvas, tensors, i / FADE_FRAMES)[part] for i in range(FADE_FRAMES + 1)]
        width = round(pictures[0].shape[1] * _HEIGHT / pictures[0].shape[0])
        sized = [cv2.resize(one, (width, _HEIGHT), interpolation=cv2.INTER_AREA) for one in pictures]
        rows.append(np.concatenate(sized, axis=1))
    widest = max(row.shape[1] for row in rows)
    return np.concatenate([np.pad(row, ((0, 0), (0, widest - row.shape[1]), (0, 0))) for row in rows]).astype(np.uint8)


def main() -> None:
    """Write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--portrait", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    cv2.imwrite(str(given.out), sheet(given.portrait.read_bytes())[:, :, ::-1])
    print(given.out)


if __name__ == "__main__":
    main()
