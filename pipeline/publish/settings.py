"""Where sessions may be published to."""

from __future__ import annotations

from pydantic import Field

from pipeline.fetch.settings import FetchSettings


class PublishSettings(FetchSettings):
    """Where callers may have their sessions published to; the checks are those of addresses that are fetched."""

    hosts: tuple[str, ...] = Field(
        (), description="Hosts such as ingest.example that may be published to; empty: every host that may be reached."
    )
    max_publications: int = Field(4, ge=0, le=64, description="Ingests that one session is published to at once.")
