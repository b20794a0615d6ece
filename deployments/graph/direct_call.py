"""Calls to one certain replica, one that drains too: Ray Serve's handles choose the replica themselves and skip those.

Uses names that Ray Serve keeps to itself; `tests/ray/test_live.py` fails when a release moves them.
"""

from __future__ import annotations

import pickle
from collections.abc import AsyncGenerator
from typing import Any

import ray
from ray import serve
from ray.serve._private.common import RequestMetadata
from ray.serve._private.constants import SERVE_NAMESPACE
from ray.serve._private.utils import generate_request_id
from ray.serve.context import _serve_request_context

from deployments.graph.errors import ReplicaGoneError
from deployments.graph.handle_calls import translated


def own_full_name() -> str:
    """The name under which `DirectCall` finds the replica that this code runs in."""
    return str(serve.get_replica_context().replica_id.to_full_id_str())


class DirectCall:
    """Calls the methods of one replica, past Ray Serve's router.

    Args:
        replica: Its full name, from `own_full_name`.
        app: Name of the application.
    """

    def __init__(self, replica: str, app: str) -> None:
        self._replica = replica
        self._app = app

    async def unary(self, method: str, *args: object) -> Any:
        """Call a method that answers once.

        Raises:
            ReplicaGoneError: The replica is not there, or died meanwhile.
            LiveAnchorError: What it answered.
        """
        reference = self._actor().handle_request.remote(self._metadata(method, streaming=False), *args)
        answered = False
        try:
            with translated(self._replica):
                answer = await reference
            answered = True
            return answer
        finally:
            if not answered:
                ray.cancel(reference)

    async def stream(self, method: str, *args: object) -> AsyncGenerator[Any, None]:
        """Call a method that answers piece by piece; leaving early cancels it.

        Raises:
            ReplicaGoneError: The replica is not there, or died meanwhile.
            LiveAnchorError: What it answered.
        """
        remote = self._actor().handle_request_streaming.options(num_returns="streaming")
        references = remote.remote(self._metadata(method, streaming=True), *args)
        try:
            with translated(self._replica):
                async for reference in references:
                    yield await reference
        finally:
            ray.cancel(references)

    def _actor(self) -> Any:
        try:
            return ray.get_actor(self._replica, namespace=SERVE_NAMESPACE)
        except ValueError as error:  # Ray's way of saying that no actor has this name
            raise ReplicaGoneError(self._replica, 1) from error

    def _metadata(self, method: str, streaming: bool) -> bytes:
        return pickle.dumps(
            RequestMetadata(
                request_id=_request_id(),
                internal_request_id=generate_request_id(),
                call_method=method,
                app_name=self._app,
                is_streaming=streaming,
            )
        )


def _request_id() -> str:
    """The id of the request that is being served, which Ray Serve's own handles hand on, too; a new one where there is none."""
    context = _serve_request_context.get()
    return (context.request_id if context is not None else "") or generate_request_id()
