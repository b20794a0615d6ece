"""The face drawn straight into the canvas's own pixels, in NV12 planes: how the CPU draws it.

The same fields that draw the crop (`engines.mini.mesh_renderer`) are spread over the face's square of the canvas, and the canvas
itself is sampled through them, twice as fine as the canvas or the crop, whichever is finer: nothing is lost on the way through
512 x 512 pixels, and no colour is converted but that of eyes and mouth.

Luma is held at two texels per pixel. Chroma is held once per pixel, without subsampling, and sampled in the middle of every 2 x 2
block: on a face at rest that is the block's mean, as `kernels.nv12.from_rgb` has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import cv2
import numpy as np
import torch

from engines.mini.eye_patch import EyePatch, build_eye
from engines.mini.eyelids import render_eye
from engines.mini.face_frame import build_frame
from engines.mini.mesh_deform import PosedFace
from engines.mini.mesh_lattice import CROP
from engines.mini.mouth_compose import FEATHER_PX, MouthLayers, draw_mouth, feather
from engines.mini.mouth_layers import TEXTURE_SCALE, finer_texture
from kernels.arrays import F32, U8
from kernels.nv12.colour import ColourMatrix, colour_matrix
from kernels.nv12.from_rgb import convert_planes, rgb_to_chroma, rgb_to_luma
from kernels.sampling.remap import remap_bilinear

Part = tuple[int, int, int, int]
"""Left, top, right and bottom edge of a part of the square, even canvas pixels."""
SHARP: Final = cv2.INTER_CUBIC | cv2.WARP_INVERSE_MAP


@dataclass(frozen=True)
class FacePlanes:
    """One face, ready to be drawn at the canvas's scale.

    Attributes:
        side: Side of the face's square, canvas pixels.
        part: What of the square is drawn.
        luma: uint8 (2 b, 2 b), b the side of the source picture.
        chroma: uint8 (b, b, 2), U and V.
        eyes: The right and the left eye, in texels of `luma`.
        colour: Colour standard.
        places: float32 (h, w, 2), texels of `luma` under the part's pixels at rest.
        chroma_places: float32 (h / 2, w / 2, 2), pixels of `chroma` under its chroma samples at rest.
    """

    side: int
    part: Part
    luma: U8
    chroma: U8
    eyes: tuple[EyePatch, EyePatch]
    colour: ColourMatrix
    places: F32
    chroma_places: F32

    @property
    def nbytes(self) -> int:
        """Bytes held, but for the eyes' patches, which are small."""
        return self.luma.nbytes + self.chroma.nbytes + self.places.nbytes + self.chroma_places.nbytes


def build_face_planes(square: U8, crop: U8, landmarks: F32, part: Part, colour: str = "bt709") -> FacePlanes:
    """Prepare one face.

    Args:
        square: uint8 (side, side, 3), RGB, the canvas in the face's square.
        crop: uint8 (512, 512, 3), the same at the crop's scale; it is drawn from where the square has fewer pixels.
        landmarks: float32 (468, 3), crop pixels.
        part: What of the square is drawn.
        colour: "bt709" or "bt601".
    """
    side = len(square)
    source = square if side >= CROP else crop
    base, matrix = len(source), colour_matrix(colour)
    fine = finer_texture(source)
    ratio = base / CROP
    points = landmarks * np.float32(ratio)
    points[:, :2] += np.float32((ratio - 1) / 2)
    frame = build_frame(points)
    return FacePlanes(
        side=side,
        part=part,
        luma=rgb_to_luma(fine, matrix),
        chroma=rgb_to_chroma(source, matrix),
        eyes=(build_eye(frame, fine, right=True), build_eye(frame, fine, right=False)),
        colour=matrix,
        places=_places(side, part, base, 1) * np.float32(TEXTURE_SCALE),
        chroma_places=_places(side, part, base, 2),
    )


class FacePainter:
    """Draws consecutive frames of one face; holds the textures into which the eyes are drawn, so it is for one thread."""

    def __init__(self, planes: FacePlanes, mouth: MouthLayers) -> None:
        self._planes = planes
        self._mouth = mouth
        self._luma, self._chroma = planes.luma.copy(), planes.chroma.copy()
        height, width = planes.places.shape[:2]
        self._dense = np.empty((planes.side, planes.side, 2), np.float32)
        self._dense_chroma = np.empty((planes.side // 2, planes.side // 2, 2), np.float32)
        self._y, self._uv = np.empty((height, width), np.uint8), np.empty((height // 2, width // 2, 2), np.uint8)

    def draw(self, posed: PosedFace) -> tuple[U8, U8]:
        """Draw one frame.

        Args:
            posed: The fields of the frame, a batch of one on the CPU.

        Returns:
            The part's luma uint8 (h, w) and chroma uint8 (h / 2, w / 2, 2); overwritten by the next call.
        """
        planes = self._planes
        for number, eye in enumerate(planes.eyes):
            self._draw_eye(eye, posed.motion.lids[:, number], posed.motion.gaze[:, number])
        lattice = posed.backward[0].numpy() * np.float32(len(planes.chroma) / CROP)
        chroma_places = _spread(lattice, self._dense_chroma, planes.part, 2)
        remap_bilinear(self._chroma, np.add(chroma_places, planes.chroma_places, out=chroma_places), self._uv)
        places = _spread(lattice * np.float32(TEXTURE_SCALE), self._dense, planes.part, 1)
        remap_bilinear(self._luma, np.add(places, planes.places, out=places), self._y)
        self._draw_mouth(posed)
        return self._y, self._uv

    def _draw_eye(self, eye: EyePatch, lids: torch.Tensor, gaze: torch.Tensor) -> None:
        x, y, width, height = eye.box.tolist()
        patch = render_eye(eye, lids, gaze)[0].numpy()
        self._luma[y : y + height, x : x + width] = rgb_to_luma(patch, self._planes.colour)
        small = rgb_to_chroma(np.ascontiguousarray(patch[::TEXTURE_SCALE, ::TEXTURE_SCALE]), self._planes.colour)
        x, y = x // TEXTURE_SCALE, y // TEXTURE_SCALE
        self._chroma[y : y + small.shape[0], x : x + small.shape[1]] = small

    def _draw_mouth(self, posed: PosedFace) -> None:
        """Bring the mouth, drawn in crop pixels, onto the canvas's."""
        box, picture = draw_mouth(self._mouth, posed)
        scale, part = self._planes.side / CROP, self._planes.part
        left, top = max(_even_up(box.x * scale), part[0]), max(_even_up(box.y * scale), part[1])
        right = min(int((box.x + box.columns * box.cell) * scale) // 2 * 2, part[2])
        bottom = min(int((box.y + box.rows * box.cell) * scale) // 2 * 2, part[3])
        if left >= right or top >= bottom:
            return
        step = 1.0 / scale
        corner = (np.array([left, top]) + 0.5) * step - 0.5 - (box.x, box.y)
        matrix = np.array([[step, 0.0, corner[0]], [0.0, step, corner[1]]])
        size = (right - left, bottom - top)
        colours = [
            cv2.warpAffine(plane, matrix, size, flags=SHARP, borderMode=cv2.BORDER_REPLICATE).astype(
                np.float32, copy=False
            )
            for plane in picture[0].numpy()
        ]
        y, uv = np.empty((size[1], size[0]), np.uint8), np.empty((size[1] // 2, size[0]), np.uint8)
        convert_planes(colours, self._planes.colour, "mean", y, uv)
        share = feather(size[1], size[0], torch.device("cpu"), FEATHER_PX * scale).numpy()
        x0, y0 = left - part[0], top - part[1]
        _blend(y, self._y[y0 : y0 + size[1], x0 : x0 + size[0]], share)
        half = np.ascontiguousarray(share[::2, ::2])
        rows, columns = slice(y0 // 2, (y0 + size[1]) // 2), slice(x0 // 2, (x0 + size[0]) // 2)
        _blend(uv.reshape(*half.shape, 2), self._uv[rows, columns], half)


def _blend(over: U8, under: U8, share: F32) -> None:
    """Mix a picture into another one, in place."""
    under[...] = cv2.blendLinear(over, under, share, np.float32(1.0) - share)


def _even_up(edge: float) -> int:
    return -(-int(np.ceil(edge)) // 2) * 2


def _spread(lattice: F32, whole: F32, part: Part, coarser: int) -> F32:
    """The lattice at every sample of the part, a view of `whole`; nodes are middles of equal blocks, as `cv2.resize` has them."""
    cv2.resize(lattice, (whole.shape[1], whole.shape[0]), dst=whole, interpolation=cv2.INTER_LINEAR)
    left, top, right, bottom = (edge // coarser for edge in part)
    view: F32 = whole[top:bottom, left:right]
    return view


def _places(side: int, part: Part, base: int, coarser: int) -> F32:
    """Pixels of the source under the part's samples, float32 (h, w, 2); `coarser` canvas pixels per sample."""
    left, top, right, bottom = part
    xs, ys = (
        (np.arange(first // coarser, last // coarser) + 0.5) * coarser * base / side - 0.5
        for first, last in ((left, right), (top, bottom))
    )
    return np.stack(np.meshgrid(xs, ys), axis=-1).astype(np.float32)
