"""Crops on their way from one replica to the next: an un-awaited response that can be asked for again when its replica dies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deployments.graph.handle_calls import give_up


class GraphCrops:
    """`pipeline.stages.CropsInWork` across the cluster. Passed on, it becomes a reference: the pictures go replica to replica.

    Args:
        launch: Makes the call and returns its response.
    """

    def __init__(self, launch: Callable[[], Any]) -> None:
        self._launch = launch
        self.response = launch()

    def renew(self) -> None:
        """Draw them again. The old response is left alone: another call may still get what it needs from it."""
        self.response = self._launch()

    def cancel(self) -> None:
        """Implement `CropsInWork`."""
        give_up(self.response)
