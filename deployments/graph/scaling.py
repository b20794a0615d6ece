"""How many replicas a GPU stage may have: no more than the cluster's GPUs hold, one of every stage each.

A replica that waits for a share of a full GPU looks harmless, but when a replica of another stage dies, Ray gives the share that
becomes free to whoever waits longest: the stage that lost its replica stays without one, and everything stands still. So stages
ask only for what is there. Where nodes are added on demand (KubeRay), a replica that waits is what makes a node come: there,
`LIVEANCHOR_GPUS_TO_COME` says how many GPUs may be asked for beyond those that are there.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import ray
import structlog
from ray.serve.autoscaling_policy import replica_queue_length_autoscaling_policy
from ray.serve.config import AutoscalingContext

_log = structlog.get_logger(__name__)

TO_COME: Final = "LIVEANCHOR_GPUS_TO_COME"
ASKED_EVERY_S: Final = 2.0


class ClusterGpus:
    """GPUs of the whole cluster, asked for now and then: the policy runs ten times a second in Ray Serve's controller.

    Args:
        ask: Gives Ray's resources.
        clock: Monotonic seconds.
    """

    def __init__(self, ask: Callable[[], dict[str, float]], clock: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._asked_at: float | None = None
        self._count = 0.0

    def count(self) -> float:
        """As last seen."""
        now = self._clock()
        if self._asked_at is None or now - self._asked_at >= ASKED_EVERY_S:
            self._count = float(self._ask().get("GPU", 0.0))
            self._asked_at = now
        return self._count


def _resources() -> dict[str, float]:
    ask: Any = ray.cluster_resources  # Ray's own, without types
    found: dict[str, float] = ask()
    return found


_gpus: Final = ClusterGpus(_resources)


def most_replicas(gpus: float, to_come: int, least: int) -> int:
    """Of a stage.

    Args:
        gpus: That are there.
        to_come: That may be added.
        least: Replicas that there must be in any case.
    """
    return max(int(gpus) + to_come, least)


@lru_cache(maxsize=8)
def gpus_to_come(text: str) -> int:
    """What `LIVEANCHOR_GPUS_TO_COME` says; 0 for anything but digits: an error here would stop Ray Serve's controller."""
    if text and not text.isdecimal():
        _log.warning("no number of GPUs", variable=TO_COME, value=text, allowed="digits, such as 1")
    return int(text) if text.isdecimal() else 0


def as_many_as_fit(ctx: AutoscalingContext) -> tuple[float, dict[str, Any]]:
    """Ray Serve's own rule (calls in flight against their target), bounded by `most_replicas`."""
    wanted, state = replica_queue_length_autoscaling_policy(ctx)
    gpus = _gpus.count()
    if gpus < 1:
        return wanted, state  # stages run on CPUs, or on less than one GPU: nothing is known about room
    limit = most_replicas(gpus, gpus_to_come(os.environ.get(TO_COME, "")), ctx.capacity_adjusted_min_replicas)
    return min(wanted, limit), state
