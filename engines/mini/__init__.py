"""The networks and the mesh renderer of the family `mini`."""

from typing import Final

FAMILY: Final = "mini"
