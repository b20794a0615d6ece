"""Multi-face, multi-scale face detection with the public short-range detector (128 x 128 input, Apache-2.0).

The network sees faces of about 15 to 90 % of its input, so a picture is searched with square windows of several sizes:
one larger than the picture (faces that fill it), the picture itself, and overlapping tiles of halving size. Boxes that
a tile's inner edge cuts are dropped, because a neighbouring tile holds the whole face.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import cv2
import numpy as np
from numpy.typing import NDArray

from engines.face.litert_model import DEFAULT_THREADS, LiteRtModel
from kernels.arrays import F32, U8
from kernels.errors import ShapeError

DETECTOR_FILE: Final = "face_detection_short_range.tflite"
INPUT_SIDE: Final = 128
MIN_SCORE: Final = 0.5
MERGE_IOU: Final = 0.3
SAME_FACE_OVERLAP: Final = 0.6
"""Two boxes of which one covers this share of the smaller are one face seen at two scales."""
CUT_MARGIN: Final = 0.04
"""Share of a window's side: a box that reaches this close to an inner edge is taken for cut."""
_ANCHOR_GRIDS: Final = ((16, 2), (8, 6))
"""(cells per side, anchors per cell) of the network's two output layers."""
_COARSE_WINDOWS: Final = (1.0, 1.7)
"""Window side in units of the picture's longer side; both see the whole picture."""
_TILE_DIVISORS: Final = (2, 4)
_LAST_RESORT_DIVISOR: Final = 8
_MIN_TILE_PX: Final = 96


@dataclass(frozen=True)
class FaceDetection:
    """A face that was found.

    Attributes:
        score: Detector confidence, 0..1.
        box: float32 (4,), x0, y0, x1, y1 in image pixels; from brow to chin; may run over the image's edge.
        keypoints: float32 (6, 2), image pixels: right eye, left eye (the subject's own), nose tip, mouth centre, right
            and left ear.
    """

    score: float
    box: F32
    keypoints: F32

    @property
    def side(self) -> float:
        """Longer side of the box in pixels."""
        return float(max(self.box[2] - self.box[0], self.box[3] - self.box[1]))


@dataclass(frozen=True)
class _Window:
    """A square view of a resized, zero-padded picture: `pixels` (128, 128, 3); image = pixel * scale + origin."""

    pixels: U8
    scale: float
    origin: tuple[float, float]
    inner_edges: tuple[bool, bool, bool, bool]


def check_rgb(image: U8, field: str = "rgb") -> None:
    """Refuse anything but uint8 (H, W, 3) with both sides at least 1.

    Raises:
        ShapeError: Any other shape or dtype.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or min(image.shape[:2]) < 1:
        raise ShapeError(field, f"{image.dtype} {tuple(image.shape)}", "uint8 (H, W, 3), RGB")


class FaceDetector:
    """Finds faces of any size and place. Not thread-safe.

    Args:
        weights_dir: Folder with `face_detection_short_range.tflite`.
        threads: CPU threads of one call.

    Raises:
        ModelFileError: The model is missing or unreadable.
    """

    def __init__(self, weights_dir: Path, threads: int = DEFAULT_THREADS) -> None:
        self._model = LiteRtModel(weights_dir / DETECTOR_FILE, threads)
        self._anchors = _anchors()

    def detect(self, rgb: U8, min_score: float = MIN_SCORE, thorough: bool = True) -> list[FaceDetection]:
        """All faces, best score first.

        Args:
            rgb: uint8 (H, W, 3), RGB.
            min_score: Boxes below are dropped, 0..1.
            thorough: Search small faces in tiles too; otherwise tiles are only searched while nothing was found.

        Raises:
            ShapeError: `rgb` is not an RGB picture.
        """
        check_rgb(rgb)
        longer = max(rgb.shape[:2])
        found: list[FaceDetection] = []
        for factor in _COARSE_WINDOWS:
            found += self._search(rgb, longer * factor, min_score)
        for divisor in (*_TILE_DIVISORS, _LAST_RESORT_DIVISOR):
            wanted = not found or (thorough and divisor != _LAST_RESORT_DIVISOR)
            if wanted and longer / divisor >= _MIN_TILE_PX:
                found += self._search(rgb, longer / divisor, min_score)
        return _keep_best(found)

    def _search(self, rgb: U8, window_px: float, min_score: float) -> list[FaceDetection]:
        found: list[FaceDetection] = []
        for window in _windows(rgb, window_px):
            found += self._detect_in(window, min_score)
        return _merge(found)

    def _detect_in(self, window: _Window, min_score: float) -> list[FaceDetection]:
        outputs = self._model.run((window.pixels.astype(np.float32) / 127.5 - 1.0)[None])
        raw, logits = (output[0] for output in sorted(outputs, key=lambda output: -output.shape[-1]))
        scores = 1.0 / (1.0 + np.exp(-np.clip(logits[:, 0], -80.0, 80.0)))
        detections = []
        for index in np.flatnonzero(scores >= min_score):
            points = (raw[index] / INPUT_SIDE).reshape(8, 2)
            centre, size = self._anchors[index] + points[0], np.abs(points[1])
            box = np.concatenate([centre - size / 2, centre + size / 2])
            if _is_cut(box, window.inner_edges):
                continue
            corners = _to_image(box.reshape(2, 2), window).reshape(4)
            keypoints = _to_image(self._anchors[index] + points[2:], window)
            detections.append(FaceDetection(float(scores[index]), corners, keypoints))
        return detections


def _anchors() -> F32:
    """Anchor centres in units of the window, float32 (896, 2), in the network's output order."""
    rows = []
    for cells, per_cell in _ANCHOR_GRIDS:
        centres = (np.arange(cells, dtype=np.float32) + 0.5) / cells
        y, x = np.meshgrid(centres, centres, indexing="ij")
        rows.append(np.repeat(np.stack([x.ravel(), y.ravel()], axis=1), per_cell, axis=0))
    return np.concatenate(rows)


def _windows(rgb: U8, window_px: float) -> Iterator[_Window]:
    """Square windows of side `window_px` that cover the picture, neighbours overlapping by half at least."""
    height, width = rgb.shape[:2]
    ratio = INPUT_SIDE / window_px
    small_w, small_h = max(1, round(width * ratio)), max(1, round(height * ratio))
    method = cv2.INTER_AREA if ratio < 1 else cv2.INTER_LINEAR
    small = cv2.resize(rgb, (small_w, small_h), interpolation=method)
    xs, ys = _starts(small_w), _starts(small_h)
    for y in ys:
        for x in xs:
            pixels = np.zeros((INPUT_SIDE, INPUT_SIDE, 3), dtype=np.uint8)
            top, left = max(y, 0), max(x, 0)
            part = small[top : y + INPUT_SIDE, left : x + INPUT_SIDE]
            pixels[top - y : top - y + part.shape[0], left - x : left - x + part.shape[1]] = part
            inner = (x > 0, y > 0, x + INPUT_SIDE < small_w, y + INPUT_SIDE < small_h)
            yield _Window(pixels, width / small_w, (float(x), float(y)), inner)


def _starts(length: int) -> list[int]:
    """Window starts along one axis; a single centred window when the picture is shorter than a window."""
    if length <= INPUT_SIDE + 1:
        return [(length - INPUT_SIDE) // 2]
    steps = -(-(length - INPUT_SIDE) // (INPUT_SIDE // 2))
    return [round(i * (length - INPUT_SIDE) / steps) for i in range(steps + 1)]


def _is_cut(box: NDArray[np.floating], inner_edges: tuple[bool, bool, bool, bool]) -> bool:
    left, top, right, bottom = inner_edges
    return bool(
        (left and box[0] < CUT_MARGIN)
        or (top and box[1] < CUT_MARGIN)
        or (right and box[2] > 1 - CUT_MARGIN)
        or (bottom and box[3] > 1 - CUT_MARGIN)
    )


def _to_image(points: NDArray[np.floating], window: _Window) -> F32:
    """Points (n, 2) in units of the window -> image pixels, pixel centres at integers."""
    small = points * INPUT_SIDE + np.asarray(window.origin)
    image: F32 = (small * window.scale - 0.5).astype(np.float32)
    return image


def _areas(boxes: F32) -> F32:
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 1e-6)
    areas: F32 = sides[:, 0] * sides[:, 1]
    return areas


def _overlaps(box: F32, boxes: F32) -> tuple[F32, F32]:
    """Intersection over union, and over the smaller of the two; both (n,)."""
    sides = np.clip(np.minimum(box[2:], boxes[:, 2:]) - np.maximum(box[:2], boxes[:, :2]), 0, None)
    shared = sides[:, 0] * sides[:, 1]
    own, others = _areas(box[None])[0], _areas(boxes)
    return shared / (own + others - shared), shared / np.minimum(own, others)


def overlap(one: F32, other: F32) -> float:
    """Intersection over union of two boxes float32 (4,), 0..1."""
    return float(_overlaps(one, other[None])[0][0])


def _merge(detections: list[FaceDetection]) -> list[FaceDetection]:
    """Score-weighted mean of boxes that agree (the detector is trained for blending, not for picking one)."""
    rest = sorted(detections, key=lambda d: -d.score)
    merged = []
    while rest:
        boxes = np.stack([d.box for d in rest])
        close = _overlaps(boxes[0], boxes)[0] >= MERGE_IOU
        close[0] = True
        group = [d for d, near in zip(rest, close, strict=True) if near]
        weights = np.array([d.score for d in group], dtype=np.float32)
        weights /= weights.sum()
        box = np.einsum("n,nk->k", weights, np.stack([d.box for d in group]))
        keypoints = np.einsum("n,nkc->kc", weights, np.stack([d.keypoints for d in group]))
        merged.append(FaceDetection(group[0].score, box.astype(np.float32), keypoints.astype(np.float32)))
        rest = [d for d, near in zip(rest, close, strict=True) if not near]
    return merged


def _keep_best(detections: list[FaceDetection]) -> list[FaceDetection]:
    """Keep one detection per face over all scales, best score first."""
    kept: list[FaceDetection] = []
    for candidate in sorted(detections, key=lambda d: -d.score):
        if kept:
            iou, share = _overlaps(candidate.box, np.stack([d.box for d in kept]))
            if bool(((iou >= MERGE_IOU) | (share >= SAME_FACE_OVERLAP)).any()):
                continue
        kept.append(candidate)
    return kept
