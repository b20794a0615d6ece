"""Frame interpolation networks of the RIFE 4.x line."""

from __future__ import annotations

from typing import Final

FACTORIES: Final[dict[str, tuple[str, str]]] = {
    "4.0": ("engines.networks.rife.ifnet", "build_4_0"),
    "4.25": ("engines.networks.rife.ifnet", "build_4_25"),
    "4.6": ("engines.networks.rife.ifnet", "build_4_6"),
    "4.9": ("engines.networks.rife.ifnet", "build_4_9"),
    "mini": ("engines.networks.rife.ifnet", "build_mini"),
}
"""Network name behind the slash -> (module, factory). The module is imported at first use."""
