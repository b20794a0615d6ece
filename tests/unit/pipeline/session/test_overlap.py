"""Buckets over a device that draws when the test says so: what shares a bucket, who is answered when, whose error is whose."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import numpy as np
import pytest

from kernels.errors import InvalidInputError
from pipeline.session.overlap import DrawOrder, OverlappedDrawing, Span
from pipeline.stages import RenderRequest
from pipeline.types import MotionChunk


def order(name: str, frames: int, *, crops_only: bool = False) -> DrawOrder:
    return DrawOrder(
        RenderRequest(name, MotionChunk(np.zeros((frames, 265), np.float32), 0), None, 25, "bt709"), crops_only
    )


def told(span: Span) -> str:
    return f"{span.order.request.avatar_id}{span.start}-{span.stop}"


@dataclass
class Flying:
    device: Device
    spans: list[Span]

    def wait(self) -> list[str]:
        self.device.log.append("land " + " ".join(map(told, self.spans)))
        if any(span.order.request.avatar_id in self.device.fail_landing for span in self.spans):
            raise ZeroDivisionError("lost on the device")
        return [told(span) for span in self.spans]


@dataclass
class Device:
    """Draws names; keeps a log of what was queued and fetched."""

    fail_launch: frozenset[str] = frozenset()
    fail_landing: frozenset[str] = frozenset()
    fail_alone: frozenset[str] = frozenset()
    log: list[str] = field(default_factory=list)

    def open(self, given: DrawOrder) -> int | None:
        if given.request.avatar_id == "unknown":
            raise InvalidInputError("avatar_id", "unknown", "known ones")
        return None if given.request.avatar_id == "moving" else len(given.request.motion.motion)

    def launch(self, spans: Sequence[Span]) -> Flying:
        self.log.append("draw " + " ".join(map(told, spans)))
        if any(span.order.request.avatar_id in self.fail_launch for span in spans):
            raise ZeroDivisionError("cannot be queued")
        return Flying(self, list(spans))

    def join(self, given: DrawOrder, parts: Sequence[str]) -> str:
        return "+".join(parts)

    def alone(self, given: DrawOrder) -> str:
        name = given.request.avatar_id
        self.log.append(f"alone {name}")
        if name in self.fail_alone:
            raise ValueError(f"{name} is broken")
        return f"{name} alone"


def played(device: Device, orders: Sequence[DrawOrder], bucket: int = 8) -> tuple[list[Future[str]], Device]:
    """All orders at once, then turns until nothing is left."""
    loop: OverlappedDrawing[str, str] = OverlappedDrawing(device, bucket, start=False)
    futures = [loop.submit(one) for one in orders]
    loop.hear(wait=False)
    while loop.turn():
        pass
    return futures, device


def test_frames_of_several_orders_fill_buckets_and_the_next_is_queued_before_one_is_fetched() -> None:
    futures, device = played(Device(), [order("a", 5), order("b", 5), order("c", 10), order("d", 3)])
    assert device.log == [
        "draw a0-5 b0-3",
        "draw b3-5 c0-6",
        "land a0-5 b0-3",
        "draw c6-10 d0-3",
        "land b3-5 c0-6",
        "land c6-10 d0-3",
    ]
    assert [one.result(0) for one in futures] == ["a0-5", "b0-3+b3-5", "c0-6+c6-10", "d0-3"]


def test_an_order_is_answered_when_its_own_frames_are_there() -> None:
    device = Device()
    loop: OverlappedDrawing[str, str] = OverlappedDrawing(device, 8, start=False)
    first, second = loop.submit(order("a", 5)), loop.submit(order("b", 12))
    loop.hear(wait=True)
    loop.turn(), loop.turn(), loop.turn()
    assert first.done() and not second.done()
    while loop.turn():
        pass
    assert second.done()


def test_a_few_frames_do_not_wait_for_a_full_bucket() -> None:
    _, device = played(Device(), [order("a", 2)])
    assert device.log == ["draw a0-2", "land a0-2"]


@pytest.mark.parametrize("where", ["fail_launch", "fail_landing"])
def test_a_bucket_that_fails_is_drawn_order_by_order_and_the_error_stays_with_its_order(where: str) -> None:
    device = Device(**{where: frozenset({"bad"})}, fail_alone=frozenset({"bad"}))
    futures, _ = played(device, [order("a", 5), order("bad", 5), order("c", 8)])
    assert futures[0].result(0) == "a alone"
    with pytest.raises(ValueError, match="bad is broken"):
        futures[1].result(0)
    assert futures[2].result(0) in ("c alone", "c0-8"), "answered once, whatever shared its buckets"
    assert device.log.count("alone bad") == 1, "its other bucket does not draw it again"


def test_an_order_that_worked_alone_is_not_answered_again_by_its_other_bucket() -> None:
    futures, device = played(Device(fail_landing=frozenset({"a"})), [order("a", 5), order("long", 12)])
    assert [one.result(0) for one in futures] == ["a alone", "long alone"]
    assert device.log.count("alone long") == 1


def test_orders_that_cannot_share_are_drawn_alone_and_bad_ones_are_refused() -> None:
    futures, device = played(Device(), [order("moving", 3), order("unknown", 3), order("a", 0), order("b", 1)])
    assert futures[0].result(0) == "moving alone" and futures[2].result(0) == "a alone"
    assert isinstance(futures[1].exception(0), InvalidInputError)
    assert device.log[-2:] == ["draw b0-1", "land b0-1"]


def test_a_cancelled_order_is_not_drawn() -> None:
    device = Device()
    loop: OverlappedDrawing[str, str] = OverlappedDrawing(device, 8, start=False)
    assert loop.submit(order("a", 5)).cancel()
    loop.hear(wait=False)
    assert not loop.turn() and not device.log


def test_the_thread_draws_what_comes_and_ends_with_everything_answered() -> None:
    device = Device()
    loop: OverlappedDrawing[str, str] = OverlappedDrawing(device, 8)
    futures = [loop.submit(order("abcdefgh"[i], 1 + i)) for i in range(8)]
    loop.close()
    assert all(one.done() for one in futures)
    drawn = sum(int(part.split("-")[1]) - int(part.split("-")[0]) for one in futures for part in _ranges(one.result(0)))
    assert drawn == sum(range(1, 9))
    assert not any(thread is loop._thread for thread in threading.enumerate())


def _ranges(text: str) -> list[str]:
    return [part[1:] for part in text.split("+")]
