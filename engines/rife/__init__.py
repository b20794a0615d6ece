"""Frame interpolation: weights of the RIFE networks and the interpolator that sessions use."""

from __future__ import annotations

from engines.rife.interpolator import EncodedFrame, Interpolator, load_interpolator

__all__ = ["EncodedFrame", "Interpolator", "load_interpolator"]
