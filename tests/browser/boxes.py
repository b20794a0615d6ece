"""The outermost boxes of an mp4."""

from __future__ import annotations


def top_boxes(data: bytes) -> list[str]:
    """The boxes of an mp4, at its top."""
    found, at = [], 0
    while at < len(data):
        found.append(data[at + 4 : at + 8].decode())
        at += int.from_bytes(data[at : at + 4], "big")
    return found
