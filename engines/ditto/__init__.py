"""What runs the Ditto family's networks: checkpoints, configuration, HuBERT, landmark models, picture synthesis."""

from typing import Final

FAMILY: Final = "ditto"
