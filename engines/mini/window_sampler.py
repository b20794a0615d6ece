"""A motion window of the `mini` family as one module: what a runtime captures, exports or runs eagerly."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from engines.diffusion import ddim_sample, ddim_steps
from engines.mini.motion_space import POSE_DOFS, MotionSpace
from engines.networks.lmdm import Lmdm
from kernels.errors import ShapeError

POSE_NOISE_CORRELATION = 0.9
"""Correlation of a pose's noise from one frame to the next.

Pose is slow. Noise that is independent from frame to frame averages out over a window, and few-step sampling then leaves the
head nearly still (measured at 4 steps on held-out speech: yaw std 0.53 degrees, in training data 1.30; with 0.9: 1.11).
"""


def correlation_factor(length: int, correlation: float) -> Tensor:
    """Lower-triangular (length, length) that turns white noise into a stationary first-order process of variance 1."""
    index = torch.arange(length)
    lag = (index[:, None] - index).clamp_min(0)
    factor = correlation**lag * torch.where(index == 0, 1.0, (1.0 - correlation**2) ** 0.5)
    return torch.tril(factor.float())


class WindowSampler(nn.Module):
    """Continue a motion by `seq_frames - past` frames.

    The window's first frames are known motion and stay as they are at every step (in-painting: the network was trained so); the
    rest starts as noise and is denoised by DDIM. The network also re-predicts the last known frame; what it misses there is
    added to the new frames and fades out over `fuse_frames`, so that a window never starts with a jump.

    Args:
        lmdm: The network; `seq_frames` is its window.
        space: Normalisation and noise shape.
        steps: DDIM steps (eta = 1).
        fuse_frames: Frames over which the join's residual fades.
    """

    fade: Tensor
    timesteps: Tensor
    correlate: Tensor

    def __init__(self, lmdm: Lmdm, space: MotionSpace, *, steps: int = 4, fuse_frames: int = 4) -> None:
        super().__init__()
        self.lmdm = lmdm
        self.space = space
        self.schedule = ddim_steps(steps)
        self.register_buffer("timesteps", torch.tensor([step.time for step in self.schedule]), persistent=False)
        self.register_buffer("correlate", correlation_factor(lmdm.seq_frames, POSE_NOISE_CORRELATION), persistent=False)
        ramp = 1.0 - torch.arange(1, fuse_frames + 1, dtype=torch.float32) / (fuse_frames + 1)
        self.register_buffer("fade", ramp[:, None], persistent=False)

    @property
    def steps(self) -> int:
        """DDIM steps, also the length of the noise's second axis."""
        return len(self.schedule)

    def forward(self, history: Tensor, cond: Tensor, noise: Tensor) -> Tensor:
        """Sample.

        Args:
            history: float32 (B, past + 1, 265), the motion so far; its last `past` frames are the window's first.
            cond: float32 (B, seq_frames, cond_dim), condition rows of the whole window, known frames included.
            noise: float32 (B, steps, seq_frames - past, 20), standard normal and independent; the last step's is the starting
                noise. Pose noise is correlated in time here.

        Returns:
            float32 (B, seq_frames - past, 265).

        Raises:
            ShapeError: The three do not fit together.
        """
        past = history.shape[1] - 1
        new = self.lmdm.seq_frames - past
        expected = (history.shape[0], self.steps, new, self.space.dofs)
        if past < 1 or new < 1 or tuple(noise.shape) != expected:
            raise ShapeError("noise", str(tuple(noise.shape)), str(expected))
        known = self.space.normalise(history)
        pose = self.correlate[:new, :new] @ noise[..., :POSE_DOFS]
        coloured = self.space.noise(torch.cat([pose, noise[..., POSE_DOFS:]], dim=-1)).transpose(0, 1)
        cache = self.lmdm.encode_condition(known[:, 0], cond, self.timesteps)
        last_known = known[:, -1:]
        residual = torch.zeros_like(last_known)

        def predict(x: Tensor, index: int) -> Tensor:
            nonlocal residual
            clean = self.space.project(self.lmdm.denoise(torch.cat([known[:, 1:], x], dim=1), index, cache))
            residual = last_known - clean[:, past - 1 : past]
            return clean[:, past:]

        x = ddim_sample(predict, coloured[-1], coloured[:-1], self.schedule)
        fused = min(len(self.fade), new)
        x = torch.cat([x[:, :fused] + residual * self.fade[:fused], x[:, fused:]], dim=1)
        return self.space.denormalise(x)
