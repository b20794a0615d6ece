"""When keys are needed, where they are kept, and what one key may have and do."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from engines.weights.home import liveanchor_home
from pipeline.config import Settings

KEY_FILE: Final = "keys.json"


class KeySettings(Settings):
    """When keys are needed, and where they are kept."""

    required: Literal["auto", "always", "never"] = Field(
        "auto",
        description="Whether callers need an API key. auto: unless the service listens on loopback alone. always: there too, as "
        "behind a proxy on the same machine. never: whoever reaches the port may do everything.",
    )
    file: str = Field(
        "", description="File of the keys' hashes, the same one for all nodes. keys.json in LIVEANCHOR_HOME when empty."
    )
    open_metrics: bool = Field(False, description="Answer GET /metrics without a key; else it needs the scope admin.")
    token_ttl_s: float = Field(3600.0, ge=60, le=24 * 3600.0, description="A session token is valid for this long.")
    session_s: float = Field(
        12 * 3600.0,
        ge=60,
        le=31 * 24 * 3600.0,
        description="Tokens are renewed for this long after their key was shown.",
    )

    def path(self) -> Path:
        """Path of the file of keys; it need not exist."""
        return Path(self.file).expanduser() if self.file else liveanchor_home() / KEY_FILE


class QuotaSettings(Settings):
    """What one key may have and do. Quotas count nothing where no keys are needed, but offers, by address."""

    requests_per_minute: int = Field(600, ge=0, description="Requests of one key in a minute; then 429. 0: any number.")
    offers_per_minute: int = Field(
        30,
        ge=0,
        description="Live offers in a minute, of one key, or where none is needed of one address that is not loopback; then 429. "
        "0: any number.",
    )
    jobs_at_once: int = Field(8, ge=0, description="File jobs of one key at once; then 429. 0: any number.")
    videos_waiting: int = Field(
        200, ge=0, description="Videos in the background of one key that may wait at once; then 429. 0: any number."
    )
    sessions_at_once: int = Field(16, ge=0, description="Live sessions of one key at once; then 429. 0: any number.")
    max_own_avatars: int = Field(200, ge=0, description="Presenters of one key; then 507. 0: any number.")
    max_own_avatars_bytes: int = Field(
        4 * 2**30, ge=0, description="Bytes of the presenters of one key; then 507. 0: any number."
    )
    counters: str = Field(
        "",
        description="Where requests are counted: in each ingress replica when empty; async+redis://HOST:PORT/N counts for all.",
    )

    @field_validator("counters")
    @classmethod
    def _known_place(cls, uri: str) -> str:
        if uri and urlsplit(uri).scheme not in ("async+redis", "async+rediss"):
            raise ValueError("empty, or an address such as async+redis://127.0.0.1:6379/0")
        return uri
