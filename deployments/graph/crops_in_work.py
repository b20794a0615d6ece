"""Crops on their way from one replica to the next: an un-awaited response that can be asked for again when its replica dies."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ray.exceptions import ObjectLostError, RayActorError, RayError
from ray.serve.exceptions import RayServeException


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
        """See `CropsInWork`."""
        give_up(self.response)


def give_up(response: Any) -> None:
    """Cancel a call. One that never reached a replica answers with its own error once more, which nobody waits for."""
    with suppress(RayServeException, RayError):
        response.cancel()


def is_lost(error: BaseException | None) -> bool:
    """Whether an error says that a replica died, or took away with it what a call needs: itself, as a cause, or wrapped by Ray."""
    while error is not None:
        if isinstance(error, RayActorError | ObjectLostError):
            return True
        wrapped = getattr(error, "cause", None)
        error = wrapped if isinstance(wrapped, BaseException) and wrapped is not error else error.__cause__
    return False
