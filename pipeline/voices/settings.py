"""Typed settings of the voice that speaks text."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pipeline.media.resample import MAX_RATE_HZ, MIN_RATE_HZ
from pipeline.servers.settings import ServerSettings


class VoiceSettings(ServerSettings):
    """Says who speaks text: a server of the convention `POST /v1/audio/speech`, or the embedded voice where none is set."""

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
