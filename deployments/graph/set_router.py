"""The stages' request router for Ray Serve: a session's calls go to its set, files go where their avatar is warm. Hints only."""

from __future__ import annotations

from typing import Any

from ray.serve._private.common import RequestMetadata
from ray.serve.request_router import PendingRequest, RequestRouter, RunningReplica

from deployments.graph.affinity import preference
from deployments.graph.calls import CallContext


class SetRouter(RequestRouter):
    """Adds to Ray Serve: the replica on the Ray node that the call's session was placed on comes first.

    Where it is full, dead or not there, any other replica serves: stages keep nothing of a session. Calls without a set (files)
    follow the avatar id of the call (`deployments.graph.affinity`), which neither splits batches nor waits for a warm replica; a
    lost replica costs its avatars one preparation elsewhere.
    """

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Ranks of replicas, the preferred ones first; calls without a set and an avatar go to the least loaded."""
        if pending_request is not None:
            pending_request.routing_context.should_backoff = True
        set_id = _set_id(pending_request)
        home = [one for one in candidate_replicas if one.node_id == set_id] if set_id else []
        others = [one for one in candidate_replicas if one.node_id != set_id] if home else list(candidate_replicas)
        return ([home] if home else []) + _by_avatar(others, _avatar_id(pending_request), self.replica_queue_len_cache)

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


def _by_avatar(replicas: list[RunningReplica], avatar_id: str | None, queues: Any) -> list[list[RunningReplica]]:
    """Rank every replica, the one where the avatar is warm first; all share a rank where the call has no avatar."""
    if not replicas:
        return []
    if avatar_id is None:
        return [replicas]
    ids = [replica.replica_id.unique_id for replica in replicas]
    loads = [queues.get(replica.replica_id) or 0 for replica in replicas]
    return [[replicas[index]] for index in preference(avatar_id, ids, loads)]


def _set_id(pending_request: PendingRequest | None) -> str:
    """The set that a call's session was placed on; empty for calls without one."""
    args = pending_request.args if pending_request is not None else []
    return next((one.set_id for one in args if isinstance(one, CallContext)), "")


def _avatar_id(pending_request: PendingRequest | None) -> str | None:
    """The avatar of a `Renderer.render` call; None for any other call."""
    if pending_request is None or not pending_request.args:
        return None
    found = getattr(pending_request.args[0], "avatar_id", None)
    return found if isinstance(found, str) else None
