"""The leases of one host's sessions, and the stages that follow them from set to set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from deployments.host.live_calls import LiveOffer
from deployments.host.token_pool import Lease


class Placed(Protocol):
    """Stage calls that prefer one set, as `deployments.graph.stages.GraphStages` do."""

    set_id: str


PlacedStages = TypeVar("PlacedStages", bound=Placed)


class SessionLeases:
    """Keeps each session's lease from the offer to the session's end. It belongs to one event loop."""

    def __init__(self) -> None:
        self._leases: dict[str, Lease] = {}
        self._stages: dict[str, Placed] = {}

    @contextmanager
    def kept(self, offer: LiveOffer) -> Iterator[None]:
        """Keep the lease that came with an offer, at most for as long as this is open; any set serves sessions without one.

        However the block ends, nothing of the session is left: a lease that is renewed without one would never end.
        """
        if offer.lease is not None:
            self._leases[offer.session_id] = offer.lease
        try:
            yield
        finally:
            self.end(offer.session_id)

    def serve(self, session_id: str, stages: PlacedStages) -> PlacedStages:
        """Let stage calls follow a session's lease from now on; returns them."""
        lease = self._leases.get(session_id)
        stages.set_id = lease.set_id if lease else ""
        self._stages[session_id] = stages
        return stages

    def crowded(self, session_id: str) -> bool:
        """Whether most of the tokens of a session's set are taken, as the pool last said."""
        lease = self._leases.get(session_id)
        return lease is not None and lease.crowded

    def all(self) -> list[Lease]:
        """Leases to renew."""
        return list(self._leases.values())

    def renewed(self, leases: Iterable[Lease]) -> None:
        """Take over what the pool says; a session that it moved makes its next call elsewhere."""
        for lease in leases:
            if lease.session_id not in self._leases:
                continue  # it ended while the pool was asked
            self._leases[lease.session_id] = lease
            if lease.session_id in self._stages:
                self._stages[lease.session_id].set_id = lease.set_id

    def end(self, session_id: str) -> None:
        """Forget a session; a second time does nothing."""
        self._leases.pop(session_id, None)
        self._stages.pop(session_id, None)
