"""Faces to train the interpolation network on: our own drawing, reshaped, recoloured and textured by chance, prepared to be drawn.

The drawing as it comes is held out for the evaluation. Prepared faces travel as one safetensors file each, because preparing
needs OpenCV 4 and the machine with the GPU may have another one.
"""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, Final, get_type_hints

import cv2
import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from engines.mini.mesh_renderer import MeshFace, MeshRenderer
from kernels.arrays import F32, U8
from kernels.sampling.remap import remap_bilinear

HELD_OUT: Final = "held_out"
SIZE: Final = 512


def smooth_noise(rng: np.random.Generator, cells: int, channels: int, size: int = SIZE) -> F32:
    """Noise with about `cells` bumps across, (size, size, channels), standard deviation 1."""
    coarse = rng.standard_normal((cells, cells, channels)).astype(np.float32)
    fine = cv2.resize(coarse, (size, size), interpolation=cv2.INTER_CUBIC).reshape(size, size, channels)
    return np.asarray(fine / max(float(fine.std()), 1e-6), np.float32)


def reshaped(crop: U8, landmarks: F32, rng: np.random.Generator) -> tuple[U8, F32]:
    """Another face: the picture and its landmarks moved by one smooth field.

    Args:
        crop: uint8 (512, 512, 3).
        landmarks: float32 (468, 3), crop pixels.
        rng: Chance.
    """
    stretch = rng.uniform((0.9, 0.92), (1.12, 1.1))
    field = smooth_noise(rng, 5, 2) * 5.0
    rows, columns = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)
    centre = np.float32(SIZE / 2)
    source_x = (columns - centre) / np.float32(stretch[0]) + centre + field[..., 0]
    source_y = (rows - centre) / np.float32(stretch[1]) + centre + field[..., 1]
    out = np.empty_like(crop)
    remap_bilinear(crop, np.stack([source_x, source_y], axis=-1), out)
    moved = landmarks.copy()
    places = landmarks[:, :2].copy()
    for _ in range(12):  # the place whose source is the landmark
        at = np.clip(places.round().astype(int), 0, SIZE - 1)
        source = np.stack([source_x[at[:, 1], at[:, 0]], source_y[at[:, 1], at[:, 0]]], axis=-1)
        places += 0.7 * (landmarks[:, :2] - source)
    moved[:, :2] = places
    return out, moved


def recoloured(crop: U8, rng: np.random.Generator) -> U8:
    """Another skin, hair and light: mixed channels, curves, several octaves of grain, strokes."""
    picture = crop.astype(np.float32) / 255.0
    mix = np.eye(3, dtype=np.float32) + rng.normal(0.0, 0.12, (3, 3)).astype(np.float32)
    picture = np.clip(picture @ mix.T, 0.0, 1.0) ** np.float32(rng.uniform(0.6, 1.6))
    for cells, strength in ((6, 0.10), (24, 0.07), (90, 0.07), (256, 0.06)):
        share = np.float32(strength * rng.uniform(0.2, 1.2))
        picture *= 1.0 + share * smooth_noise(rng, cells, 1 if rng.random() < 0.6 else 3)
    strokes = np.zeros((SIZE, SIZE), np.float32)
    for _ in range(int(rng.integers(0, 60))):
        ends = rng.integers(0, SIZE, 4)
        cv2.line(strokes, ends[:2].tolist(), ends[2:].tolist(), float(rng.uniform(-0.25, 0.25)), 1, cv2.LINE_AA)
    return np.asarray(np.clip(picture + strokes[..., None], 0.0, 1.0) * 255.0 + 0.5, np.uint8)


def make_faces(folder: Path, count: int, seed: int = 5) -> None:
    """Write `count` faces for training and the drawing itself as the held-out one."""
    from pipeline.mini.presenter import default_avatar

    tensors = default_avatar().tensors
    crop = np.ascontiguousarray(tensors["crop_rgb"], np.uint8)
    landmarks = np.ascontiguousarray(tensors["landmarks"], np.float32)
    renderer = MeshRenderer("cpu")
    folder.mkdir(parents=True, exist_ok=True)
    for index in range(count):
        rng = np.random.default_rng((seed, index))
        picture, places = reshaped(crop, landmarks, rng)
        save_face(folder / f"face{index}.safetensors", renderer.prepare(recoloured(picture, rng), places))
    save_face(folder / f"{HELD_OUT}.safetensors", renderer.prepare(crop, landmarks))


def save_face(path: Path, face: MeshFace) -> None:
    """Write a prepared face: tensors by their place in it, plain values in the header."""
    tensors: dict[str, Tensor] = {}
    values: dict[str, Any] = {}
    _flatten(face, "", tensors, values)
    save_file(tensors, str(path), metadata={"values": json.dumps(values)})


def load_face(path: Path, device: torch.device | str) -> MeshFace:
    """Read what `save_face` wrote."""
    with safe_open(str(path), framework="pt") as file:
        values = json.loads(file.metadata()["values"])
        tensors = {key: file.get_tensor(key).to(device) for key in file.keys()}
    face = _rebuild(MeshFace, "", tensors, values)
    if not isinstance(face, MeshFace):
        raise TypeError(str(path))
    return face


def _flatten(value: Any, name: str, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
    if isinstance(value, Tensor):
        tensors[name] = value.contiguous().clone()
    elif is_dataclass(value):
        for item in fields(value):
            _flatten(getattr(value, item.name), f"{name}.{item.name}", tensors, values)
    else:
        values[name] = value


def _rebuild(kind: Any, name: str, tensors: dict[str, Tensor], values: dict[str, Any]) -> Any:
    if name in tensors:
        return tensors[name]
    if name in values:
        return tuple(values[name]) if isinstance(values[name], list) else values[name]
    hints = get_type_hints(kind)
    return kind(
        **{item.name: _rebuild(hints[item.name], f"{name}.{item.name}", tensors, values) for item in fields(kind)}
    )
