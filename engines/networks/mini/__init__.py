"""Networks of the embedded `mini` family."""

from __future__ import annotations

from typing import Final

FACTORIES: Final[dict[str, tuple[str, str]]] = {
    "lmdm": ("engines.networks.lmdm", "build_mini"),
    "speech_encoder": ("engines.networks.mini.speech_encoder", "build_speech_encoder"),
}
"""Network name behind the slash -> (module, factory). The module is imported at first use."""
