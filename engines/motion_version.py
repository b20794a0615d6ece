"""Which table of control points motion refers to; apart from `engines.motion_layout`, so that reading it loads no torch."""

from __future__ import annotations

from typing import Final

CONTROL_POINTS_VERSION: Final = 1
"""Raised whenever an index, an anchor or a unit of a control point changes; written into weights and bundles, checked on load."""
