"""Networks of the Ditto family (LivePortrait's renderer); state-dict names are those of the public checkpoints."""

from __future__ import annotations

from typing import Final

FACTORIES: Final[dict[str, tuple[str, str]]] = {
    "appearance_extractor": ("engines.networks.ditto.appearance_extractor", "AppearanceExtractor"),
    "decoder": ("engines.networks.ditto.decoder", "SpadeDecoder"),
    "motion_extractor": ("engines.networks.ditto.motion_extractor", "MotionExtractor"),
    "stitch_network": ("engines.networks.ditto.stitch_network", "StitchNetwork"),
    "warp_network": ("engines.networks.ditto.warp_network", "WarpNetwork"),
    "lmdm": ("engines.networks.lmdm", "build_ditto"),
}
"""Network name behind the slash -> (module, factory). The module is imported at first use."""
