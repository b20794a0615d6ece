"""Networks of the family `musetalk` that no library keeps; state-dict names are those of the public checkpoints."""

from __future__ import annotations

from typing import Final

FACTORIES: Final[dict[str, tuple[str, str]]] = {
    "face_parser": ("engines.networks.musetalk.face_parser", "FaceParser"),
}
"""Network name behind the slash -> (module, factory). The module is imported at first use."""
