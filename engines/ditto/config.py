"""The settings that a public Ditto configuration carries, typed and checked (ditto.md sections 5 to 8 and 10)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from engines.ditto.config_file import find_pickle, read_config_tree
from engines.weights.file import WeightsFileError
from kernels.arrays import F32

FIELD_WIDTHS: Final = {"scale": 1, "pitch": 66, "yaw": 66, "roll": 66, "t": 3, "exp": 63, "kp": 63}


def _shaped(*tail: int) -> BeforeValidator:
    """An array that can be read as float32 (n, *tail), or (1, *tail) when it is one row."""

    def check(value: object) -> object:
        if value is None:
            return None
        array = np.asarray(value, np.float32)
        if array.size == 0 or array.size % int(np.prod(tail)):
            raise ValueError(f"an array of shape {array.shape} is no (n, {', '.join(map(str, tail))})")
        if not np.isfinite(array).all():
            raise ValueError("holds NaN or infinity")
        return array.reshape(-1, *tail)

    return BeforeValidator(check)


class Character(BaseModel):
    """The reference character of a configuration (`ch_info`): the motion model is conditioned on it instead of on the avatar.

    Attributes:
        motion: Field -> float32 (1, k), with `kp`.
        shape: float32 (1, 63), canonical keypoints.
        eye_open: float32 (n, 2).
        eye_ball: float32 (n, 6).
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)
    motion: dict[str, F32]
    shape: Annotated[F32, _shaped(63)]
    eye_open: Annotated[F32, _shaped(2)]
    eye_ball: Annotated[F32, _shaped(6)]


class DittoConfig(BaseModel):
    """Settings of one mode; the names are the public configuration's, the defaults those of the reference's code.

    Attributes:
        online_mode: Whether the configuration is meant for live sessions.
        crop_scale: Side of the face crop over the landmarks' box.
        crop_vy_ratio: Shift of the crop along the face, in sides; negative is up.
        crop_flag_do_rot: Whether the crop is turned upright.
        smo_k_s: Width of the mean filter over a template video's motion.
        emo: A class, several, a sequence of these, or float32 (m, 8).
        eye_f0_mode: The eyes of a template video's first frame condition every frame.
        ch_info: Reference character.
        overlap_v2: Frames shared by neighbouring motion windows.
        fix_kp_cond: Every n-th window starts from the source again; 0 never.
        fix_kp_cond_dim: [from, to) dims that stay predicted then.
        sampling_timesteps: DDIM steps.
        v_min_max_for_clip: float32 (4, 265); rows 0 and 1 bound the motion.
        smo_k_d: Width of the mean filter over driven motion.
        use_d_keys: Fields that are driven, or field -> weight.
        relative_d: Drive by the difference to the first frame.
        drive_eye: Whether eyes are driven; None = yes for a picture.
        delta_eye_arr: float32 (15, 63), the canned blink.
        delta_eye_open_n: Frames between blinks: -1 none, 0 random.
        fade_type: Where a fade goes.
        fade_out_keys: What fades.
        flag_stitching: Whether the stitching network is used.
        overall_ctrl_info: Controls of every frame, e.g. `delta_pitch` in degrees.
    """

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True, extra="ignore")
    online_mode: bool = False
    crop_scale: float = Field(2.3, gt=0.5, lt=10)
    crop_vy_ratio: float = Field(-0.125, gt=-1, lt=1)
    crop_flag_do_rot: bool = True
    smo_k_s: int = Field(13, ge=0, le=101)
    emo: Any = 4
    eye_f0_mode: bool = False
    ch_info: Character | None = None
    overlap_v2: int = Field(10, ge=1, le=79)
    fix_kp_cond: int = Field(0, ge=0)
    fix_kp_cond_dim: tuple[int, int] | None = None
    sampling_timesteps: int = Field(50, ge=1, le=1000)
    v_min_max_for_clip: Annotated[F32 | None, _shaped(265)] = None
    smo_k_d: int = Field(3, ge=0, le=101)
    use_d_keys: tuple[str, ...] | dict[str, float] | None = None
    relative_d: bool = True
    drive_eye: bool | None = None
    delta_eye_arr: Annotated[F32 | None, _shaped(63)] = None
    delta_eye_open_n: int | tuple[int, ...] = 0
    fade_type: Literal["", "d0", "s"] = ""
    fade_out_keys: tuple[str, ...] = ("exp",)
    flag_stitching: bool = True
    overall_ctrl_info: dict[str, Any] = Field(default_factory=dict)

    @property
    def limits(self) -> F32 | None:
        """float32 (2, 265), lower and upper bound of emitted motion."""
        return None if self.v_min_max_for_clip is None else self.v_min_max_for_clip[:2]


_ONLINE: Final[dict[str, Any]] = {
    "online_mode": True,
    "overlap_v2": 70,
    "fix_kp_cond": 1,
    "fix_kp_cond_dim": (0, 202),
    "sampling_timesteps": 10,
}
"""What the shipped online configuration sets differently from the code's defaults, for folders without it."""


def load_config(folder: Path, mode: Literal["offline", "online"], cache: Path | None = None) -> DittoConfig:
    """The settings of a mode; the reference's defaults where the folder has no configuration of it.

    Args:
        folder: Checkpoint folder.
        mode: Offline (files) or online (live).
        cache: See `engines.ditto.config_file.read_config_tree`.

    Raises:
        UnsafePickleError: The pickle asks for more than data.
        WeightsFileError: The configuration cannot be read or a setting is of no use; it names the setting.
    """
    tree = read_config_tree(folder, mode, cache)
    source = str(find_pickle(folder, mode) or folder)
    if not tree:
        return DittoConfig.model_validate(_ONLINE if mode == "online" else {})
    return parse_config(tree["default_kwargs"], source)


def parse_config(default_kwargs: Mapping[str, Any], source: str) -> DittoConfig:
    """Settings from the public configuration's `default_kwargs`.

    Raises:
        WeightsFileError: A setting is of no use; it names the file and the setting.
    """
    settings = {key: value for key, value in default_kwargs.items() if key in DittoConfig.model_fields}
    if settings.get("ch_info") is not None:
        settings["ch_info"] = _character(settings["ch_info"], source)
    for name, default in (("overall_ctrl_info", {}), ("fade_type", ""), ("fade_out_keys", ("exp",))):
        settings[name] = settings.get(name) or default
    if isinstance(settings.get("use_d_keys"), str):
        settings["use_d_keys"] = (settings["use_d_keys"],)
    try:
        return DittoConfig.model_validate(settings)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise WeightsFileError(source, where, first["msg"]) from error


def _character(info: Any, source: str) -> Character:
    try:
        first = info["x_s_info_lst"][0]
        motion = {name: np.asarray(first[name], np.float32).reshape(1, width) for name, width in FIELD_WIDTHS.items()}
        return Character(
            motion=motion,
            shape=info["sc"],
            eye_open=np.concatenate([np.reshape(row, (1, 2)) for row in info["eye_open_lst"]]),
            eye_ball=np.concatenate([np.reshape(row, (1, 6)) for row in info["eye_ball_lst"]]),
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise WeightsFileError(source, "ch_info", f"is no reference character ({error})") from error
