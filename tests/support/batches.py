"""A model, an observer and calls for tests of the batcher."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from deployments.graph.batcher import Batcher
from kernels.errors import InvalidInputError, LiveAnchorError


@dataclass
class Model:
    """A model whose batches take `batch_s` on the fake clock and, when `gate` is set, wait for it."""

    batch_s: float = 0.02
    now: float = 100.0
    batches: list[list[str]] = field(default_factory=list)
    finished_at: dict[str, float] = field(default_factory=dict)
    gate: asyncio.Semaphore | None = None

    def clock(self) -> float:
        return self.now

    async def run(self, items: Sequence[str]) -> list[str | LiveAnchorError]:
        self.batches.append(list(items))
        if self.gate is not None:
            await self.gate.acquire()
        self.now += self.batch_s
        for item in items:
            self.finished_at[item] = self.now
        if any(item.startswith("explode") for item in items):
            raise ZeroDivisionError("boom")
        return [
            InvalidInputError("item", item, "good ones") if item.startswith("bad") else item.upper() for item in items
        ]


@dataclass
class Ears:
    """An observer that remembers."""

    lengths: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    drops: list[str] = field(default_factory=list)

    def queue_changed(self, queued: int) -> None:
        self.lengths.append(queued)

    def batch_done(self, waits_s: Sequence[float], run_s: float) -> None:
        self.sizes.append(len(waits_s))
        self.waits.extend(waits_s)
        assert run_s >= 0

    def dropped(self, reason: str) -> None:
        self.drops.append(reason)


def make(
    model: Model, size: int = 4, queued: int = 100, ears: Ears | None = None, *, several: bool = False
) -> Batcher[str, str]:
    return Batcher(
        "stage",
        model.run,
        max_batch_size=size,
        max_queued=queued,
        clock=model.clock,
        observer=ears,
        several=several,
    )


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def start(coroutine: Coroutine[Any, Any, str]) -> asyncio.Task[str]:
    return asyncio.create_task(coroutine)


async def occupied(model: Model, batcher: Batcher[str, str]) -> asyncio.Task[str]:
    """The model busy with one chunk, so that whatever comes next queues."""
    model.gate = asyncio.Semaphore(0)
    first = start(batcher.submit("first", session_id="first", remaining_ms=1e6))
    await settle()
    assert model.batches == [["first"]]
    return first


def open_gate(model: Model) -> None:
    assert model.gate is not None
    for _ in range(1000):
        model.gate.release()
