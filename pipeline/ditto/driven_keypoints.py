"""Keypoints of a face that follows offsets, as one module: what `MotionStitch` computes for a live stage, for frames of any faces.

`motion_stitch` is the reference, with all options of a session. A stage needs one case of it: offsets relative to the source,
no fades, the same controls for every frame. Everything that depends on the source frame alone is in its *rest row*, so rows of
different faces share a call, and on a GPU the call is one CUDA graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from engines.motion_layout import EXP, MOTION_DIM, PITCH, ROLL, SCALE, TRANSLATION, YAW, decode_angle
from engines.rotation import rotation_matrix
from kernels.arrays import F32
from pipeline.ditto.motion_fields import MotionFields, keypoints, to_degrees, to_vector
from pipeline.ditto.motion_stitch import (
    EYE_KEYPOINTS,
    GAZE_X_PER_YAW,
    GAZE_Y_PER_PITCH,
    FrameControl,
)

_POINTS: Final = 63
_KP: Final = slice(MOTION_DIM, MOTION_DIM + _POINTS)
_SHOWN: Final = slice(_KP.stop, _KP.stop + _POINTS)
_REST_YAW: Final = _SHOWN.stop
_REST_PITCH: Final = _REST_YAW + 1
_EYES: Final = _REST_PITCH + 1
REST_DIM: Final = _EYES + 1
"""Numbers of a rest row: motion (265), canonical keypoints (63), source keypoints (63), yaw and pitch of the face's first frame
in degrees, 1 where its eyes are driven."""
_POSES: Final = {"pitch": PITCH, "yaw": YAW, "roll": ROLL}


def rest_rows(frames: Sequence[MotionFields], *, drive_eye: bool) -> F32:
    """Rest rows float32 (n, `REST_DIM`) of a face's source frames.

    Args:
        frames: Motion of every source frame, with `kp`.
        drive_eye: Whether offsets move the eyes and the gaze stays on the viewer.
    """
    facts = [float(to_degrees(frames[0][name])[0]) for name in ("yaw", "pitch")] + [float(drive_eye)]
    rows = [np.concatenate([to_vector(one), one["kp"][0], keypoints(one).ravel(), facts]) for one in frames]
    return np.stack(rows).astype(np.float32)


class DrivenKeypoints(nn.Module):
    """Rest rows and offsets -> keypoints of the source and of the driven face.

    Args:
        stitch: The stitching network; None leaves keypoints as they are.
        overall: Controls of every frame.
    """

    def __init__(self, stitch: nn.Module | None, overall: FrameControl) -> None:
        super().__init__()
        self._stitch = stitch
        self._overall = overall
        self._free: Tensor
        self._eyes: Tensor
        self._delta_exp: Tensor
        self.register_buffer("_free", 1.0 - _chosen(EYE_KEYPOINTS), persistent=False)
        self.register_buffer("_eyes", _chosen(EYE_KEYPOINTS), persistent=False)
        delta = np.zeros(_POINTS, np.float32) if overall.delta_exp is None else overall.delta_exp
        self.register_buffer("_delta_exp", torch.from_numpy(np.array(delta, np.float32)).reshape(21, 3))

    def forward(self, rest: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
        """Compute.

        Args:
            rest: float32 (n, `REST_DIM`), the source frame of each frame.
            offsets: float32 (n, 265), what is added to its motion.

        Returns:
            Keypoints float32 (n, 21, 3) of source and driven face.
        """
        count, control = len(offsets), self._overall
        motion = rest[:, :MOTION_DIM] + offsets
        angles = {name: decode_angle(motion[:, place]) for name, place in _POSES.items()}
        for name, degrees in control.delta.items():
            angles[name] = angles[name] + degrees
        factors = {name: control.alpha.get(name, 1.0) for name in ("pitch", "yaw", "roll", "t", "exp", "scale")}
        angles = {name: degrees * factors[name] for name, degrees in angles.items()}
        eyes = rest[:, _EYES].reshape(count, 1, 1)
        exp = self._expression(rest[:, EXP].reshape(count, 21, 3), offsets[:, EXP].reshape(count, 21, 3), eyes)
        exp = exp * factors["exp"] + self._delta_exp + eyes * self._gaze(rest, angles, exp)
        turn = rotation_matrix(torch.stack([angles[name] for name in _POSES], dim=-1))
        points = rest[:, _KP].reshape(count, 21, 3) @ turn + exp
        points = points * ((rest[:, SCALE] + 1.0) * factors["scale"]).reshape(count, 1, 1)
        shift = motion[:, TRANSLATION] * factors["t"]
        driven = points + torch.cat([shift[:, :2], torch.zeros_like(shift[:, :1])], dim=1)[:, None]
        source = rest[:, _SHOWN].reshape(count, 21, 3)
        return source.clone(), driven if self._stitch is None else self._stitch(source, driven)

    def _expression(self, at_rest: Tensor, offset: Tensor, eyes: Tensor) -> Tensor:
        """What offsets say; eyes move only where they are driven. Speech moves lips and eyes alone (`STILL_DIMS`)."""
        return at_rest + (self._free + eyes * self._eyes) * self._overall.vad_alpha * offset

    @staticmethod
    def _gaze(rest: Tensor, angles: dict[str, Tensor], exp: Tensor) -> Tensor:
        """What keeps the eyes on the viewer while the head turns."""
        dx = GAZE_X_PER_YAW * (angles["yaw"] - rest[:, _REST_YAW])
        dy = GAZE_Y_PER_PITCH * (angles["pitch"] - rest[:, _REST_PITCH])
        right, left = dx.clamp(min=0), dx.clamp(max=0)
        gaze = torch.zeros_like(exp)
        gaze[:, 11, 0] = 0.0007 * right + 0.001 * left
        gaze[:, 15, 0] = 0.001 * right + 0.0007 * left
        gaze[:, 11, 1] = gaze[:, 15, 1] = -0.001 * dy
        return gaze


def _chosen(points: Sequence[int]) -> Tensor:
    """float32 (21, 1): 1 at these keypoints."""
    mask = torch.zeros(21, 1)
    mask[list(points)] = 1.0
    return mask
