"""What the HTTP application needs to know."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from pipeline.config import SessionSettings, Settings
from pipeline.live.settings import RtcSettings
from serve_app.http.body.pieces import BodyLimits


class ApiSettings(Settings):
    """The ingress's own settings, composed by `serve_app.config.settings.AppConfig.ingress`."""

    session: SessionSettings = SessionSettings()
    rtc: RtcSettings = RtcSettings()
    max_upload_bytes: int = Field(256 * 2**20, ge=1)
    max_json_bytes: int = Field(32 * 2**20, ge=1)
    max_buffered_bytes: int = Field(512 * 2**20, ge=1)
    upload_idle_s: float = Field(30.0, gt=0)
    upload_s: float = Field(600.0, gt=0)
    stall_s: float = Field(120.0, gt=0)
    max_audio_s: float = Field(600.0, gt=0)
    max_avatars: int = Field(1000, ge=1)
    max_avatars_bytes: int = Field(16 * 2**30, ge=2**20)
    temporary_avatar_ttl_s: float = Field(24 * 3600.0, ge=0)
    max_jobs: int = Field(16, ge=1)
    retry_after_s: float = Field(5.0, gt=0)
    results: str = ""
    results_max_bytes: int = Field(2 * 2**30, ge=2**20)
    results_ttl_s: float = Field(3600.0, gt=0)
    cors_origins: tuple[str, ...] = ()
    stats_ids: bool = True
    proxy_echoes_request_id: bool = Field(
        False, description="The proxy in front puts X-Request-Id into the answer itself, so the application must not."
    )

    def body(self, max_bytes: int) -> BodyLimits:
        """Limits of one kind of body."""
        return BodyLimits(max_bytes, self.upload_idle_s, self.upload_s)

    @model_validator(mode="after")
    def _one_upload_fits(self) -> Self:
        if self.max_buffered_bytes < max(self.max_upload_bytes, self.max_json_bytes):
            raise ValueError("max_buffered_bytes must hold one upload: at least max_upload_bytes and max_json_bytes")
        return self
