"""Which way of running a network is used: what the settings say, or the fastest that verifies on this device.

* `eager` is the reference and always works.
* A named other way must verify, or the stage does not start.
* `auto` on a GPU makes every way, drops the ones that cannot be made or whose numbers are off, times the rest here and now on every
  input, and takes the fastest that nowhere loses to `compiled` (`fastest`); eager is among them. Where that was found out before
  (`engines.runtimes.verdicts`), the winner alone is made and checked. On the CPU `auto` is eager: nothing else exists there.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import structlog
import torch
from torch import Tensor

from engines.runtimes.kinds import RUNTIMES, RuntimeKind
from engines.runtimes.protocol import Runtime
from engines.runtimes.verdicts import Verdict, Verdicts, part_of
from kernels.errors import InvalidInputError, LiveAnchorError, first_line

Inputs = tuple[Tensor, ...]
Make = Callable[[], Runtime]
Way = TypeVar("Way")
"""What runs a network."""
Measure = Callable[[Runtime, Inputs], float]
"""Milliseconds of one call."""

MOST_LOST: Final = 1.05
"""How much slower than `compiled` the way that `auto` takes may be, on any input."""
_TIMED_CALLS: Final = 7
_TIMED_MS: Final = 500.0
_log = structlog.get_logger(__name__)


class RuntimeRefusedError(LiveAnchorError):
    """The way of running that the settings name cannot be used here; the text says why."""

    code = "runtime_refused"


@dataclass(frozen=True)
class Trial:
    """What became of one way.

    Attributes:
        name: E.g. `compiled`.
        runtime: None where it could not be made or was dropped.
        error: Largest relative error over the inputs, against eager; NaN where it was not compared.
        ms: Time of a call on every input; empty where it was not timed.
        reason: Why it was dropped; empty where it was not.
    """

    name: str
    runtime: Runtime | None
    error: float = math.nan
    ms: tuple[float, ...] = ()
    reason: str = ""

    def said(self) -> str:
        """In a few words, for the log."""
        return self.reason or f"{said_ms(self.ms)}, relative error {self.error:.1e}"


def choose_runtime(
    wanted: RuntimeKind,
    eager: Make,
    others: Mapping[str, Make],
    inputs: Sequence[Inputs],
    *,
    stage: str,
    device: torch.device | str,
    max_error: float,
    measure: Measure | None = None,
    verdicts: Callable[[], Verdicts] | None = None,
) -> Runtime:
    """Make the runtime of a stage.

    Args:
        wanted: The settings' word.
        eager: Makes the reference.
        others: Way -> makes it. What one raises as `LiveAnchorError`, `ImportError` or `RuntimeError` drops it under `auto`.
        inputs: What ways are compared and timed on, e.g. the smallest and the largest batch.
        stage: For log and errors.
        device: Where the stage runs.
        max_error: Largest relative error (norm of the difference over the norm) against eager that may serve.
        measure: Times a runtime; None: the median of up to seven calls, to the end of the device's work.
        verdicts: Makes what remembers the winner under `auto`; None finds it out at every start.

    Returns:
        The runtime, ready.

    Raises:
        InvalidInputError: No such word.
        RuntimeRefusedError: The named way does not exist for this stage or device, cannot be made, or its numbers are off.
    """
    if wanted not in RUNTIMES:
        raise InvalidInputError("runtime", str(wanted)[:40], ", ".join(RUNTIMES))
    on_cpu = torch.device(device).type == "cpu"
    if wanted == "eager" or (wanted == "auto" and (on_cpu or not others)):
        why = "named" if wanted == "eager" else "runs on the CPU" if on_cpu else "has no other way"
        _log.info("runtime chosen", stage=stage, runtime="eager", why=why)
        return eager()
    if wanted != "auto":
        return _named(wanted, eager, others, inputs, stage, on_cpu, max_error)
    memory = verdicts() if verdicts is not None else None
    if memory is not None:
        known = remembered_way(
            memory, {**others, "eager": eager}, lambda way: part_of(way.run(*inputs[0])), stage, max_error
        )
        if known is not None:
            return known
    reference = eager()
    inputs, want = _reference_answers(reference, inputs)
    trials = [_timed(Trial("eager", reference, error=0.0), inputs, measure)]
    for name, make in others.items():
        trials.append(_timed(_tried(name, make, inputs, want, max_error), inputs, measure))
    usable = {trial.name: trial for trial in trials if trial.runtime is not None}
    best = usable[fastest({name: trial.ms for name, trial in usable.items()})]
    found = {trial.name: trial.said() for trial in trials}
    _log.info("runtime chosen", stage=stage, runtime=best.name, why="the fastest that verifies here", **found)
    assert best.runtime is not None  # noqa: S101 - filtered above
    if memory is not None:
        memory.keep(Verdict(best.name, part_of(want[0])))
    return best.runtime


def fastest(times: Mapping[str, Sequence[float]]) -> str:
    """The way whose times multiply to least, among the ways that lose at most `MOST_LOST` to `compiled` on every input.

    Args:
        times: Way -> milliseconds per input; at least one way, all with the same number of inputs.
    """
    bar = times.get("compiled")
    kept = [
        name
        for name, own in times.items()
        if bar is None or all(mine <= MOST_LOST * other for mine, other in zip(own, bar, strict=True))
    ]
    return min(kept, key=lambda name: math.prod(times[name]))


def said_ms(times: Sequence[float]) -> str:
    """Times for the log."""
    return f"{' and '.join(f'{ms:.3f}' for ms in times)} ms"


def relative_error(got: Tensor, want: Tensor) -> float:
    """Norm of the difference over the norm, infinity for NaN and for another shape."""
    if got.shape != want.shape:
        return math.inf
    error = float((got.double() - want.double()).norm() / want.double().norm().clamp_min(1e-12))
    return error if math.isfinite(error) else math.inf


def call_ms(runtime: Runtime, inputs: Inputs) -> float:
    """Median time of a call, to the end of the device's work."""

    def call() -> None:
        runtime.run(*inputs)
        _wait(runtime.device)

    _wait(runtime.device)
    return median_ms(call)


def median_ms(call: Callable[[], object], calls: int = _TIMED_CALLS) -> float:
    """Median milliseconds of `calls` calls; of fewer where they take long."""
    times: list[float] = []
    while len(times) < calls and sum(times) < _TIMED_MS:
        began = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - began))
    return statistics.median(times)


def remembered_way(
    memory: Verdicts,
    ways: Mapping[str, Callable[[], Way]],
    answer: Callable[[Way], Tensor],
    stage: str,
    max_error: float,
) -> Way | None:
    """The way that won before, once it has given the reference's answer again; None where it does not.

    Args:
        memory: What won.
        ways: Name -> makes the way.
        answer: The part of a way's answer that a verdict holds (`engines.runtimes.verdicts.part_of`).
        stage: Name of the stage, for the log.
        max_error: Largest relative error.
    """
    verdict = memory.find()
    make = None if verdict is None else ways.get(verdict.runtime)
    if verdict is None or make is None:
        return None
    try:
        way = make()
        error = relative_error(answer(way), verdict.answer)
    except (LiveAnchorError, ImportError, RuntimeError) as fault:
        why = first_line(fault, named=True)
    else:
        if error <= max_error:
            _log.info("runtime chosen", stage=stage, runtime=verdict.runtime, why="won before", relative_error=error)
            return way
        why = f"relative error {error:.1e}, allowed {max_error:.0e}"
    _log.warning("verdict does not hold", stage=stage, runtime=verdict.runtime, reason=why)
    memory.forget()
    return None


def _named(
    wanted: str,
    eager: Make,
    others: Mapping[str, Make],
    inputs: Sequence[Inputs],
    stage: str,
    on_cpu: bool,
    max_error: float,
) -> Runtime:
    if on_cpu:
        raise RuntimeRefusedError(f"{stage}: runtime {wanted} needs a GPU; use auto or eager")
    if wanted not in others:
        raise RuntimeRefusedError(f"{stage} has no runtime {wanted}; it has eager, {', '.join(others)}")
    inputs, want = _reference_answers(eager(), inputs)
    trial = _tried(wanted, others[wanted], inputs, want, max_error)
    if trial.runtime is None:
        raise RuntimeRefusedError(f"{stage}: runtime {wanted} cannot be used here: {trial.reason}")
    _log.info("runtime chosen", stage=stage, runtime=wanted, why="named", relative_error=trial.error)
    return trial.runtime


def _reference_answers(reference: Runtime, inputs: Sequence[Inputs]) -> tuple[Sequence[Inputs], list[Tensor]]:
    """Eager's answers, and the inputs that it has the memory for: it needs more of it than what will run."""
    want: list[Tensor] = []
    for given in inputs:
        try:
            want.append(reference.run(*given).float().cpu())
        except torch.OutOfMemoryError as fault:
            if not want:
                raise
            _log.warning("reference lacks memory", batch=len(given[0]), why=first_line(fault, named=True))
            break
    return inputs[: len(want)], want


def _tried(name: str, make: Make, inputs: Sequence[Inputs], want: Sequence[Tensor], max_error: float) -> Trial:
    try:
        runtime = make()
        error = max(
            relative_error(runtime.run(*given).float().cpu(), expected)
            for given, expected in zip(inputs, want, strict=True)
        )
    except (LiveAnchorError, ImportError, RuntimeError) as fault:  # whatever a library lacks, the others still serve
        return Trial(name, None, reason=first_line(fault, named=True))
    if error > max_error:
        return Trial(name, None, error=error, reason=f"is off: relative error {error:.1e}, allowed {max_error:.0e}")
    return Trial(name, runtime, error=error)


def _timed(trial: Trial, inputs: Sequence[Inputs], measure: Measure | None) -> Trial:
    if trial.runtime is None:
        return trial
    times = tuple((measure or call_ms)(trial.runtime, given) for given in inputs)
    return Trial(trial.name, trial.runtime, trial.error, times)


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
