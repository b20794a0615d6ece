"""What operators may say about video jobs."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from pipeline.config import Settings

DAY_S = 24 * 3600.0


class VideoJobSettings(Settings):
    """Video jobs: how many wait, how many are made at once, how long they are kept."""

    per_host: int = Field(2, ge=1, le=64, description="Video jobs that one SessionHost makes at once.")
    max_waiting: int = Field(1000, ge=1, le=1_000_000, description="Video jobs that may wait; one more gets 503.")
    keep_file_s: float = Field(
        DAY_S, ge=60, le=366 * DAY_S, description="The file can be fetched for so long where its caller does not say."
    )
    max_keep_file_s: float = Field(30 * DAY_S, ge=60, le=366 * DAY_S, description="The longest that a caller may say.")
    remember_s: float = Field(
        7 * DAY_S,
        ge=60,
        le=3660 * DAY_S,
        description="Ended jobs are listed for so long, or as long as their file is kept.",
    )
    max_kept_upload_bytes: int = Field(
        2 * 2**30,
        ge=0,
        description="Uploads of failed and cancelled videos, kept for retries; above this, those that ended first go first.",
    )
    lease_s: float = Field(
        30.0, gt=0, le=3600, description="A job whose host is silent for so long is begun again elsewhere."
    )
    beat_s: float = Field(5.0, gt=0, le=600, description="How often a host says that it still makes a job.")

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if self.keep_file_s > self.max_keep_file_s:
            raise ValueError(
                f"keep_file_s ({self.keep_file_s:g}) must not exceed max_keep_file_s ({self.max_keep_file_s:g})"
            )
        if self.beat_s * 2 > self.lease_s:
            raise ValueError(f"lease_s ({self.lease_s:g}) must be at least twice beat_s ({self.beat_s:g})")
        return self
