"""Faces to compare landmarkers on: pictures, and others made of each by reshaping, posing and turning it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import cv2
import numpy as np
import torch

from benchmarks.quality.renderer_sheet import POSES, pose_motion
from engines.mini.mesh_renderer import MeshRenderer
from kernels.arrays import U8
from pipeline.types import Avatar
from training.rife_faces import reshaped

POSED: Final = ("yaw +5", "yaw -5", "pitch +5", "pitch -5", "aa", "smile", "brows up", "all at once")
TURNS_DEG: Final = (-12.0, 12.0)
RESHAPED: Final = 8
_SEED: Final = 11


def faces_of(avatar: Avatar) -> Iterator[tuple[str, U8]]:
    """The presenter of a portrait and what is made of it.

    Args:
        avatar: An avatar of the family `mini`, so that its 512 x 512 crop and its landmarks are known.

    Yields:
        What was done, and the picture: the whole canvas first, then 512 x 512 crops.
    """
    crop = np.ascontiguousarray(avatar.tensors["crop_rgb"], np.uint8)
    landmarks = np.ascontiguousarray(avatar.tensors["landmarks"], np.float32)
    yield "as it is", np.ascontiguousarray(avatar.canvas_rgb, np.uint8)
    for index in range(RESHAPED):
        yield f"reshaped {index}", reshaped(crop, landmarks, np.random.default_rng((_SEED, index)))[0]
    renderer = MeshRenderer("cpu")
    face = renderer.prepare(crop, landmarks)
    for name, picture in zip(
        POSED, renderer.render(face, torch.cat([pose_motion(POSES[name]) for name in POSED])), strict=True
    ):
        yield name, picture.numpy()
    middle = crop.shape[1] / 2.0, crop.shape[0] / 2.0
    for degrees in TURNS_DEG:
        turn = cv2.getRotationMatrix2D(middle, degrees, 1.0)
        turned = cv2.warpAffine(crop, turn, crop.shape[1::-1], flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
        yield f"turned by {degrees:+.0f} deg", turned.astype(np.uint8, copy=False)
