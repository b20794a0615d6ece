"""The stages of a session across the cluster: `pipeline.stages.Stages` over deployment handles."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ray.serve.handle import DeploymentHandle

from deployments.graph.calls import CallContext
from deployments.graph.crops_in_work import GraphCrops
from deployments.graph.errors import DeadlineExceededError, ReplicaGoneError, StageLostError
from deployments.graph.handle_calls import answer_of, translated
from kernels.arrays import F32
from pipeline.families import find_family
from pipeline.rife.access import RifeFacts
from pipeline.session.overlaid import OwnPictures, PaintedParts
from pipeline.stages import Carry, CropsInWork, RenderRequest, RifeRequest, StageInfo
from pipeline.types import FeatureRows, MotionChunk, Nv12RectBatch

ATTEMPTS = 2
"""A stage call is made once more when its replica dies."""


@dataclass(frozen=True)
class StageHandles:
    """Handles of the stage deployments; `motion_diffusion` is None where the family has no such stage."""

    audio_features: DeploymentHandle[Any]
    motion_diffusion: DeploymentHandle[Any] | None
    renderer: DeploymentHandle[Any]
    rife: DeploymentHandle[Any]


async def call_stage(
    stage: str,
    method: Any,
    args: tuple[object, ...],
    *,
    session_id: str,
    budget_s: float,
    epoch: int = 0,
    set_id: str = "",
    clock: Callable[[], float] = time.monotonic,
    on_retry: Callable[[str], None] = lambda stage: None,
) -> Any:
    """Make a stage call with a deadline, one retry when its replica dies, and no work left behind when the caller goes away.

    Args:
        stage: Name for errors.
        method: A handle's method; called with `args` and a `CallContext`.
        args: The call's own arguments; crops in work are handed on as their response.
        session_id: Session that the call belongs to.
        budget_s: Time for everything, the retry included.
        epoch: Session epoch.
        set_id: Ray node whose stages are preferred; empty for any.
        clock: Monotonic seconds.
        on_retry: Told the stage's name when the call is made again.

    Raises:
        DeadlineExceededError: No answer in time.
        StageLostError: The replica died, twice.
        StageOverloadedError: Ray Serve's queue for the stage is full.
        LiveAnchorError: What the stage answered.
    """
    deadline = clock() + budget_s
    for attempt in range(1, ATTEMPTS + 1):
        remaining_s = deadline - clock()
        if remaining_s <= 0:
            raise DeadlineExceededError(stage, budget_s * 1000)
        handed = [arg.response if isinstance(arg, GraphCrops) else arg for arg in args]
        response = method.remote(*handed, CallContext(session_id, remaining_s * 1000, epoch, set_id))
        try:
            return await answer_of(stage, response, remaining_s, attempt)
        except ReplicaGoneError:
            if attempt == ATTEMPTS:
                raise
            on_retry(stage)
            for arg in args:  # whose replica died is not known: it may have been the one that these come from
                if isinstance(arg, GraphCrops):
                    arg.renew()
    raise StageLostError(stage, ATTEMPTS)


async def fetch_info(handles: StageHandles, family: str, budget_s: float) -> StageInfo:
    """Ask the stages what a session must know; any stage may be starting meanwhile.

    Raises:
        DeadlineExceededError: A stage did not come up in time.
        StageLostError: A stage died while it was asked, more than once.
    """
    asked = [_facts("audio_features", handles.audio_features, budget_s)]
    if handles.motion_diffusion is not None:
        asked.append(_facts("motion_diffusion", handles.motion_diffusion, budget_s))
    audio, *motion = await asyncio.gather(*asked)
    return find_family(family).info(audio, motion[0] if motion else None)


async def _facts(stage: str, handle: DeploymentHandle[Any], budget_s: float) -> Any:
    """A stage's facts, asked again when its replica dies."""
    with translated(stage, budget_s, ATTEMPTS):
        async with asyncio.timeout(budget_s):
            for _ in range(ATTEMPTS - 1):
                with suppress(ReplicaGoneError):
                    return await answer_of(stage, handle.facts.remote())
            return await answer_of(stage, handle.facts.remote(), attempt=ATTEMPTS)


async def fetch_rife_facts(handles: StageHandles, budget_s: float) -> RifeFacts:
    """What the interpolator can do; wakes it when it was scaled to zero.

    Raises:
        DeadlineExceededError: It did not come up in time.
        StageLostError: It died while it was asked, more than once.
    """
    facts: RifeFacts = await _facts("rife", handles.rife, budget_s)
    return facts


class GraphStages:
    """Implements `Stages` for one session over the graph: small results by value, pictures by reference, a deadline on every call.

    Args:
        handles: The stage deployments.
        info: From `fetch_info`.
        session_id: Session that the calls belong to.
        budget_s: Time that each call gets.
        deadline: Point of `clock` after which no call is made or waited for.
        epoch: Session epoch; motion and render calls of a newer one raise it, so that the stages drop what is older.
        clock: Monotonic seconds.
        own_pictures: Avatar id and colour standard -> the avatar's own pictures, for a family whose renderer answers with what is
            painted over them; called in a thread.

    Attributes:
        set_id: Ray node whose stages are preferred from the next call on; empty for any.
        retries: Calls made again because a replica died, per stage.
    """

    def __init__(
        self,
        handles: StageHandles,
        info: StageInfo,
        session_id: str,
        budget_s: float,
        deadline: float = math.inf,
        epoch: int = 0,
        clock: Callable[[], float] = time.monotonic,
        own_pictures: Callable[[str, str], OwnPictures] | None = None,
    ) -> None:
        self._own_pictures = own_pictures
        self._deadline = deadline
        self._rows = handles.audio_features.options(method_name="rows", _by_reference=False)
        self._motion = handles.motion_diffusion and handles.motion_diffusion.options(
            method_name="motion", _by_reference=False
        )
        self._render = handles.renderer.options(method_name="render")
        self._crops = handles.renderer.options(method_name="crops")
        self._rife = handles.rife.options(method_name="pictures")
        self._info = info
        self._session_id = session_id
        self._budget_s = budget_s
        self._epoch = epoch
        self._clock = clock
        self.set_id = ""
        self.retries: Counter[str] = Counter()

    @property
    def info(self) -> StageInfo:
        """Facts about the family."""
        return self._info

    async def audio_features(self, window: F32, first_row: int) -> FeatureRows:
        """Implement `Stages`."""
        rows: FeatureRows = await self._call("audio_features", self._rows, window, first_row)
        return rows

    async def motion_diffusion(self, rows: FeatureRows, carry: Carry) -> tuple[MotionChunk, Carry]:
        """Implement `Stages`."""
        self._epoch = max(self._epoch, carry.epoch)
        if self._motion is None:
            return find_family(self._info.family).pass_on(rows, carry)
        answer: tuple[MotionChunk, Carry] = await self._call("motion_diffusion", self._motion, rows, carry)
        return answer

    async def renderer(self, request: RenderRequest) -> Nv12RectBatch:
        """Implement `Stages`."""
        self._epoch = max(self._epoch, request.epoch)
        answer: Nv12RectBatch | PaintedParts = await self._call("renderer", self._render, request)
        if isinstance(answer, PaintedParts):
            return await asyncio.to_thread(self._laid_over, answer, request)
        return answer

    def _laid_over(self, parts: PaintedParts, request: RenderRequest) -> Nv12RectBatch:
        if self._own_pictures is None:
            raise LookupError(
                f"the family {self._info.family} paints over own pictures, which these stages were not given"
            )
        return parts.over(self._own_pictures(request.avatar_id, request.colour))

    def crops(self, request: RenderRequest) -> GraphCrops:
        """Implement `Stages`; the response stays un-awaited."""
        self._epoch = max(self._epoch, request.epoch)
        return GraphCrops(lambda: self._crops.remote(request, self._context("renderer")))

    async def rife(self, request: RifeRequest, crops: CropsInWork, before: CropsInWork | None) -> Nv12RectBatch:
        """Implement `Stages`. When a replica dies, the crops are drawn again too."""
        batch: Nv12RectBatch = await self._call("rife", self._rife, request, crops, before)
        return batch

    def _context(self, stage: str) -> CallContext:
        budget_s = min(self._budget_s, self._deadline - self._clock())
        if budget_s <= 0:
            raise DeadlineExceededError(stage, self._budget_s * 1000)
        return CallContext(self._session_id, budget_s * 1000, self._epoch, self.set_id)

    async def _call(self, stage: str, method: Any, *args: object) -> Any:
        return await call_stage(
            stage,
            method,
            args,
            session_id=self._session_id,
            budget_s=min(self._budget_s, self._deadline - self._clock()),
            epoch=self._epoch,
            set_id=self.set_id,
            clock=self._clock,
            on_retry=self._count_retry,
        )

    def _count_retry(self, stage: str) -> None:
        self.retries[stage] += 1
