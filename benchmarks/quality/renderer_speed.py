"""How long the renderer of `mini` needs per frame on one CPU thread: `python -m benchmarks.quality.renderer_speed`.

Measured on the default presenter at its own size, from motion to the NV12 rectangle in which head, hair and chest move, over
talking motion (jaw, lips, lids, gaze, brows and head all move). Baseline, in the same run: a piecewise-affine warp of the crop
alone that fills triangle by triangle (`benchmarks.quality.triangle_baseline`), without teeth, lids and the picture around it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

import cv2
import numpy as np
import torch

from benchmarks.quality.triangle_baseline import triangulate, warp_triangles
from engines.mini.mesh_deform import build_pose, posed_displacement
from engines.mini.mesh_renderer import MeshFace
from engines.mini.motion_limits import limit_motion
from engines.mini.rig import ACTION_INDEX, ACTIONS, actions_to_exp
from engines.motion_layout import pack_motion
from kernels.arrays import F32
from kernels.sampling.remap import remap_bilinear
from pipeline.mini.presenter import default_avatar
from pipeline.mini.renderer import Renderer
from pipeline.stages import RenderRequest
from pipeline.types import MOTION_FPS, MotionChunk

CHUNK = 8
"""Frames per call, as in the product."""
BASELINE_FRAMES = 24
COLOUR = "bt709"


def talking_motion(frames: int) -> torch.Tensor:
    """Deterministic talking motion, float32 (frames, 265): syllables at 4 Hz, a blink every 2 s, a slowly moving head."""
    t = torch.arange(frames, dtype=torch.float32) / 25.0
    actions = torch.zeros(frames, len(ACTIONS))
    syllable = (0.5 - 0.5 * torch.cos(2 * torch.pi * 4.0 * t)) * (0.6 + 0.4 * torch.sin(2 * torch.pi * 0.7 * t))
    blink = torch.exp(-((((t % 2.0) - 1.0) / 0.06) ** 2))
    for name, value in (
        ("jaw_open", 0.6 * syllable),
        ("lips_part", 0.4 * syllable),
        ("pucker", (torch.sin(2 * torch.pi * 1.3 * t)).clamp(min=0)),
        ("wide", 0.5 * (-torch.sin(2 * torch.pi * 1.3 * t)).clamp(min=0)),
        ("blink_right", blink),
        ("blink_left", blink),
        ("gaze_x", 0.4 * torch.sin(2 * torch.pi * 0.3 * t)),
        ("brow_raise", 0.4 * syllable),
    ):
        actions[:, ACTION_INDEX[name]] = value
    slow = torch.stack([torch.sin(2 * torch.pi * f * t) for f in (0.4, 0.27, 0.33)], dim=-1)
    return pack_motion(slow * torch.tensor([2.0, 3.0, 2.0]), 0.01 * slow, actions_to_exp(actions))


def measure(calls: int = 24) -> dict[str, float]:
    """Measure on one thread.

    Args:
        calls: Calls of 8 frames each.

    Returns:
        `value` (median ms per frame), `p5`, `p95`, `n` (calls), `prepare_ms`, `bytes` (of one prepared face), `baseline_value`.
    """
    torch_threads, cv_threads = torch.get_num_threads(), cv2.getNumThreads()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    try:
        return _measure(calls)
    finally:
        torch.set_num_threads(torch_threads)
        cv2.setNumThreads(cv_threads)


def _measure(calls: int) -> dict[str, float]:
    avatar = default_avatar()
    crop = np.ascontiguousarray(avatar.tensors["crop_rgb"], dtype=np.uint8)
    landmarks = np.ascontiguousarray(avatar.tensors["landmarks"], dtype=np.float32)
    renderer = Renderer(lambda _: avatar)
    began = time.perf_counter()
    prepared = renderer.prepare(avatar.avatar_id, COLOUR)
    prepare_ms = (time.perf_counter() - began) * 1e3
    motion = talking_motion(CHUNK * calls)
    chunks = [MotionChunk(motion[i : i + CHUNK].numpy(), i) for i in range(0, len(motion), CHUNK)]
    requests = [RenderRequest(avatar.avatar_id, chunk, None, MOTION_FPS, COLOUR) for chunk in chunks]
    mesh = triangulate(crop, landmarks)
    moved = _moved_vertices(prepared.face, mesh.vertices, motion[:BASELINE_FRAMES])
    baseline = _times([partial(warp_triangles, mesh, m) for m in moved], 1)
    taken = _times([partial(renderer.render, request) for request in requests], CHUNK)
    p5, median, p95 = np.percentile(taken, (5, 50, 95))
    return {
        "value": float(median),
        "p5": float(p5),
        "p95": float(p95),
        "n": float(len(taken)),
        "prepare_ms": prepare_ms,
        "bytes": float(prepared.size_bytes),
        "baseline_value": float(np.median(baseline)),
    }


def _times(jobs: Sequence[Callable[[], object]], frames: int) -> list[float]:
    """Milliseconds per frame of every job, after one untimed pass over the first three."""
    for job in jobs[:3]:
        job()
    taken = []
    for job in jobs:
        began = time.perf_counter()
        job()
        taken.append((time.perf_counter() - began) * 1e3 / frames)
    return taken


def _moved_vertices(face: MeshFace, vertices: F32, motion: torch.Tensor) -> list[F32]:
    """The same motion as vertex positions, one (v, 2) per frame."""
    deformation = face.deformation
    limited = limit_motion(motion)
    pose = build_pose(deformation, limited)
    coefficients = torch.cat([torch.ones(len(motion), 1), limited.exp.flatten(1)], 1)[:, deformation.used]
    rows, columns = deformation.face.depth.shape
    expression = (coefficients @ deformation.face_basis).view(-1, rows, columns, 2)
    fields = posed_displacement(deformation.face, deformation, expression, pose).numpy()
    cell = float(deformation.face.nodes[0, 1, 0] - deformation.face.nodes[0, 0, 0])
    places = ((vertices + 0.5) / cell - 0.5).astype(np.float32)[None]
    return [vertices + remap_bilinear(np.ascontiguousarray(field), places)[0] for field in fields]


if __name__ == "__main__":
    print({key: round(value, 3) for key, value in measure().items()})
