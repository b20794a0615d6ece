"""How many whole sets of stages there are: one replica of every GPU stage on every Ray node with a GPU that is in use.

Stages scaled one by one end up on the wrong GPUs: two renderers share one while another draws nothing, or the shares that are left
over fit no stage. So all GPU stages have the same number of replicas, `max_replicas_per_node: 1` puts one of each on a node, and a
node has one GPU (`liveanchor serve --gpus`, docs/operations.md). Never are more asked for than there are nodes: a replica that
waits for room takes the share of a stage that dies, and everything stands still. Where nodes are added on demand (KubeRay), a
replica that waits is what makes a node come: there, `LIVEANCHOR_GPUS_TO_COME` says how many may be asked for beyond those
that are there.

Ray Serve applies every deployment's own delays, factors and bounds to what `whole_sets` answers; they are the same for all GPU
stages.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import ray
import structlog
from ray.serve.autoscaling_policy import replica_queue_length_autoscaling_policy
from ray.serve.config import AutoscalingContext

from deployments.config import DEPLOYMENT_NAMES, STAGE_NAMES

_log = structlog.get_logger(__name__)

TO_COME: Final = "LIVEANCHOR_GPUS_TO_COME"
ASKED_EVERY_S: Final = 2.0
_STAGES: Final = frozenset(DEPLOYMENT_NAMES[name] for name in STAGE_NAMES)


class GpuNodes:
    """Ray nodes with a GPU, asked for now and then: the policy runs ten times a second in Ray Serve's controller.

    Args:
        ask: Gives Ray's list of nodes.
        clock: Monotonic seconds.
    """

    def __init__(
        self, ask: Callable[[], Sequence[Mapping[str, Any]]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ask = ask
        self._clock = clock
        self._asked_at: float | None = None
        self._count = 0

    def count(self) -> int:
        """Number of living nodes with at least one whole GPU, as last seen."""
        now = self._clock()
        if self._asked_at is None or now - self._asked_at >= ASKED_EVERY_S:
            found = [float(one.get("Resources", {}).get("GPU", 0.0)) for one in self._ask() if one.get("Alive")]
            self._count = sum(gpus >= 1.0 for gpus in found)
            if any(gpus >= 2.0 for gpus in found):
                _log.warning(
                    "a node with several GPUs serves one set of stages", gpus=max(found), wanted="one Ray node per GPU"
                )
            self._asked_at = now
        return self._count


def _nodes() -> Sequence[Mapping[str, Any]]:
    ask: Any = ray.nodes  # Ray's own, without types
    found: Sequence[Mapping[str, Any]] = ask()
    return found


_gpu_nodes: Final = GpuNodes(_nodes)


def most_sets(nodes: int, to_come: int, least: int) -> int:
    """Largest number of sets that may be asked for.

    Args:
        nodes: Nodes with a GPU that are there.
        to_come: Nodes with a GPU that may be added.
        least: Sets that there must be in any case.
    """
    return max(nodes + to_come, least)


@lru_cache(maxsize=8)
def gpus_to_come(text: str) -> int:
    """What `LIVEANCHOR_GPUS_TO_COME` says; 0 for anything but digits: an error here would stop Ray Serve's controller."""
    if text and not text.isdecimal():
        _log.warning("no number of GPUs", variable=TO_COME, value=text, allowed="digits, such as 1")
    return int(text) if text.isdecimal() else 0


def whole_sets(contexts: dict[Any, AutoscalingContext]) -> tuple[dict[Any, float], dict[Any, dict[str, Any]]]:
    """Ray Serve's policy of the application: its own rule per deployment, then the largest answer of a GPU stage for all four.

    Args:
        contexts: Deployment id -> what Ray Serve knows of it; an id has the deployment's `name`.

    Returns:
        Deployment id -> replicas wanted, and the state that Ray Serve's rule keeps per deployment.
    """
    wanted: dict[Any, float] = {}
    states: dict[Any, dict[str, Any]] = {}
    for key, context in contexts.items():
        wanted[key], states[key] = replica_queue_length_autoscaling_policy(context)
    stages = [key for key in contexts if key.name in _STAGES]
    nodes = _gpu_nodes.count()
    if stages and nodes:  # without GPUs stages run on CPUs, and nothing is known about room
        least = max(contexts[key].capacity_adjusted_min_replicas for key in stages)
        sets = max(math.ceil(wanted[key]) for key in stages)
        sets = max(least, min(sets, most_sets(nodes, gpus_to_come(os.environ.get(TO_COME, "")), least)))
        wanted |= dict.fromkeys(stages, float(sets))
    return wanted, states
