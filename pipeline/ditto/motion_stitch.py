"""Driving motion applied to a source face, frame by frame (ditto.md section 7, in its order of operations)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.ditto.motion_fields import POSE_FIELDS, VECTOR_FIELDS, MotionFields, keypoints, mirror_index, to_degrees

LIP_KEYPOINTS: Final = (6, 12, 14, 17, 19, 20)
EYE_KEYPOINTS: Final = (11, 13, 15, 16, 18)
IMAGE_KEYS: Final = ("exp", "pitch", "yaw", "roll", "t")
VIDEO_KEYS: Final = ("exp",)
GAZE_X_PER_YAW: Final = 0.26
GAZE_Y_PER_PITCH: Final = 0.28

Stitch = Callable[[F32, F32], F32]
"""The stitching network: keypoints of source and driving, (1, 21, 3) each -> (1, 21, 3)."""


@dataclass(frozen=True)
class FrameControl:
    """Per-frame options; None takes the session's overall value.

    Attributes:
        delta: Degrees added to `pitch`, `yaw`, `roll`.
        alpha: Factors on any field, applied after `delta`.
        delta_exp: Offsets (63,) added to exp.
        vad_alpha: Below 1, the whole expression moves towards the source.
        fade_alpha: Share of the driven value that stays under a fade; None = no fade.
        fade_keys: Fields that fade; None = the session's.
    """

    delta: Mapping[str, float] = field(default_factory=dict)
    alpha: Mapping[str, float] = field(default_factory=dict)
    delta_exp: F32 | None = None
    vad_alpha: float = 1.0
    fade_alpha: float | None = None
    fade_keys: Sequence[str] | None = None


@dataclass(frozen=True)
class StitchOptions:
    """Options of a session.

    Attributes:
        is_image: The avatar is one picture (True) or a template video.
        relative: Drive by the difference to the first driving frame.
        keys: Fields that are driven, or field -> weight; None = the default of the avatar's kind.
        drive_eye: Whether eyes are driven; None = yes for a picture, no for a video.
        delta_eye: (15, 63), the canned blink; None lets the driving motion move the eyes.
        blinks: Index into `delta_eye` per frame, repeated; from `pipeline.ditto.blink_schedule`.
        character_scale: Scale of the reference character whose motion this is; None = the avatar's own.
        fade_type: "d0" fades to the first driven frame, "s" to the source, "" not at all.
        fade_keys: Fields that fade.
        overall: Controls wherever a frame has none of its own.
    """

    is_image: bool = True
    relative: bool = True
    keys: Sequence[str] | Mapping[str, float] | None = None
    drive_eye: bool | None = None
    delta_eye: F32 | None = None
    blinks: Sequence[int] = (0,)
    character_scale: float | None = None
    fade_type: Literal["", "d0", "s"] = ""
    fade_keys: Sequence[str] = ("exp",)
    overall: FrameControl = FrameControl()


def frame_control(info: Mapping[str, Any]) -> FrameControl:
    """A configuration's `overall_ctrl_info` as controls of every frame.

    Raises:
        InvalidInputError: A control that is not known; it is named.
    """
    delta: dict[str, float] = {}
    alpha: dict[str, float] = {}
    delta_exp, vad_alpha = None, 1.0
    for name, value in info.items():
        kind, _, target = name.partition("_")
        if name == "delta_exp":
            delta_exp = np.asarray(value, np.float32).reshape(63)
        elif name == "vad_alpha":
            vad_alpha = float(value)
        elif kind == "delta" and target in ("pitch", "yaw", "roll"):
            delta[target] = float(value)
        elif kind == "alpha" and target in ("pitch", "yaw", "roll", "exp", "t", "scale"):
            alpha[target] = float(value)
        else:
            allowed = "delta_pitch, delta_yaw, delta_roll, alpha_<field>, delta_exp, vad_alpha"
            raise InvalidInputError("overall_ctrl_info", name[:40], allowed)
    return FrameControl(delta=delta, alpha=alpha, delta_exp=delta_exp, vad_alpha=vad_alpha)


class MotionStitch:
    """Turns driving motion into keypoint pairs.

    Args:
        source: Motion of the avatar's frames, with `kp`.
        options: Options of the session.
        stitch: The stitching network; None leaves the keypoints as they are.
        d0: First driving frame, where the session knows it beforehand; otherwise the first one seen.
        first_frame: Index of the first frame that `step` is called for.
    """

    def __init__(
        self,
        source: Sequence[MotionFields],
        options: StitchOptions,
        stitch: Stitch | None,
        d0: MotionFields | None = None,
        first_frame: int = 0,
    ) -> None:
        self._source = source
        self._options = options
        self._stitch = stitch
        self._d0 = d0
        self._fade_target: dict[str, F32] | None = None
        self._frame = first_frame
        self._weights = self._driven_weights()
        self._drive_eye = options.is_image if options.drive_eye is None else options.drive_eye
        self._rest_yaw, self._rest_pitch = (to_degrees(source[0][name]) for name in ("yaw", "pitch"))

    def step(self, driving: MotionFields, control: FrameControl | None = None) -> tuple[F32, F32]:
        """Stitch one frame: driving motion without `kp` -> keypoints of source and of the driven face, (1, 21, 3) each."""
        options = self._options
        chosen = _with_overall(control or FrameControl(), options.overall)
        source = self._source[mirror_index(self._frame, len(self._source))]
        if self._d0 is None:
            self._d0 = driving
        driven = self._drive(source, driving)
        driven["exp"] = self._mix_expression(source, driven["exp"], chosen.vad_alpha)
        self._control(driven, chosen)
        self._fade(source, driven, chosen)
        if self._drive_eye:
            self._fix_gaze(driven)
        x_source, x_driven = keypoints(source), keypoints(driven)
        if self._stitch is not None:
            x_driven = self._stitch(x_source, x_driven)
        self._frame += 1
        return x_source, x_driven

    def steps(self, driving: MotionFields) -> tuple[F32, F32]:
        """Frames without controls of their own, all at once: the numbers of `step` up to rounding, in a fraction of its time.

        Args:
            driving: Field -> float32 (n, k), n >= 1, without `kp`.

        Returns:
            Keypoints of source and driven face, float32 (n, 21, 3) each.
        """
        count = len(driving["exp"])
        if self._options.fade_type:  # a fade's target is a frame among these
            rows = [{name: value[i : i + 1] for name, value in driving.items()} for i in range(count)]
            pairs = [self.step(row) for row in rows]
            return np.concatenate([source for source, _ in pairs]), np.concatenate([driven for _, driven in pairs])
        overall = self._options.overall
        places = [mirror_index(self._frame + i, len(self._source)) for i in range(count)]
        source = {name: np.concatenate([self._source[i][name] for i in places]) for name in self._source[0]}
        if self._d0 is None:
            self._d0 = {name: value[:1] for name, value in driving.items()}
        driven = self._drive(source, driving)
        driven["exp"] = self._mix_expression(source, driven["exp"], overall.vad_alpha)
        self._control(driven, overall)
        if self._drive_eye:
            self._fix_gaze(driven)
        x_source, x_driven = keypoints(source), keypoints(driven)
        if self._stitch is not None:
            x_driven = self._stitch(x_source, x_driven)
        self._frame += count
        return x_source, x_driven

    def _driven_weights(self) -> dict[str, float]:
        options = self._options
        keys = options.keys if options.keys is not None else (IMAGE_KEYS if options.is_image else VIDEO_KEYS)
        if options.character_scale is not None:
            ratio = options.character_scale / float(self._source[0]["scale"].reshape(-1)[0])
            if ratio != 1.0 and not isinstance(keys, Mapping):
                return {name: 1.0 if name == "t" else ratio for name in keys}
        return dict(keys) if isinstance(keys, Mapping) else dict.fromkeys(keys, 1.0)

    def _drive(self, source: MotionFields, driving: MotionFields) -> dict[str, F32]:
        driven = {name: np.array(value, np.float32) for name, value in source.items()}
        first = self._d0
        for name, weight in self._weights.items():
            if self._options.relative and first is not None:
                driven[name] = source[name] + (driving[name] - first[name]) * np.float32(weight)
            else:
                driven[name] = driving[name] * np.float32(weight)
        return driven

    def _mix_expression(self, source: MotionFields, exp: F32, vad_alpha: float) -> F32:
        """Lips from the driving motion, eyes by the blink schedule, everything else from the source."""
        rest = source["exp"].reshape(-1, 21, 3)
        mixed = rest.copy()
        driven = exp.reshape(-1, 21, 3)
        lips, eyes = list(LIP_KEYPOINTS), list(EYE_KEYPOINTS)
        mixed[:, lips] = driven[:, lips]
        if self._drive_eye:
            if self._options.delta_eye is None:
                mixed[:, eyes] = driven[:, eyes]
            else:
                blinks = self._options.blinks
                shown = [blinks[(self._frame + i) % len(blinks)] for i in range(len(rest))]
                blink = self._options.delta_eye[shown].reshape(-1, 21, 3)
                mixed[:, eyes] = rest[:, eyes] + blink[:, eyes]
        if vad_alpha < 1.0:
            mixed = mixed * np.float32(vad_alpha) + rest * np.float32(1.0 - vad_alpha)
        return mixed.reshape(-1, 63).astype(np.float32)

    @staticmethod
    def _control(driven: dict[str, F32], control: FrameControl) -> None:
        for name, degrees in control.delta.items():
            driven[name] = to_degrees(driven[name]) + np.float32(degrees)
        for name, factor in control.alpha.items():
            value = to_degrees(driven[name]) if name in POSE_FIELDS else driven[name]
            driven[name] = value * np.float32(factor)
        if control.delta_exp is not None:
            driven["exp"] = driven["exp"] + control.delta_exp.reshape(1, 63)

    def _fade(self, source: MotionFields, driven: dict[str, F32], control: FrameControl) -> None:
        if self._options.fade_type == "d0" and self._fade_target is None:
            self._fade_target = {name: value.copy() for name, value in driven.items()}
        if control.fade_alpha is None or not self._options.fade_type:
            return
        target = source if self._options.fade_type == "s" else self._fade_target
        alpha = np.float32(control.fade_alpha)
        for name in control.fade_keys if control.fade_keys is not None else self._options.fade_keys:
            if target is not None and name in VECTOR_FIELDS:
                driven[name] = driven[name] * alpha + target[name] * (np.float32(1.0) - alpha)

    def _fix_gaze(self, driven: dict[str, F32]) -> None:
        """Keep looking at the viewer while the head turns."""
        dx = GAZE_X_PER_YAW * (to_degrees(driven["yaw"]) - self._rest_yaw)
        dy = GAZE_Y_PER_PITCH * (to_degrees(driven["pitch"]) - self._rest_pitch)
        exp = driven["exp"].reshape(-1, 21, 3).copy()
        exp[:, 11, 0] += dx * np.where(dx > 0, 0.0007, 0.001)
        exp[:, 15, 0] += dx * np.where(dx > 0, 0.001, 0.0007)
        exp[:, [11, 15], 1] -= 0.001 * dy[:, None]
        driven["exp"] = exp.reshape(-1, 63)


def _with_overall(frame: FrameControl, overall: FrameControl) -> FrameControl:
    """The frame's controls, with the session's where the frame has none."""
    return FrameControl(
        delta={**overall.delta, **frame.delta},
        alpha={**overall.alpha, **frame.alpha},
        delta_exp=frame.delta_exp if frame.delta_exp is not None else overall.delta_exp,
        vad_alpha=frame.vad_alpha if frame.vad_alpha != 1.0 else overall.vad_alpha,
        fade_alpha=frame.fade_alpha if frame.fade_alpha is not None else overall.fade_alpha,
        fade_keys=frame.fade_keys if frame.fade_keys is not None else overall.fade_keys,
    )
