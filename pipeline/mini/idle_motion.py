"""How a silent face of `mini` lives: it breathes, sways, blinks and looks about a little; the mouth is closed.

A function of (seed, frame index) without state: slow waves (`pipeline.session.sway`), blinks (`pipeline.session.blink_cue`), gaze
that rests and jumps. Any stretch of frames can be made alone and equals the same stretch of a longer one, bit for bit.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import torch

from engines.mini.motion_limits import BREATH
from engines.mini.rig import ACTION_INDEX, ACTIONS, action_basis
from engines.motion_layout import MOTION_DIM, pack_motion
from kernels.arrays import F32, F64, I64
from pipeline.mini.breath import breath
from pipeline.session.blink_cue import blink_cue, hashed_uniform
from pipeline.session.sway import POSE, sway
from pipeline.types import MOTION_FPS

_BLOCK: Final = 64
"""Frames are made in whole blocks, so that vectorised arithmetic rounds the same wherever a stretch starts."""
_SACCADE_S: Final = 0.08
_GAZE_SLOT_S: Final = 2.1
_GAZE_REACH: Final = {"gaze_x": 0.30, "gaze_y": 0.18}


def gaze(seed: int, frames: I64) -> dict[str, F64]:
    """Resting gaze with a small jump every 1 to 3 seconds, half of them back to the viewer: `gaze_x`, `gaze_y` in action units."""
    times = frames / MOTION_FPS
    slots = np.floor(times / _GAZE_SLOT_S).astype(np.int64)
    curves: dict[str, F64] = {}
    jump = (slots + 0.25 + 0.5 * hashed_uniform(seed, 200, slots)) * _GAZE_SLOT_S
    x = np.clip((times - jump) / _SACCADE_S, 0.0, 1.0)
    share = x * x * (3.0 - 2.0 * x)
    for number, (name, reach) in enumerate(_GAZE_REACH.items()):

        def target(slot: I64, stream: int = 201 + number, reach: float = reach) -> F64:
            away = hashed_uniform(seed, 203, slot) < 0.5
            return np.where(away, (2.0 * hashed_uniform(seed, stream, slot) - 1.0) * reach, 0.0)

        curves[name] = target(slots - 1) * (1.0 - share) + target(slots) * share
    return curves


def idle_actions(seed: int, first_frame: int, n_frames: int) -> tuple[F64, F64]:
    """Idle pose and actions.

    Returns:
        Pose float64 (n, 7) in the order of `POSE` (angles in degrees, translation in face widths, scale - 1), and actions
        float64 (n, n_actions) in the order of `engines.mini.rig.ACTIONS`; mouth actions other than `smile` are 0.
    """
    frames = first_frame + np.arange(n_frames, dtype=np.int64)
    curves = sway(seed, frames) | gaze(seed, frames)
    actions = np.zeros((n_frames, len(ACTIONS)))
    for name in ("brow_raise", "smile", "gaze_x", "gaze_y"):
        actions[:, ACTION_INDEX[name]] = curves[name]
    lids = blink_cue(seed, first_frame, n_frames).astype(np.float64)
    actions[:, ACTION_INDEX["blink_right"]] = lids
    actions[:, ACTION_INDEX["blink_left"]] = lids
    return np.stack([curves[name] for name in POSE], axis=1), actions


def idle_motion(seed: int, first_frame: int, n_frames: int) -> F32:
    """Motion of a silent face.

    Args:
        seed: The session's seed.
        first_frame: Index of the first frame; may be negative.
        n_frames: Frames wanted.

    Returns:
        float32 (n_frames, 265), layout in `engines.motion_layout`.
    """
    if n_frames <= 0:
        return np.zeros((0, MOTION_DIM), np.float32)
    start = first_frame // _BLOCK * _BLOCK
    stop = -(-(first_frame + n_frames) // _BLOCK) * _BLOCK
    pose, actions = idle_actions(seed, start, stop - start)
    basis = action_basis().numpy().astype(np.float64)
    exp = np.zeros((len(actions), *basis.shape[1:]))
    for k in np.flatnonzero(
        np.abs(actions).sum(0)
    ):  # a sum in fixed order, not a matrix product, whose rounding depends on n
        exp += actions[:, k, None, None] * basis[k]
    exp[:, BREATH[0], BREATH[1]] = breath(seed, np.arange(start, stop, dtype=np.int64))
    angles, translation, scale = pose[:, :3], pose[:, 3:6], 1.0 + pose[:, 6]
    parts = (torch.from_numpy(x.astype(np.float32)) for x in (angles, translation, exp, scale))
    motion: F32 = pack_motion(*parts).numpy()
    return motion[first_frame - start : first_frame - start + n_frames].copy()
