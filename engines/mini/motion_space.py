"""The linear space that `mini` motion lives in, and the noise that fits it.

A 265-d motion vector of `mini` has 20 degrees of freedom: three angles (each spread over 66 logits that are linear in it),
translation, scale, and the facial actions of `engines.mini.rig`. Diffusing all 265 numbers independently would average the noise of
the 66 logits away (no head motion would be left to chance) and let predictions leave the space. So noise is drawn in the degrees
of freedom and carried into the 265 normalised dimensions by a fixed matrix; predictions are projected back onto it and kept
inside the range seen in training.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from engines.mini.rig import ACTIONS, action_basis
from engines.motion_layout import EXP as EXP_PART
from engines.motion_layout import (
    LOGIT_SIGMA_DEG,
    MOTION_DIM,
    PITCH,
    ROLL,
    SCALE,
    TRANSLATION,
    YAW,
    bin_centres_deg,
    pack_motion,
)

DEGREES_OF_FREEDOM: tuple[str, ...] = ("pitch", "yaw", "roll", "tx", "ty", "tz", "scale", *ACTIONS)
"""Names of the coordinates, in order."""

POSE_DOFS = 7
"""The first of them are the head's pose: angles, translation, scale."""

_STILL = 1e-5
"""A degree of freedom whose standard deviation is not above this never moves; it is left out of noise and projection."""


def dof_basis() -> Tensor:
    """Change of a motion vector per unit of every degree of freedom, float32 (20, 265)."""
    basis = torch.zeros(len(DEGREES_OF_FREEDOM), MOTION_DIM)
    for row, part in enumerate((PITCH, YAW, ROLL)):
        basis[row, part] = bin_centres_deg() / LOGIT_SIGMA_DEG**2
    for axis in range(3):
        basis[3 + axis, TRANSLATION.start + axis] = 1.0
    basis[6, SCALE] = 1.0
    basis[7:, EXP_PART] = action_basis().flatten(1)
    return basis


def rest_motion() -> Tensor:
    """The motion of a face at rest, straight ahead, float32 (265,)."""
    return pack_motion(torch.zeros(3), torch.zeros(3), torch.zeros(63))


@dataclass(frozen=True)
class DofStatistics:
    """Mean, standard deviation and range of every degree of freedom over training motion, each float32 (20,)."""

    mean: Tensor
    std: Tensor
    low: Tensor
    high: Tensor


class MotionSpace(nn.Module):
    """Normalisation, projection and noise shape of motion vectors; a plain set of constants stored with the weights.

    Attributes:
        mean: (265,) subtracted before the network.
        std: (265,) divided by before the network; 1 where motion never changes.
        from_dof: (20, 265), standardised degrees of freedom -> normalised motion.
        to_dof: (265, 20), its pseudo-inverse.
        dof_mean: (20,) mean of the degrees of freedom in their own units.
        dof_std: (20,) their standard deviation: what one standardised unit means.
        low: (20,) smallest standardised value that a prediction may take.
        high: (20,) largest.
    """

    mean: Tensor
    std: Tensor
    from_dof: Tensor
    to_dof: Tensor
    dof_mean: Tensor
    dof_std: Tensor
    low: Tensor
    high: Tensor

    def __init__(self) -> None:
        super().__init__()
        dofs = len(DEGREES_OF_FREEDOM)
        self.register_buffer("dof_mean", torch.zeros(dofs))
        self.register_buffer("dof_std", torch.ones(dofs))
        self.register_buffer("mean", rest_motion())
        self.register_buffer("std", torch.ones(MOTION_DIM))
        self.register_buffer("from_dof", dof_basis())
        self.register_buffer("to_dof", torch.linalg.pinv(dof_basis()))
        self.register_buffer("low", torch.full((dofs,), -6.0))
        self.register_buffer("high", torch.full((dofs,), 6.0))

    @property
    def dofs(self) -> int:
        """Number of degrees of freedom."""
        return int(self.from_dof.shape[0])

    @torch.no_grad()
    def fit(self, statistics: DofStatistics, margin: float = 0.15) -> None:
        """Set the constants from training statistics; predictions may exceed the seen range by `margin` of it."""
        basis = dof_basis().double()
        moving = statistics.std > _STILL
        spread = torch.where(moving, statistics.std, torch.ones_like(statistics.std)).double()
        basis = basis * moving[:, None]
        std = (basis * spread[:, None]).square().sum(0).sqrt()
        std = torch.where(std < 1e-6, torch.ones_like(std), std)
        from_dof = basis * spread[:, None] / std
        self.mean.copy_(rest_motion().double() + statistics.mean.double() @ dof_basis().double())
        self.std.copy_(std)
        self.from_dof.copy_(from_dof)
        self.to_dof.copy_(torch.linalg.pinv(from_dof))
        self.dof_mean.copy_(statistics.mean)
        self.dof_std.copy_(spread)
        low = (statistics.low - statistics.mean).double() / spread
        high = (statistics.high - statistics.mean).double() / spread
        self.low.copy_(low - margin * (high - low))
        self.high.copy_(high + margin * (high - low))

    def normalise(self, motion: Tensor) -> Tensor:
        """Motion (..., 265) -> network units."""
        return (motion - self.mean) / self.std

    def denormalise(self, x: Tensor) -> Tensor:
        """Network units (..., 265) -> motion."""
        return x * self.std + self.mean

    def noise(self, white: Tensor) -> Tensor:
        """White noise in the degrees of freedom (..., 20) -> noise in network units (..., 265)."""
        return white @ self.from_dof

    def project(self, x: Tensor) -> Tensor:
        """Nearest point of the space, inside the training range; network units (..., 265) -> same."""
        dofs = torch.minimum(torch.maximum(x @ self.to_dof, self.low), self.high)
        return dofs @ self.from_dof

    def standardised(self, motion: Tensor) -> Tensor:
        """Motion (..., 265) -> standardised degrees of freedom (..., 20)."""
        return self.normalise(motion) @ self.to_dof
