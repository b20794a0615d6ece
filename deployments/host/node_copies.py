"""Copies of avatars on the machines of a cluster: each node has its own, on its disk and in the memory of its processes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from deployments.host.avatar_commands import Left
from deployments.host.avatars import is_mirrored
from kernels.errors import LiveAnchorError, first_line
from pipeline.avatars.store import AvatarNotFoundError, AvatarStore, avatars_dir
from pipeline.bounded_cache import drop_avatar

NODE_S: Final = 120.0
"""Seconds that a node may take to start a process and remove its copies."""
DROP_S: Final = 30.0
"""Seconds that the replicas of a deployment may take to drop what they keep."""


@dataclass(frozen=True)
class Dropped:
    """Where copies were dropped.

    Attributes:
        places: Nodes and processes that keep nothing any more.
        left: Those that did not answer, or could not.
    """

    places: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()


def drop_copies(uri: str, avatar_ids: Sequence[str]) -> None:
    """Remove what this machine and this process keep of avatars that are in another place, or were.

    Args:
        uri: Place of the avatars, as `deployments.host.avatars.open_avatar_store` takes it.
        avatar_ids: Which; those of which nothing is here are no error.

    Raises:
        BundleError: The disk refuses.
    """
    store = AvatarStore(avatars_dir()) if is_mirrored(uri) else None
    for avatar_id in avatar_ids:
        if store is not None:
            with suppress(AvatarNotFoundError):
                store.delete(avatar_id)
        drop_avatar(avatar_id)


async def drop_on_nodes(uri: str, avatar_ids: Sequence[str]) -> Dropped:
    """Have `drop_copies` run on every node of the Ray cluster, those without a process of ours too."""
    task: Any = ray.remote(num_cpus=0)(drop_copies)
    nodes = [one for one in await asyncio.to_thread(ray.nodes) if one["Alive"]]

    async def drop(node: dict[str, Any]) -> None:
        here = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        async with asyncio.timeout(NODE_S):
            await task.options(scheduling_strategy=here).remote(uri, list(avatar_ids))

    outcomes = await asyncio.gather(*map(drop, nodes), return_exceptions=True)
    names = [f"node {node['NodeManagerAddress']}" for node in nodes]
    places, left = [], []
    for name, outcome in zip(names, outcomes, strict=True):
        if outcome is None:
            places.append(name)
        elif isinstance(outcome, LiveAnchorError | RayError | TimeoutError):
            left.append(Left("copies", name, first_line(outcome, named=True)))
        else:
            raise outcome
    return Dropped(tuple(places), tuple(left))
