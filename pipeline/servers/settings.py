"""Typed settings that every server of the operator has: address, key, and how long it may take."""

from __future__ import annotations

from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_serializer, field_validator

from pipeline.config import Settings


class ServerSettings(Settings):
    """Says where a server is that speaks one of OpenAI's conventions, and how long it may take."""

    url: str = Field("", description="Base address of the server, such as http://127.0.0.1:8880/v1; empty: no server.")
    key: SecretStr = Field(SecretStr(""), description="Bearer token for that server.")
    model: str = Field("", max_length=200, description="The server's model; where empty, the request names none.")
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

    def endpoint_of(self, path: str) -> str:
        """Address of one call, such as `audio/speech`; empty where no server is set. `/v1` may be left out of the base address."""
        base = self.url.rstrip("/")
        if not base or base.endswith(f"/{path}"):
            return base
        return f"{base}/{path}" if urlsplit(base).path else f"{base}/v1/{path}"
