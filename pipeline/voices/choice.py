"""Which voice the settings mean."""

from __future__ import annotations

from pipeline.voices.embedded import EmbeddedVoice
from pipeline.voices.settings import VoiceSettings
from pipeline.voices.speech_server import SpeechServer
from pipeline.voices.voice import Voice


def find_voice(settings: VoiceSettings) -> Voice:
    """The server's where one is set, else the embedded one; nothing is loaded and nobody is asked yet."""
    return SpeechServer(settings) if settings.url else EmbeddedVoice()
