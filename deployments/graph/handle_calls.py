"""Calls through Ray Serve's handles: errors told as what they are, and no work left behind when the caller goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ray.exceptions import ObjectLostError, RayActorError, RayError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, RayServeException
from ray.serve.handle import DeploymentHandle

from deployments.graph.errors import (
    DeadlineExceededError,
    NotReadyError,
    ReplicaGoneError,
    StageOverloadedError,
    plain,
)
from kernels.errors import LiveAnchorError


@contextmanager
def translated(stage: str, budget_s: float | None = None, attempt: int = 1) -> Iterator[None]:
    """Turn what Ray raises for a call inside the block into this project's errors.

    Args:
        stage: Name of the deployment that is called, for errors.
        budget_s: Seconds that the call was given; None where no timeout of the block is the call's deadline.
        attempt: Which attempt this is, from 1.

    Raises:
        ReplicaGoneError: The replica died, or took away with it what the call needs.
        StageOverloadedError: Ray Serve's queue for the deployment is full.
        NotReadyError: The deployment does not run.
        DeadlineExceededError: The call took longer than `budget_s`.
        LiveAnchorError: What the call answered, out of Ray's wrappers.
    """
    try:
        yield
    except LiveAnchorError as error:
        raise plain(error) from None
    except BackPressureError as error:
        raise StageOverloadedError(stage, int(error.args[0])) from error
    except DeploymentUnavailableError as error:
        raise NotReadyError(f"{stage} does not run") from error
    except (RayError, RayServeException) as error:
        if not _is_lost(error):
            raise
        raise ReplicaGoneError(stage, attempt) from error
    except TimeoutError as error:
        if budget_s is None:
            raise
        raise DeadlineExceededError(stage, budget_s * 1000) from error


async def answer_of(stage: str, response: Any, budget_s: float | None = None, attempt: int = 1) -> Any:
    """Wait for the answer to a call, at most `budget_s` seconds; the call is cancelled where the answer is not waited for.

    Raises:
        LiveAnchorError: As `translated` says.
    """
    answered = False
    try:
        with translated(stage, budget_s, attempt):
            async with asyncio.timeout(budget_s):
                answer = await response
        answered = True
        return answer
    finally:
        if not answered:
            give_up(response)


async def answers_of_all(
    stage: str, handle: DeploymentHandle[Any], method: str, budget_s: float, *args: object
) -> list[Any]:
    """Answers of every replica that serves to a call with `args`, in at most `budget_s` seconds.

    Replicas that die meanwhile are left out.

    Raises:
        NotReadyError: The deployment does not run, or is scaled to zero.
        DeadlineExceededError: One replica does not answer in time.
    """
    with translated(stage, budget_s):
        answers = await handle.broadcast(method, *args).results_async(timeout_s=budget_s, return_exceptions=True)
    return [one for one in answers if not isinstance(one, BaseException)]


def give_up(response: Any) -> None:
    """Cancel a call. One that never reached a replica answers with its own error once more, which is not waited for."""
    with suppress(RayServeException, RayError):
        response.cancel()


def _is_lost(error: BaseException | None) -> bool:
    """Whether an error says that a replica died, or took away with it what a call needs: itself, as a cause, or wrapped by Ray."""
    while error is not None:
        if isinstance(error, RayActorError | ObjectLostError):
            return True
        wrapped = getattr(error, "cause", None)
        error = wrapped if isinstance(wrapped, BaseException) and wrapped is not error else error.__cause__
    return False
