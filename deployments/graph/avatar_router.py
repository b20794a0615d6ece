"""Ray Serve's request router for `Renderer`: prefers the replica that has the avatar warm. A hint, never a pin."""

from __future__ import annotations

from ray.serve._private.common import RequestMetadata
from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica

from deployments.graph.affinity import preference


class AvatarRouter(RequestRouter):
    """Adds to Ray Serve: the order of candidates follows the avatar id of the call (see `deployments.graph.affinity`).

    Unlike a multiplexed model id it neither splits batches nor waits for a warm replica, and a lost replica costs its avatars one
    preparation elsewhere.
    """

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Give each replica a rank, the preferred one first; calls without an avatar go to the least loaded."""
        if pending_request is not None:
            pending_request.routing_context.should_backoff = True
        avatar_id = _avatar_id(pending_request)
        if avatar_id is None:
            return [list(candidate_replicas)]
        cache = self.replica_queue_len_cache
        ids = [replica.replica_id.unique_id for replica in candidate_replicas]
        loads = [cache.get(replica.replica_id) or 0 for replica in candidate_replicas]
        return [[candidate_replicas[index]] for index in preference(avatar_id, ids, loads)]

    def _fulfill_next_pending_request(
        self, replica: RunningReplica, request_metadata: RequestMetadata | None = None
    ) -> None:
        """Give a replica to the call that it was chosen for.

        Ray Serve's FIFO order gives it to the oldest call, whose avatar may be another one. Its other way finds a call by the id of
        the request that it serves, which all stage calls of one session share: of two that wait, the second would wait for ever.
        """
        for pending in self._pending_requests_to_fulfill:
            if pending.metadata is request_metadata and not pending.future.done():
                self._record_queue_wait_time(pending)
                pending.future.set_result(replica)
                self._remove_pending_request_from_indices(pending)
                return


def _avatar_id(pending_request: PendingRequest | None) -> str | None:
    """The avatar of a `Renderer.render` call; None for any other call."""
    if pending_request is None or not pending_request.args:
        return None
    found = getattr(pending_request.args[0], "avatar_id", None)
    return found if isinstance(found, str) else None
