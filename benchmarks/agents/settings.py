"""Settings of the graph that the agents' benchmark measures, where they differ from the defaults."""

from __future__ import annotations

from typing import Any, Final

from benchmarks.agents.coturn import SECRET

DIRECT: Final = 10
"""Viewers that a session may have without an SFU."""


def fields(front_port: int, turn_port: int) -> dict[str, Any]:
    """Groups of the configuration.

    Args:
        front_port: Port of this machine to which sessions may be published.
        turn_port: Port of this machine at which clients look for a TURN server; without one, an offer waits half a second.
    """
    return {
        "publish": {"networks": ["127.0.0.0/8"], "ports": [front_port]},
        "rtc": {
            "max_viewers": DIRECT,
            "turn_urls": [f"turn:127.0.0.1:{turn_port}?transport=udp"],
            "turn_secret": SECRET,
        },
        "live": {"idle_ttl_s": 3600.0},
    }
