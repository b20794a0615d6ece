"""Typed settings, one model per stage. Unknown or out-of-range values are refused by name; nothing is read at import."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

from kernels.errors import InvalidInputError
from pipeline.clock import SUPPORTED_FPS, check_fps
from pipeline.numbers import exact_number


class Settings(BaseModel):
    """Base of all settings: frozen, an unknown key is an error that names it, and numbers may be spelled in any way."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _plain_numbers(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        return {name: _plain(value) if _takes_number(cls, name) else value for name, value in values.items()}


def _takes_number(settings: type[Settings], name: object) -> bool:
    field = settings.model_fields.get(str(name))
    return field is not None and _holds_number(field.annotation)


def _holds_number(annotation: Any) -> bool:
    """Whether a type is that of numbers or flags, or a choice of some."""
    if annotation in (int, float, bool):
        return True
    if get_origin(annotation) is Literal:
        return all(isinstance(one, int) for one in get_args(annotation))
    return any(_holds_number(one) for one in get_args(annotation) if one is not type(None))


def _plain(value: Any) -> Any:
    """A number in the one spelling that pydantic takes for every kind of field; anything else as it is."""
    found = exact_number(value)
    return value if found is None else float(found) if isinstance(found, Decimal) else found


class SilenceSettings(Settings):
    """When a session counts as speaking."""

    open_rms: float = Field(0.008, gt=0, lt=1, description="A frame at or above this RMS (full scale 1.0) is speech.")
    close_rms: float = Field(0.005, gt=0, lt=1, description="While speaking, a frame below this RMS is quiet.")
    hold_frames: int = Field(12, ge=0, le=250, description="Quiet frames (40 ms each) before speech counts as over.")

    @model_validator(mode="after")
    def _close_below_open(self) -> Self:
        if self.close_rms > self.open_rms:
            raise ValueError(f"close_rms ({self.close_rms}) must not exceed open_rms ({self.open_rms})")
        return self


def _fps(value: Any) -> float:
    """25, 50 or 59.94, also where it comes as text."""
    try:
        return check_fps(float(value))
    except (InvalidInputError, TypeError, ValueError) as error:
        allowed = ", ".join(f"{one:g}" for one in SUPPORTED_FPS)
        raise ValueError(f"fps: got {str(value)[:40]} (allowed: {allowed})") from error


Fps = Annotated[float, PlainValidator(_fps), WithJsonSchema({"type": "number", "enum": list(SUPPORTED_FPS)})]
"""25, 50, or 59.94 for 60000/1001; whole rates stay integers."""


FileMotion = Literal["auto", "offline", "low_latency", "compat"]


class SessionSettings(Settings):
    """How one session is cut into work."""

    chunk_frames: Literal[4, 8, 16, 25] = Field(8, description="Motion frames (25 per second) per render call.")
    fps: Fps = Field(25, description="Frames per second of the output: 25, 50 or 59.94 (60000/1001).")
    interpolate: Literal["auto", "rife"] = Field(
        "auto",
        description="Who makes frames above 25 frames/s. auto: the renderer where the family can, else RIFE. rife: RIFE.",
    )
    cadence: Literal[1, 2] = Field(1, description="2 evaluates every second motion frame and fills in by SLERP.")
    credits: int = Field(3, ge=1, le=16, description="Chunks of one session that may be in work at the same time.")
    file_credits: int | None = Field(
        None,
        ge=1,
        le=64,
        description="The same of one file; null: as for sessions. More of them make a lone file ready sooner.",
    )
    colour: Literal["bt709", "bt601"] = Field(
        "bt709", description="Matrix of the NV12 picture; the stream is tagged with it."
    )
    file_motion: FileMotion = Field(
        "auto",
        description="How the motion of a file is made. auto: offline where the family can (it sees speech that comes later), else "
        "low_latency, as in a live session. compat: Ditto's reference online worker, frame for frame.",
    )
    silence: SilenceSettings = SilenceSettings()


class RifeSettings(Settings):
    """Which interpolation network runs, and whether a CPU may run it."""

    network: Literal["auto", "mini", "4.0", "4.6", "4.9", "4.25"] = Field(
        "auto", description="auto: the best one whose weights are here; mini is embedded."
    )
    allow_cpu: bool = Field(
        False, description="Let a CPU interpolate pictures, far below real time; else it is refused there."
    )


X264Preset = Literal["ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow"]


class EncoderSettings(Settings):
    """How pictures become H.264 and the voice AAC.

    The defaults for files keep the decoded speaking presenter at or above 46 dB against the NV12 that went in:
    `veryfast` with CRF 17 and a look-ahead gave 48.9 dB at half the bytes of `superfast` with CRF 20. A file that is
    streamed while it is made is encoded without look-ahead, which needs a higher CRF for the same quality.
    """

    prefer: Literal["auto", "nvenc", "x264"] = Field(
        "auto",
        description="`auto` uses NVENC where one frame can really be encoded, else libx264; `nvenc` insists on it.",
    )
    file_preset: X264Preset = Field("veryfast", description="libx264 preset for finished files.")
    file_crf: int = Field(17, ge=0, le=40, description="libx264 quality for finished files; lower is better.")
    file_lookahead_frames: int = Field(
        10, ge=0, le=60, description="Frames that libx264 may hold back in finished files."
    )
    stream_preset: X264Preset = Field("veryfast", description="libx264 preset for files streamed while they are made.")
    stream_crf: int = Field(20, ge=0, le=40, description="libx264 quality for files streamed while they are made.")
    live_preset: X264Preset = Field("ultrafast", description="libx264 preset for live sessions.")
    live_kbps: int = Field(4000, ge=100, le=50_000, description="Video bit rate of a live session, kbit/s.")
    live_vbv_s: float = Field(
        0.5, ge=0.05, le=5, description="A live key frame may take at most this many seconds of the rate."
    )
    nvenc_preset: Literal["p1", "p2", "p3", "p4", "p5", "p6", "p7"] = Field("p1", description="NVENC preset.")
    nvenc_file_qp: int = Field(20, ge=0, le=40, description="NVENC constant quantiser for files; lower is better.")
    file_gop_s: float = Field(1.0, gt=0, le=10, description="Seconds between key frames in files; every GOP is closed.")
    live_min_qp: int = Field(
        20,
        ge=0,
        le=40,
        description="libx264 makes no live picture better than this: a still background would take the whole rate for nothing.",
    )
    live_gop_s: float = Field(2.0, gt=0, le=10, description="Seconds between key frames when live.")
    threads: int = Field(2, ge=1, le=16, description="libx264 threads per file.")
    live_threads: int = Field(1, ge=1, le=16, description="libx264 threads per live session; more cost more in sum.")
    aac_kbps: int = Field(128, ge=32, le=320, description="Bit rate of the voice in files, kbit/s.")
    fragment_ms: int = Field(200, ge=20, le=5000, description="Length of one fragment of a file streamed while made.")
