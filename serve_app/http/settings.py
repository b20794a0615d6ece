"""What the HTTP application needs to know."""

from __future__ import annotations

from pydantic import Field

from pipeline.config import SessionSettings, Settings


class ApiSettings(Settings):
    """The ingress's own settings, composed by `serve_app.config.AppConfig.ingress`."""

    session: SessionSettings = SessionSettings()
    max_upload_bytes: int = Field(256 * 2**20, ge=1)
    max_audio_s: float = Field(600.0, gt=0)
    max_jobs: int = Field(16, ge=1)
    retry_after_s: float = Field(5.0, gt=0)
    results: str = ""
    results_max_bytes: int = Field(2 * 2**30, ge=2**20)
    results_ttl_s: float = Field(3600.0, gt=0)
