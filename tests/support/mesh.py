"""A plainly painted face for renderer tests: the landmarks are those of the presenter's table, the picture is flat colours."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import cv2
import numpy as np
import torch

import pipeline.presenter
from engines.face import topology
from engines.mini.mesh_renderer import MeshFace, MeshRenderer
from engines.mini.rig import ACTION_INDEX, ACTIONS, actions_to_exp
from engines.motion_layout import pack_motion
from kernels.arrays import F32, U8

SKIN, LIP, SEAM, TEETH = (214, 168, 142), (178, 88, 84), (70, 28, 28), (238, 230, 215)
FACE_PX = 300.0


def landmarks(gap: float = 0.0) -> F32:
    """Landmarks (468, 3) in crop pixels; `gap` opens the mouth by that many pixels."""
    table = np.load(Path(pipeline.presenter.__file__).with_name("template.npy"), allow_pickle=False)
    points = np.empty((468, 3), np.float32)
    points[:, 0] = 256 + table[:, 0] * FACE_PX
    points[:, 1] = 108 + table[:, 1] * FACE_PX
    points[:, 2] = table[:, 2] * FACE_PX
    corners = points[[topology.CORNER_RIGHT, topology.CORNER_LEFT], 0]
    for ids in (topology.LOWER_LIP_INNER[1:-1], topology.LOWER_LIP_OUTER[1:-1]):
        across = (points[list(ids), 0] - corners.mean()) / (np.ptp(corners) / 2)
        points[list(ids), 1] += gap * np.sqrt(np.clip(1 - across**2, 0, 1))
    return points


def paint(points: F32) -> U8:
    """The picture (512, 512, 3) for landmarks."""
    big, scale = np.empty((2048, 2048, 3), np.uint8), 4
    rows = np.linspace(150, 90, 2048, dtype=np.float32)[:, None, None]
    big[:] = rows.astype(np.uint8) + np.array([0, 10, 40], np.uint8)

    def fill(ids: tuple[int, ...], colour: tuple[int, int, int]) -> None:
        cv2.fillPoly(big, [np.round(points[list(ids), :2] * scale).astype(np.int32)], colour, cv2.LINE_AA)

    fill(topology.FACE_OVAL, SKIN)
    for upper, lower in (
        (topology.RIGHT_EYE_UPPER, topology.RIGHT_EYE_LOWER),
        (topology.LEFT_EYE_UPPER, topology.LEFT_EYE_LOWER),
    ):
        fill(upper + lower[::-1], (240, 240, 240))
        centre = (points[upper[4], :2] + points[lower[4], :2]) / 2
        span = np.linalg.norm(points[upper[0], :2] - points[upper[-1], :2])
        mask = np.zeros(big.shape[:2], np.uint8)
        cv2.fillPoly(mask, [np.round(points[list(upper + lower[::-1]), :2] * scale).astype(np.int32)], 255)
        iris = np.zeros_like(mask)
        cv2.circle(iris, tuple(int(v) for v in centre * scale), int(0.19 * span * scale), 255, -1)
        big[(mask > 0) & (iris > 0)] = (50, 40, 35)
        line = np.round(points[list(upper), :2] * scale).astype(np.int32)
        cv2.polylines(big, [line], False, (40, 30, 30), 5, cv2.LINE_AA)
    fill(topology.RIGHT_BROW, (80, 60, 50))
    fill(topology.LEFT_BROW, (80, 60, 50))
    fill(topology.UPPER_LIP_OUTER + topology.LOWER_LIP_OUTER[::-1], LIP)
    fill(topology.UPPER_LIP_INNER + topology.LOWER_LIP_INNER[::-1], TEETH)
    if np.abs(points[14, 1] - points[13, 1]) < 6:
        seam = np.round((points[list(topology.UPPER_LIP_INNER), :2] + points[list(topology.LOWER_LIP_INNER), :2]) * 2)
        cv2.polylines(big, [seam.astype(np.int32)], False, SEAM, 8, cv2.LINE_AA)
    return np.asarray(cv2.resize(big, (512, 512), interpolation=cv2.INTER_AREA), dtype=np.uint8)


@functools.cache
def source(gap: float = 0.0) -> tuple[U8, F32]:
    """Picture and landmarks."""
    points = landmarks(gap)
    return paint(points), points


@functools.cache
def prepared(gap: float = 0.0) -> MeshFace:
    """The painted face, prepared on the CPU."""
    return MeshRenderer().prepare(*source(gap))


def motion(n: int = 1, *, angles: tuple[float, float, float] = (0, 0, 0), **actions: float) -> torch.Tensor:
    """n equal frames of named action values."""
    return motion_of(actions, n, angles)


def motion_of(actions: Mapping[str, float], n: int = 1, angles: tuple[float, float, float] = (0, 0, 0)) -> torch.Tensor:
    """The same, from a mapping."""
    values = torch.zeros(n, len(ACTIONS))
    for name, value in actions.items():
        values[:, ACTION_INDEX[name]] = value
    return pack_motion(torch.tensor(angles).expand(n, 3), torch.zeros(n, 3), actions_to_exp(values))


def random_motion(n: int, seed: int, *, spread: float = 1.0) -> torch.Tensor:
    """Random actions in the natural range, random pose; `spread` above 1 leaves the range."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.rand(n, len(ACTIONS), generator=generator) < 0.4
    actions = torch.rand(n, len(ACTIONS), generator=generator) * chosen * spread
    angles = (torch.rand(n, 3, generator=generator) - 0.5) * torch.tensor([6.0, 8.0, 8.0]) * spread
    shift = (torch.rand(n, 3, generator=generator) - 0.5) * 0.04 * spread
    return pack_motion(angles, shift, actions_to_exp(actions))
