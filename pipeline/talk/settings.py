"""Typed settings of the agent that answers in sessions of `drive: "talk"`."""

from __future__ import annotations

from typing import Final, Self

from pydantic import Field, model_validator

from pipeline.servers.settings import ServerSettings

INSTRUCTIONS: Final = (
    "You are a friendly presenter in a spoken conversation. Answer in one to three short sentences, in the language that you are "
    "spoken to. What you write is read out: no lists, no headings, no emoji."
)


class HearingSettings(ServerSettings):
    """Says who writes down what was said: a server of `/v1/audio/transcriptions`, the agent's own where none is set."""

    language: str = Field(
        "",
        pattern=r"^[A-Za-z-]{0,16}$",
        description="Language that is spoken, such as en; empty: the server finds out.",
    )


class AgentSettings(ServerSettings):
    """Says who answers a person who talks to the presenter: a server of `/v1/chat/completions`, or an echo where none is set."""

    instructions: str = Field(INSTRUCTIONS, max_length=20_000, description="System message; left out where empty.")
    hearing: HearingSettings = HearingSettings()
    remembered_turns: int = Field(10, ge=0, le=100, description="Turns of the conversation that the server is shown.")
    reply_characters: int = Field(2000, ge=50, le=10_000, description="Characters of an answer; the rest is not said.")
    reply_s: float = Field(60.0, gt=0, le=600, description="An answer must be written in this time.")
    pause_s: float = Field(0.6, ge=0.2, le=5, description="Silence after which a person has finished speaking.")
    least_speech_s: float = Field(
        0.24, ge=0.06, le=2, description="Shorter sounds begin no turn, and interrupt nothing: coughs, clicks."
    )
    longest_turn_s: float = Field(30.0, ge=1, le=120, description="A person who speaks longer is answered then.")

    @model_validator(mode="after")
    def _whose_ears(self) -> Self:
        if self.hearing.url and not self.url:
            raise ValueError("hearing.url writes down what was said for a chat server: set url, too")
        return self

    @property
    def ears(self) -> HearingSettings:
        """The server that writes down what was said: where no other is set, the agent's own, with its key."""
        if self.hearing.url:
            return self.hearing
        key = self.hearing.key if self.hearing.key.get_secret_value() else self.key
        return self.hearing.model_copy(update={"url": _base_of(self.url), "key": key})


def _base_of(url: str) -> str:
    """The base address, where the whole one of chat completions was written."""
    return url.rstrip("/").removesuffix("/chat/completions")
