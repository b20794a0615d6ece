"""A sheet of pictures that shows seams and fades: `python -m benchmarks.musetalk.seams` makes `docs/images/musetalk_seams.jpg`.

No weights are needed. A stand-in for the networks gives faces of 256 x 256, and everything after it is the product's: resize,
blend, NV12, the part over the avatar's own picture. Above, a face that is a third brighter and warmer, at the shares of a fade:
every pixel that painting can reach is seen. Below, the avatar's own face, which should not show: the photograph, what came out,
and the difference, eight times as strong.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

import cv2
import numpy as np
import torch

from benchmarks.quality.picture_photos import load_photo
from kernels.arrays import F32, U8
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.avatars.face_models import load_face_mesh
from pipeline.musetalk.audio_windows import WINDOW_DIM
from pipeline.musetalk.avatar_tensors import unpack
from pipeline.musetalk.bypass import FADE_FRAMES
from pipeline.musetalk.face_labels import MeshLabels
from pipeline.musetalk.face_rows import pack_rows
from pipeline.musetalk.masters import to_rgb
from pipeline.musetalk.registration import SourceModels, cut, register_picture
from pipeline.musetalk.renderer import MuseTalkEngines, MuseTalkRenderer
from pipeline.session.canvas import paste
from pipeline.stages import RenderRequest
from pipeline.types import Avatar, MotionChunk, Nv12Canvas

OUT: Final = Path(__file__).resolve().parents[2] / "docs" / "images" / "musetalk_seams.jpg"
VERSION: Final = "stand-in"
STRONGER: Final = 8
_CAST: Final = np.array([1.35, 1.2, 1.05], np.float32)
_SIDE: Final = 256
_HEIGHT: Final = 320
_QUALITY: Final = 88


class NoLatents:
    """Stands for the autoencoder, whose latents nobody reads here."""

    def read(self, face: torch.Tensor) -> torch.Tensor:
        """Zeros (n, 8, 32, 32)."""
        return torch.zeros(len(face), 8, 32, 32)


class OwnFace:
    """Stands for the painter and its decoder: always the avatar's own face, times a cast.

    Args:
        avatar: The avatar.
        cast: float32 (3,), what R, G and B are multiplied by.
    """

    name, device = "stand-in", torch.device("cpu")

    def __init__(self, avatar: Avatar, cast: F32) -> None:
        own = cv2.resize(
            cut(avatar.canvas_rgb, unpack(avatar).box(0)), (_SIDE, _SIDE), interpolation=cv2.INTER_LANCZOS4
        )
        self._face = torch.from_numpy(np.clip(own * cast, 0, 255).astype(np.uint8))

    def run(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Faces uint8 (n, 256, 256, 3) for so many latents."""
        return self._face.expand(len(inputs[0]), -1, -1, -1).contiguous()


def photo_avatar(portrait: U8 | bytes) -> Avatar:
    """A photograph as an avatar, without weights."""
    return register_picture(portrait, load_face_mesh(), SourceModels(NoLatents(), MeshLabels(), VERSION))


def painted(avatar: Avatar, cast: F32, shares: F32) -> list[U8]:
    """Whole pictures, RGB, as a viewer gets them before encoding."""
    engines = MuseTalkEngines(OwnFace(avatar, cast), VERSION, 8)
    rows = pack_rows(shares, np.zeros((len(shares), WINDOW_DIM), np.float32))
    request = RenderRequest(avatar.avatar_id, MotionChunk(rows, 0), None, 25, "bt709")
    batch = MuseTalkRenderer({avatar.avatar_id: avatar}.__getitem__, engines).render(request)
    canvas, pictures = Nv12Canvas(*rgb_to_nv12(avatar.canvas_rgb)), []
    for i in range(len(batch)):
        paste(canvas, batch.frame(i))
        pictures.append(to_rgb(canvas.y_plane, canvas.uv_plane))
    return pictures


def sheet(avatar: Avatar) -> U8:
    """The sheet, uint8 (H, W, 3), RGB."""
    box = unpack(avatar).box(0)
    near = (
        slice(max(box.top, 0), box.bottom + box.height // 3),
        slice(max(box.left - box.width // 4, 0), box.right + box.width // 4),
    )
    shares = np.linspace(0.0, 1.0, FADE_FRAMES + 1, dtype=np.float32)
    fading = painted(avatar, _CAST, shares)
    [plain] = painted(avatar, np.ones(3, np.float32), np.ones(1, np.float32))
    own = to_rgb(*rgb_to_nv12(avatar.canvas_rgb))
    apart = np.clip(128 + STRONGER * (plain.astype(np.int32) - own), 0, 255).astype(np.uint8)
    rows = [fading, [one[near] for one in fading], [one[near] for one in (own, plain, apart)]]
    lines = [np.concatenate([_sized(one) for one in row], axis=1) for row in rows]
    widest = max(line.shape[1] for line in lines)
    return np.concatenate(
        [np.pad(one, ((0, 0), (0, widest - one.shape[1]), (0, 0)), constant_values=255) for one in lines]
    ).astype(np.uint8)


def _sized(picture: U8) -> U8:
    width = round(picture.shape[1] * _HEIGHT / picture.shape[0])
    way = cv2.INTER_AREA if picture.shape[0] > _HEIGHT else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(picture, (width, _HEIGHT), interpolation=way), np.uint8)


def main(arguments: list[str] | None = None) -> None:
    """Write the sheet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--portrait", type=Path, help="another photograph; scikit-image's astronaut where left out")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(arguments)
    portrait = given.portrait.read_bytes() if given.portrait else load_photo("astronaut")
    made = cv2.cvtColor(sheet(photo_avatar(portrait)), cv2.COLOR_RGB2BGR)
    cv2.imwrite(str(given.out), made, [cv2.IMWRITE_JPEG_QUALITY, _QUALITY])
    print(given.out)


if __name__ == "__main__":
    main()
