"""A guided window of the Ditto motion model as one module: what a runtime captures, exports or runs eagerly."""

from __future__ import annotations

import functools
from typing import Final

import torch
from torch import Tensor, nn

from engines.diffusion import ddim_sample, ddim_steps, window_noise
from engines.networks.lmdm import Lmdm
from kernels.errors import ShapeError

_STEP_NOISE_WINDOW: Final = 2**64 - 1
"""Window number under which a session's step noises are drawn; no real window has it."""
_SESSIONS_KEPT: Final = 32
"""Sessions whose step noise is kept: 0.8 MB each at 10 steps, 4.2 MB at 50."""


class MotionSampler(nn.Module):
    """Sample whole windows by DDIM (eta = 1), the condition's share computed once per window.

    Args:
        lmdm: The network, guided.
        steps: DDIM steps.
    """

    timesteps: Tensor

    def __init__(self, lmdm: Lmdm, steps: int) -> None:
        super().__init__()
        self.lmdm = lmdm
        self.schedule = ddim_steps(steps)
        self.register_buffer("timesteps", torch.tensor([step.time for step in self.schedule]), persistent=False)

    @property
    def steps(self) -> int:
        """DDIM steps."""
        return len(self.schedule)

    def forward(self, cond_frame: Tensor, cond: Tensor, noise: Tensor) -> Tensor:
        """Sample.

        Args:
            cond_frame: float32 (B, 265), the frame before the window.
            cond: float32 (B, 80, 1103).
            noise: float32 (B, steps, 80, 265): one noise per step but the last, then the starting noise.

        Returns:
            float32 (B, 80, 265).

        Raises:
            ShapeError: The three do not fit together.
        """
        check_noise(noise, (len(cond), self.steps, self.lmdm.seq_frames, self.lmdm.motion_dim))
        cache = self.lmdm.encode_condition(cond_frame, cond, self.timesteps)
        drawn = noise.transpose(0, 1)
        return ddim_sample(lambda x, i: self.lmdm.denoise(x, i, cache), drawn[-1], drawn[:-1], self.schedule)


def check_noise(noise: Tensor, expected: tuple[int, int, int, int]) -> None:
    """Noise of windows fits: (B, steps, frames, dim).

    Raises:
        ShapeError: It does not.
    """
    if tuple(noise.shape) != expected:
        raise ShapeError("noise", str(tuple(noise.shape)), str(expected))


def session_noise(seed: int, window: int, steps: int, frames: int = 80, dim: int = 265) -> Tensor:
    """Noise of one window, (steps, frames, dim): a function of (seed, window) alone.

    As in the reference, the noises of the steps are the same for every window of a session and only the starting noise is
    fresh; there they were shared by all sessions of a process, here every seed has its own.

    Args:
        seed: Session seed, 0 <= seed < 2^64.
        window: Index of the window in the session, 0 <= window < 2^64 - 1.
        steps: DDIM steps.
        frames: Frames of a window.
        dim: Width of a motion vector.
    """
    shared = _step_noise(seed, steps - 1, frames, dim)
    return torch.cat([shared, window_noise(seed, window, (1, frames, dim))])


@functools.lru_cache(maxsize=_SESSIONS_KEPT)
def _step_noise(seed: int, count: int, frames: int, dim: int) -> Tensor:
    """Drawn once per session, not once per window: 12 ms of a core at 50 steps."""
    return window_noise(seed, _STEP_NOISE_WINDOW, (count, frames, dim))
