"""Typed settings, one model per stage. Unknown or out-of-range values are refused by name; nothing is read at import."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Settings(BaseModel):
    """Base of all settings: frozen, and an unknown key is an error that names it."""

    model_config = ConfigDict(extra="forbid", frozen=True)


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


class SessionSettings(Settings):
    """How one session is cut into work."""

    chunk_frames: Literal[4, 8, 16, 25] = Field(8, description="Motion frames (25 per second) per render call.")
    fps: Literal[25, 50] = Field(25, description="Frames per second of the output.")
    cadence: Literal[1, 2] = Field(1, description="2 evaluates every second motion frame and fills in by SLERP.")
    credits: int = Field(3, ge=1, le=16, description="Chunks of one session that may be in work at the same time.")
    colour: Literal["bt709", "bt601"] = Field(
        "bt709", description="Matrix of the NV12 picture; the stream is tagged with it."
    )
    silence: SilenceSettings = SilenceSettings()
