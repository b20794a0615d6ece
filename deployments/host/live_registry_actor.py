"""The registry of live sessions as an actor of the cluster.

It is a named actor of its own and not one of Ray Serve's `deployment_actors`: those exist once per version of a deployment, so that
after a change of the configuration the new hosts would not know where the sessions of the old ones are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import ray

from deployments.host.live_registry import SessionRegistry

NAMESPACE: Final = "liveanchor"
FORGOTTEN_S: Final = 300.0
"""An actor that no host has called for so long ends; hosts call it every `BEAT_S`."""
_LOOK_S: Final = 30.0


class _Forgettable(SessionRegistry):
    """Ends its own process when the application is gone: nobody else would."""

    def __init__(self) -> None:
        super().__init__()
        self._called_at = time.monotonic()
        self._over = threading.Event()
        self._self = ray.get_runtime_context().current_actor
        threading.Thread(target=self._watch, name="forgotten", daemon=True).start()

    def beat(self, replica: str, sessions: Sequence[str]) -> None:
        self._called_at = time.monotonic()
        super().beat(replica, sessions)

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_S):
            if time.monotonic() - self._called_at > FORGOTTEN_S:
                ray.kill(self._self)
                return


def registry_of(app: str) -> Any:
    """The application's registry, made by whoever asks first."""
    actor: Any = ray.remote(_Forgettable)
    return actor.options(
        name=f"live-registry-{app}",
        namespace=NAMESPACE,
        get_if_exists=True,
        lifetime="detached",
        max_restarts=-1,
        num_cpus=0,
    ).remote()
