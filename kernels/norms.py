"""The one fact that the kernels of layer norm and instance norm share."""

from __future__ import annotations

from typing import Final

EPS: Final = 1e-5
"""What torch's norms add to a variance before its root is taken."""
