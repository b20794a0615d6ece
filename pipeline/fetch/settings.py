"""Which addresses that callers name may be reached."""

from __future__ import annotations

from pydantic import Field, field_validator

from pipeline.config import Settings
from pipeline.fetch.addresses import networks_of


class FetchSettings(Settings):
    """What may be reached for callers who name an address: in place of a file, or for messages."""

    enabled: bool = Field(True, description="Take addresses that callers name; else they are refused.")
    timeout_s: float = Field(60.0, gt=0, le=3600, description="Longest time for one file, redirects included.")
    max_redirects: int = Field(
        3, ge=0, le=10, description="Redirects that are followed; each is checked like the first address."
    )
    ports: tuple[int, ...] = Field((80, 443), description="Ports that may be connected to.")
    networks: tuple[str, ...] = Field(
        (),
        description="Networks that may be reached besides the public internet, such as 10.1.0.0/16; none by default.",
    )

    @field_validator("networks")
    @classmethod
    def _networks(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        networks_of(texts)
        return texts
