"""Stage calls across the graph without a cluster: deadlines, the one retry, cancellation, errors as they were raised."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("ray.serve")

from ray.exceptions import ActorDiedError, ActorUnavailableError, ObjectLostError, RayTaskError
from ray.serve._private.common import DeploymentID
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, RayServeException

from deployments.graph.affinity import preference
from deployments.graph.calls import CallContext
from deployments.graph.crops_in_work import GraphCrops
from deployments.graph.errors import (
    DeadlineExceededError,
    NotReadyError,
    ReplicaGoneError,
    StageLostError,
    StageOverloadedError,
    plain,
)
from deployments.graph.handle_calls import translated
from deployments.graph.placement import NoGpuError, choose_device
from deployments.graph.stages import StageHandles, call_stage, fetch_info, fetch_rife_facts
from kernels.errors import InvalidInputError, LiveAnchorError
from pipeline.families import find_family
from pipeline.rife.access import RifeFacts, check_rate
from pipeline.stages import AudioFacts, MotionFacts


@dataclass
class Response:
    """What a handle's method returns: awaitable, cancellable; like Ray Serve's, it may raise its own error again when cancelled."""

    answer: Callable[[], Awaitable[object]]
    cancelled: bool = False
    failed: BaseException | None = None

    def __await__(self) -> Any:
        return self.answer().__await__()

    def cancel(self) -> None:
        self.cancelled = True
        if isinstance(self.failed, RayServeException):
            raise self.failed


@dataclass
class Method:
    """A handle's method that answers from a list: a value, an error to raise, or seconds to hang (a float)."""

    script: list[object]
    calls: list[tuple[object, ...]] = field(default_factory=list)
    responses: list[Response] = field(default_factory=list)

    def remote(self, *args: object) -> Response:
        self.calls.append(args)
        step = self.script.pop(0)

        async def answer() -> object:
            if isinstance(step, BaseException):
                raise step
            if isinstance(step, float):
                await asyncio.sleep(step)
            return step

        self.responses.append(Response(answer, failed=step if isinstance(step, BaseException) else None))
        return self.responses[-1]


def upstream_death() -> RayServeException:
    error = RayServeException("an upstream actor died before finishing a dependent task")
    error.__cause__ = ActorDiedError()
    return error


def call(method: Method, budget_s: float = 5.0, **options: Any) -> Any:
    return asyncio.run(call_stage("renderer", method, ("in",), session_id="s", budget_s=budget_s, **options))


def test_an_answer_comes_back_and_the_context_goes_along() -> None:
    method = Method(["out"])
    assert call(method, epoch=3, clock=lambda: 50.0) == "out"
    assert method.calls == [("in", CallContext("s", 5000.0, 3))]
    assert not method.responses[0].cancelled


@pytest.mark.parametrize("death", [ActorDiedError(), ActorUnavailableError("gone", b"x" * 16)])
def test_a_dead_replica_is_asked_once_more_with_the_time_that_is_left(death: Exception) -> None:
    now = iter([100.0, 100.0, 101.5])
    retried: list[str] = []
    method = Method([death, "out"])
    assert call(method, clock=lambda: next(now), on_retry=retried.append) == "out"
    assert [args[1].remaining_ms for args in method.calls] == [5000.0, 3500.0]  # type: ignore[attr-defined]
    assert retried == ["renderer"]


@dataclass
class Crops:
    """What launches crops: a new name every time."""

    launched: int = 0

    def __call__(self) -> str:
        self.launched += 1
        return f"crops {self.launched}"


@pytest.mark.parametrize(
    "death",
    [
        ActorDiedError(),
        RayTaskError("pictures", "...", ActorDiedError()).as_instanceof_cause(),
        ObjectLostError("0" * 56, None, ""),
        upstream_death(),
    ],
    ids=["itself", "an argument's replica", "an argument's node", "as Serve says it"],
)
def test_crops_are_drawn_again_when_a_replica_dies(death: Exception) -> None:
    launch, method = Crops(), Method([death, "out"])
    crops = GraphCrops(launch)
    answer = asyncio.run(call_stage("rife", method, ("in", crops, None), session_id="s", budget_s=5.0))
    assert answer == "out" and launch.launched == 2
    assert [args[:3] for args in method.calls] == [("in", "crops 1", None), ("in", "crops 2", None)]


def test_what_is_no_death_is_not_tried_again() -> None:
    launch, method = Crops(), Method([RayServeException("something else")])
    with pytest.raises(RayServeException, match="something else"):
        asyncio.run(call_stage("rife", method, (GraphCrops(launch),), session_id="s", budget_s=5.0))
    assert launch.launched == 1


def test_two_deaths_are_reported() -> None:
    method = Method([ActorDiedError(), ActorDiedError(), "never"])
    with pytest.raises(StageLostError, match="2 attempts") as lost:
        call(method)
    assert lost.value.retryable and len(method.calls) == 2


def test_silence_ends_at_the_deadline_and_the_call_is_cancelled() -> None:
    method = Method([30.0])
    with pytest.raises(DeadlineExceededError, match="50 ms"):
        call(method, budget_s=0.05)
    assert method.responses[0].cancelled


def test_no_call_is_made_without_time() -> None:
    method = Method(["out"])
    with pytest.raises(DeadlineExceededError):
        call(method, budget_s=0.0)
    assert not method.calls


def test_a_caller_that_goes_away_cancels_its_call() -> None:
    async def go() -> Method:
        method = Method([30.0])
        task = asyncio.create_task(call_stage("renderer", method, (), session_id="s", budget_s=60))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return method

    assert asyncio.run(go()).responses[0].cancelled


def test_errors_arrive_as_they_were_raised() -> None:
    """Ray wraps what another process raised; the wrapper's text is that process's traceback."""
    raised = InvalidInputError("motion", "(3, 2)", "(n, 265)")
    wrapped = RayTaskError("render", "Traceback (most recent call last): ...", raised).as_instanceof_cause()
    assert isinstance(wrapped, LiveAnchorError) and str(wrapped) != str(raised)
    with pytest.raises(InvalidInputError) as got:
        call(Method([wrapped]))
    assert got.value is raised and plain(raised) is raised
    outer = InvalidInputError("a", "b", "c")
    outer.cause = wrapped  # type: ignore[attr-defined]  # twice wrapped: an argument was another call's answer
    assert plain(outer) is raised
    with pytest.raises(StageOverloadedError, match="7 calls"):
        call(Method([BackPressureError(7, 5)]))


def test_facts_of_the_stages_become_the_sessions_info() -> None:
    info = find_family("mini").info(AudioFacts(640, 1920), MotionFacts(8, 25))
    assert (info.hop_frames, info.context_samples, info.history_frames) == (8, 640, 25)
    assert info.doubles_in_motion_space


def test_an_interpolator_that_does_not_come_up_is_a_typed_error() -> None:
    rife = SimpleNamespace(facts=Method([60.0]))
    with pytest.raises(DeadlineExceededError, match="rife"):
        asyncio.run(fetch_rife_facts(StageHandles(None, None, None, rife), 0.01))  # type: ignore[arg-type]


def test_a_stage_that_dies_while_it_is_asked_is_asked_again() -> None:
    audio, motion = AudioFacts(640, 1920), MotionFacts(8, 25)
    died = ActorDiedError()
    once = StageHandles(
        SimpleNamespace(facts=Method([died, audio])), SimpleNamespace(facts=Method([motion])), None, None
    )  # type: ignore[arg-type]
    assert asyncio.run(fetch_info(once, "mini", 5.0)).hop_frames == 8
    dead = StageHandles(
        SimpleNamespace(facts=Method([died, died])), SimpleNamespace(facts=Method([motion])), None, None
    )  # type: ignore[arg-type]
    with pytest.raises(StageLostError, match="audio_features"):
        asyncio.run(fetch_info(dead, "mini", 5.0))


def test_fifty_frames_are_refused_where_nothing_makes_them() -> None:
    check_rate(50, RifeFacts(True, ""))
    with pytest.raises(InvalidInputError, match="the weights are not here") as refused:
        check_rate(50, RifeFacts(False, "the weights are not here"))
    assert refused.value.field == "fps" and refused.value.allowed == "25"


def test_device_follows_the_share() -> None:
    assert choose_device("auto", 0.3, True) == "cuda"
    assert choose_device("auto", 0.3, False) == "cpu"  # a claimed GPU
    assert choose_device("auto", 0.0, True) == "cpu"
    assert choose_device("cpu", 1.0, True) == "cpu"
    for share, available, reason in [(0.0, True, "no GPU share"), (1.0, False, "finds no GPU")]:
        with pytest.raises(NoGpuError, match=reason):
            choose_device("cuda", share, available)


def test_everyone_prefers_the_same_home_and_a_new_replica_moves_few() -> None:
    replicas = [f"r{i}" for i in range(4)]
    avatars = [f"avatar-{i}" for i in range(400)]
    homes = {one: replicas[preference(one, replicas, [0] * 4)[0]] for one in avatars}
    assert homes == {one: replicas[preference(one, replicas, [0] * 4)[0]] for one in avatars}
    counts = [list(homes.values()).count(one) for one in replicas]
    assert min(counts) > 60, counts
    larger = [*replicas, "r4"]
    moved = [one for one in avatars if larger[preference(one, larger, [0] * 5)[0]] != homes[one]]
    assert 40 < len(moved) < 130
    assert all(larger[preference(one, larger, [0] * 5)[0]] == "r4" for one in moved), "only the new one wins any"


def test_a_popular_avatar_spreads_as_its_home_fills() -> None:
    replicas = [f"r{i}" for i in range(3)]
    loads = [0, 0, 0]
    for _ in range(30):
        order = preference("popular", replicas, loads)
        assert sorted(order) == [0, 1, 2]
        loads[order[0]] += 1
    assert max(loads) <= 13 and min(loads) > 0, loads  # 1.25 times the mean of 31 calls over 3
    assert preference("anyone", [], []) == []


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (BackPressureError(7, 5), StageOverloadedError),
        (DeploymentUnavailableError(DeploymentID("Renderer", "liveanchor")), NotReadyError),
        (ActorDiedError(), ReplicaGoneError),
        (RayTaskError("render", "...", InvalidInputError("a", "b", "c")).as_instanceof_cause(), InvalidInputError),
        (TimeoutError(), DeadlineExceededError),
    ],
)
def test_every_call_through_a_handle_tells_errors_in_one_way(raised: Exception, told: type[LiveAnchorError]) -> None:
    with pytest.raises(told) as caught, translated("renderer", budget_s=2.0, attempt=3):
        raise raised
    assert type(caught.value) is told
    if isinstance(caught.value, ReplicaGoneError):
        assert (caught.value.stage, caught.value.attempts) == ("renderer", 3)


@pytest.mark.parametrize("raised", [TimeoutError("of another"), ZeroDivisionError(), RayServeException("unknown")])
def test_what_is_not_the_calls_own_failure_stays_what_it_is(raised: Exception) -> None:
    with pytest.raises(type(raised)) as caught, translated("renderer"):
        raise raised
    assert caught.value is raised


def test_a_replica_that_is_gone_is_a_lost_stage_for_other_processes() -> None:
    """A host whose renderer is gone is not gone itself, so nobody may ask another host for that reason."""
    arrived = pickle.loads(pickle.dumps(ReplicaGoneError("renderer", 2)))  # noqa: S301  # our own bytes
    assert type(arrived) is StageLostError and str(arrived) == str(ReplicaGoneError("renderer", 2))
