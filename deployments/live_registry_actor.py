"""The registry of live sessions as the actor that Ray Serve keeps beside `SessionHost`."""

from __future__ import annotations

import ray

from deployments.live_registry import SessionRegistry

LiveRegistry = ray.remote(SessionRegistry)
"""Named by `deployments.config.LIVE_REGISTRY`."""
