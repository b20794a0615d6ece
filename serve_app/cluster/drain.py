"""The end of a service on a cluster of its own: what runs there finishes, as far as the time allows; the rest is given back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final

import structlog

from kernels.errors import first_line
from serve_app.config.declare import APP_NAME

ASK_S: Final = 5.0
"""Seconds that all replicas of a deployment may take to answer."""
END_S: Final = 20.0
"""Seconds that sessions and videos may take to end once they have to."""
LOOK_S: Final = 0.5
_log = structlog.get_logger(__name__)


class Work:
    """What runs in the application, through Ray Serve's handles. A cluster that does not answer has nothing to wait for."""

    def __init__(self) -> None:
        from ray import serve

        self._ingress: Any = serve.get_app_handle(APP_NAME)
        self._hosts: Any = serve.get_deployment_handle("SessionHost", APP_NAME)

    def refuse_new(self, seconds: float) -> None:
        """Take nothing new; tell live sessions how many seconds are left."""
        self._all(self._ingress, "begin_drain", ASK_S)
        self._all(self._hosts, "begin_drain", ASK_S, seconds)

    def count(self) -> int:
        """Files, videos and live sessions in work, and answers that are not sent yet."""
        return sum(int(one) for handle in (self._hosts, self._ingress) for one in self._all(handle, "in_work", ASK_S))

    def end(self) -> None:
        """End live sessions, and give the videos in work back to the queue."""
        self._all(self._hosts, "end_work", END_S)

    @staticmethod
    def _all(handle: Any, method: str, seconds: float, *args: object) -> list[Any]:
        from ray.exceptions import RayError
        from ray.serve.exceptions import RayServeException

        try:
            answers = handle.broadcast(method, *args).results(timeout_s=seconds, return_exceptions=True)
        except (RayError, RayServeException, TimeoutError) as error:
            _log.warning("not_drained", asked=method, reason=first_line(error, named=True))
            return []
        return [one for one in answers if not isinstance(one, BaseException)]


def drain(work: Work, seconds: float, say: Callable[[int], None], clock: Callable[[], float] = time.monotonic) -> int:
    """Let what runs finish, for at most so many seconds; then end live sessions and give videos back to the queue.

    Args:
        work: What runs.
        seconds: How long to wait; 0: not at all.
        say: Told how much is in work, whenever that changes.
        clock: Gives monotonic seconds.

    Returns:
        Number of works that were cut or given back.
    """
    deadline, pause, said = clock() + seconds, threading.Event(), -1
    work.refuse_new(seconds)
    while (left := work.count()) and clock() < deadline:
        if left != said:
            say(left)
        said = left
        pause.wait(LOOK_S)
    work.end()
    return left
