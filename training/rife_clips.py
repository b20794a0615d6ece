"""Clips of mesh-animated faces: five frames per clip, at times 0, 1/4, 1/2, 3/4 and 1 between two frames of a video."""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

from engines.mini.mesh_renderer import MeshFace, MeshRenderer
from engines.mini.rig import ACTION_INDEX, ACTIONS, actions_to_exp
from engines.motion_layout import pack_motion

TIMES: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
_MOUTH: Final = {
    "jaw_open": 0.9,
    "lips_part": 0.6,
    "wide": 0.6,
    "pucker": 0.9,
    "press": 0.6,
    "lower_tuck": 0.4,
    "smile": 0.4,
}
_OTHERS: Final = {"brow_raise": 0.6, "gaze_x": 0.6, "gaze_y": 0.4, "blink_right": 1.0, "blink_left": 1.0}
_CLOSED: Final = 0.35
"""Share of mouth targets that are a closed mouth."""


def random_motion(clips: int, generator: torch.Generator) -> Tensor:
    """Motion of clips, float32 (clips, 5, 265): mouths on their way between two targets, heads that drift.

    A pair of frames is 25 to 60 ms apart and a way from target to target takes 60 to 160 ms, along a cosine; a third of the
    mouth's targets are closed lips.
    """

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    span = 0.025 + 0.035 * uniform(clips, 1)
    way = 0.06 + 0.1 * uniform(clips, 1)
    begin = uniform(clips, 1) * (1.0 + span / way) - span / way
    at = (begin + span / way * torch.tensor(TIMES)).clamp(0.0, 1.0)
    eased = (0.5 - 0.5 * torch.cos(torch.pi * at))[..., None]
    targets = torch.zeros(2, clips, len(ACTIONS))
    for name, largest in {**_MOUTH, **_OTHERS}.items():
        targets[..., ACTION_INDEX[name]] = largest * uniform(2, clips) ** 1.5
    for name in ("gaze_x", "gaze_y"):
        targets[..., ACTION_INDEX[name]] *= torch.where(uniform(2, clips) < 0.5, -1.0, 1.0)
    blinking = (uniform(clips) < 0.15).float()
    targets[..., ACTION_INDEX["blink_left"]] = targets[..., ACTION_INDEX["blink_right"]]
    for name in ("blink_right", "blink_left"):
        targets[..., ACTION_INDEX[name]] *= blinking
    closed = (uniform(2, clips, 1) < _CLOSED).float()
    lips = torch.tensor([name in ("jaw_open", "lips_part", "lower_tuck") for name in ACTIONS]).float()
    targets = targets * (1.0 - closed * lips)
    actions = targets[0][:, None] + (targets[1] - targets[0])[:, None] * eased
    turn = (uniform(clips, 1, 3) - 0.5) * torch.tensor([8.0, 8.0, 8.0])
    speed = (uniform(clips, 1, 3) - 0.5) * 50.0 * uniform(clips, 1, 1) ** 2  # degrees per second
    shift = (uniform(clips, 1, 3) - 0.5) * 0.06
    drift = (uniform(clips, 1, 3) - 0.5) * 0.5 * uniform(clips, 1, 1) ** 2
    seconds = (span * torch.tensor(TIMES))[..., None]
    packed = pack_motion(
        (turn + speed * seconds).flatten(0, 1),
        (shift + drift * seconds).flatten(0, 1),
        actions_to_exp(actions.flatten(0, 1)),
    )
    return packed.reshape(clips, len(TIMES), -1)


def render_clips(face: MeshFace, motion: Tensor, device: torch.device, batch: int = 40) -> Tensor:
    """uint8 (clips, 5, 512, 512, 3) on the device."""
    renderer = MeshRenderer(device)
    flat = motion.flatten(0, 1)
    frames = [renderer.render(face, flat[k : k + batch].contiguous()) for k in range(0, len(flat), batch)]
    return torch.cat(frames).reshape(*motion.shape[:2], 512, 512, 3)
