"""Typed settings of the voice that speaks text."""

from __future__ import annotations

from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_serializer, field_validator

from pipeline.config import Settings
from pipeline.media.resample import MAX_RATE_HZ, MIN_RATE_HZ


class VoiceSettings(Settings):
    """Says who speaks text: a server of the convention `POST /v1/audio/speech`, or the embedded voice where none is set."""

    url: str = Field(
        "",
        description="Base address of a server of POST /v1/audio/speech, such as http://tts:8880/v1; empty: the embedded voice.",
    )
    key: SecretStr = Field(SecretStr(""), description="Bearer token for that server.")
    model: str = Field("", max_length=200, description="The server's model; left out of the request where empty.")
    voice: str = Field("", max_length=200, description="Name of a voice of the server; left out where empty.")
    audio: Literal["pcm", "wav"] = Field(
        "pcm",
        description="Form that is asked for: pcm, 16 bit mono without a header, or wav, which tells its own rate.",
    )
    pcm_rate_hz: int = Field(
        24_000,
        ge=MIN_RATE_HZ,
        le=MAX_RATE_HZ,
        description="Samples per second of the server's pcm: the answer does not say.",
    )
    connect_s: float = Field(5.0, gt=0, le=60, description="The server must take the connection in this time.")
    silent_s: float = Field(20.0, gt=0, le=300, description="A server that sends nothing for so long counts as gone.")

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        parts = urlsplit(url)
        try:
            named = parts.hostname and (parts.port is None or parts.port > 0)
        except ValueError:  # a port that is no number, or too large
            named = False
        if url and not (named and parts.scheme in ("http", "https")):
            raise ValueError("an address such as http://127.0.0.1:8880/v1")
        return url

    @field_serializer("key", when_used="json")
    def _whole(self, key: SecretStr) -> str:
        """The document that Ray Serve is given must hold it; logs and reprs never do."""
        return key.get_secret_value()

    @property
    def endpoint(self) -> str:
        """Address that speech is asked of; empty for the embedded voice."""
        base = self.url.rstrip("/")
        if not base or base.endswith("/audio/speech"):
            return base
        return f"{base}/audio/speech" if urlsplit(base).path else f"{base}/v1/audio/speech"
