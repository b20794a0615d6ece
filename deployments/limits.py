"""What callers may ask for: one group of settings, written once, for the ingress and for `SessionHost`."""

from __future__ import annotations

from typing import Self

from pydantic import Field, field_validator, model_validator

from pipeline.avatars.portrait import PortraitLimits
from pipeline.avatars.quota import IN_USE_S
from pipeline.config import Settings
from pipeline.media.audio_container import AudioLimits

MIN_AVATAR_TTL_S = 2 * IN_USE_S


class LimitSettings(Settings):
    """What callers may ask for."""

    max_upload_bytes: int = Field(AudioLimits.max_bytes, ge=1, le=4 * 2**30, description="Largest request body.")
    max_json_bytes: int = Field(32 * 2**20, ge=1, le=2**30, description="Largest request body in JSON with base64.")
    max_buffered_bytes: int = Field(
        512 * 2**20, ge=1, description="Uploads in memory at once, per ingress replica; more get 503."
    )
    max_portrait_bytes: int = Field(PortraitLimits.max_bytes, ge=1, le=2**30, description="Largest portrait picture.")
    max_portrait_pixels: int = Field(
        PortraitLimits.max_pixels, ge=2**14, le=2**30, description="Most pixels of a portrait picture."
    )
    max_audio_s: float = Field(AudioLimits.max_seconds, gt=0, le=36_000, description="Longest speech of one job.")
    max_avatars: int = Field(
        1000, ge=1, le=1_000_000, description="Presenters in the store; then temporary ones go, else one more gets 507."
    )
    max_avatars_bytes: int = Field(
        16 * 2**30, ge=2**20, description="Bytes of all presenters; then temporary ones go, else one more gets 507."
    )
    temporary_avatar_ttl_s: float = Field(
        24 * 3600.0,
        ge=0,
        le=366 * 24 * 3600.0,
        description="Seconds without use after which a presenter that a job made of its portrait goes; 0: never.",
    )
    max_uploads: int = Field(
        192,
        ge=1,
        description="Uploads that come in at once, per ingress replica; more get 503. Less than its max_ongoing_requests.",
    )
    max_uploads_per_client: int = Field(
        16, ge=1, description="Uploads of one key at once, or of one address that is not loopback; more get 429."
    )
    upload_min_bytes_per_s: float = Field(
        1024.0,
        ge=0,
        description="An upload that is slower than this on the whole, after upload_idle_s, gets 408. 0: no bound.",
    )
    upload_idle_s: float = Field(30.0, gt=0, le=3600, description="Longest pause of an upload; then 408.")
    upload_s: float = Field(600.0, gt=0, le=36_000, description="Longest time for one upload; then 408.")
    stall_s: float = Field(120.0, gt=0, le=3600, description="A client that takes nothing for so long counts as gone.")
    max_jobs: int = Field(16, ge=1, le=10_000, description="File jobs at once, per ingress replica; more get 503.")
    retry_after_s: float = Field(5.0, gt=0, le=3600, description="Retry-After of a 503.")

    @field_validator("temporary_avatar_ttl_s")
    @classmethod
    def _outlasts_its_use(cls, seconds: float) -> float:
        if 0 < seconds < MIN_AVATAR_TTL_S:
            raise ValueError(f"0 (never), or at least {MIN_AVATAR_TTL_S:g}: less may pass while one is used")
        return seconds

    @model_validator(mode="after")
    def _one_upload_fits(self) -> Self:
        if self.max_buffered_bytes < max(self.max_upload_bytes, self.max_json_bytes):
            raise ValueError("max_buffered_bytes must hold one upload: at least max_upload_bytes and max_json_bytes")
        return self

    def of_audio(self) -> AudioLimits:
        """What the speech of a file job may be."""
        return AudioLimits(self.max_audio_s, self.max_upload_bytes)

    def of_portraits(self) -> PortraitLimits:
        """What a portrait picture may be."""
        return PortraitLimits(self.max_portrait_bytes, self.max_portrait_pixels)


class ConsentSettings(Settings):
    """Whether faces are animated only after somebody has said that this is agreed."""

    needed: bool = Field(
        False,
        description="Presenters are registered only with a statement of consent; jobs take no portrait that was not registered.",
    )
