"""Which replica should get a call so that it finds its avatar warm: rendezvous hashing with bounded loads. No Ray."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

SLACK = 1.25
"""A replica counts as busy when it has more than this times the mean load."""


def _weight(key: str, replica: str) -> bytes:
    return hashlib.blake2b(f"{key}|{replica}".encode(), digest_size=8).digest()


def preference(key: str, replicas: Sequence[str], loads: Sequence[int]) -> list[int]:
    """Replicas in the order in which they should be tried.

    Every caller computes the same order of homes for a key (highest random weight); adding a replica moves only the keys that it
    now wins. Homes that are busy compared with the mean go behind the others, so one popular avatar spreads over as many
    replicas as its load needs, and always over the same ones first.

    Args:
        key: E.g. an avatar id.
        replicas: Ids, the same spelling for all callers.
        loads: Calls in each, as far as known.

    Returns:
        Indices into `replicas`, every one exactly once.
    """
    homes = sorted(range(len(replicas)), key=lambda index: _weight(key, replicas[index]), reverse=True)
    if not homes:
        return []
    bound = math.ceil(SLACK * (sum(loads) + 1) / len(replicas))
    free = [index for index in homes if loads[index] < bound]
    busy = sorted((index for index in homes if loads[index] >= bound), key=lambda index: loads[index])
    return free + busy
