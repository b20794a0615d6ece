"""Sizes that the networks and an avatar's bundle agree on."""

from typing import Final

FACE_SIDE: Final = 256
"""Side in pixels of the face that is read and painted."""
LATENT_SIDE: Final = FACE_SIDE // 8
LATENT_CHANNELS: Final = 8
"""Four of the face whose lower half is black, then four of the whole face."""
TOKENS: Final = 50
TOKEN_DIM: Final = 384
