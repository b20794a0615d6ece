"""Which brain the settings mean."""

from __future__ import annotations

from pipeline.talk.brain import Brain, EchoBrain
from pipeline.talk.chat_brain import ChatBrain
from pipeline.talk.settings import AgentSettings


def find_brain(settings: AgentSettings) -> Brain:
    """A chat server where one is set, else an echo; nobody is asked yet."""
    return ChatBrain(settings) if settings.url else EchoBrain()
