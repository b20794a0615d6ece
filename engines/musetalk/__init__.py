"""The networks of the family `musetalk`: public checkpoints, run by `diffusers` and `transformers` (docs/musetalk.md)."""

from typing import Final

FAMILY: Final = "musetalk"
