"""A client's microphone between loop and thread: order, few hand-overs, loss, lateness, bounds, failure and end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import numpy as np
import pytest

from kernels.arrays import F32
from pipeline.webrtc.microphone_line import MAX_WAITING, MicrophoneLine, packet_samples
from pipeline.webrtc.voice_receiver import VoiceReceiver
from pipeline.webrtc.voice_thread import Line, VoiceThread
from tests.support.manual_clock import ManualClock
from tests.unit.pipeline.webrtc.test_voice_receiver import PACKET, level_of, opus, tone

FRAME = 640


class HeldThread(VoiceThread):
    """Does nothing until it is told: as late as the machine may ever be."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.lines: list[Line] = []

    def open(self) -> None: ...

    def close(self) -> None: ...

    def ask(self, line: Line) -> None:
        self.asked += 1
        self.lines.append(line)

    async def go_on(self) -> None:
        """Do what was asked for, and have it handed over."""
        while self.lines:
            self.lines.pop().work()
        await asyncio.sleep(0)


class Ear:
    """What a session is to a line."""

    def __init__(self, due: int = FRAME) -> None:
        self.due = due
        self.blocks: list[tuple[F32, int, float]] = []
        self.failures: list[BaseException] = []
        self.heard = asyncio.Event()

    def __call__(self, samples: F32, place: int, age_s: float) -> int:
        self.blocks.append((samples, place, age_s))
        self.heard.set()
        return self.due

    @property
    def count(self) -> int:
        return self.blocks[-1][1] + len(self.blocks[-1][0]) if self.blocks else 0

    def fail(self, error: BaseException) -> None:
        self.failures.append(error)
        self.heard.set()

    async def until(self, count: int) -> None:
        while self.count < count and not self.failures:
            self.heard.clear()
            await self.heard.wait()


def run(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scene)


def samples_of(ear: Ear) -> F32:
    """Everything that was handed over, silence in its holes."""
    whole = np.zeros(ear.count, np.float32)
    for samples, place, _ in ear.blocks:
        whole[place : place + len(samples)] = samples
    return whole


def received(packets: list[bytes], order: list[int]) -> F32:
    """What the receiver alone makes of the packets, one at a time."""
    clock, pieces = ManualClock(50.0), Ear()
    receiver = VoiceReceiver(lambda samples, place: pieces.blocks.append((samples, place, 0.0)), clock)
    for step, index in enumerate(order):
        clock.now = 50.0 + step * 0.02
        receiver.packet(index, index * PACKET, packets[index])
    return samples_of(pieces)


@pytest.mark.parametrize("kind", ["in order", "lost", "late", "quiet"])
def test_what_is_handed_over_is_what_the_receiver_makes_packet_by_packet(kind: str) -> None:
    packets = opus(tone(2.0) * (0.0 if kind == "quiet" else 1.0))
    order = list(range(100))
    if kind == "lost":
        order = [index for index in order if index % 17 != 5]
    elif kind == "late":
        order[10], order[12], order[40], order[41] = 12, 10, 41, 40

    async def scene() -> None:
        clock, ear, thread = ManualClock(50.0), Ear(), VoiceThread()
        line = MicrophoneLine(ear, ear.fail, thread, clock)
        for step, index in enumerate(order):
            clock.now = 50.0 + step * 0.02
            line.packet(index, index * PACKET, packets[index])
            await asyncio.sleep(0)
        clock.now += 0.04
        line.passes()
        await ear.until(len(received(packets, order)))
        np.testing.assert_array_equal(samples_of(ear), received(packets, order))
        assert line.stats.packets == len(order) and (line.stats.lost > 0) == (kind == "lost")
        line.close()

    run(scene())


def test_the_thread_is_asked_once_a_frame_and_not_once_a_packet() -> None:
    async def scene() -> None:
        clock, ear, thread = ManualClock(50.0), Ear(), HeldThread()
        line = MicrophoneLine(ear, ear.fail, thread, clock)
        for index, payload in enumerate(opus(tone(2.0))):
            clock.now = 50.0 + index * 0.02
            line.packet(index, index * PACKET, payload)
            line.passes()
            await thread.go_on()
        assert thread.asked == pytest.approx(50, abs=2)
        assert all(len(samples) == 2 * PACKET for samples, _, _ in ear.blocks[2:-1])
        assert all(age_s == pytest.approx(0.02) for _, _, age_s in ear.blocks[2:-1]), "its first packet came 20 ms ago"

    run(scene())


def test_a_packet_that_the_network_delayed_is_no_older_than_the_one_that_it_did_not() -> None:
    async def scene() -> None:
        clock, ear, thread = ManualClock(50.0), Ear(), HeldThread()
        line = MicrophoneLine(ear, ear.fail, thread, clock)
        packets = opus(tone(0.1))
        for now, index in ((50.0, 0), (50.035, 1), (50.04, 2)):
            clock.now = now
            line.packet(index, index * PACKET, packets[index])
        clock.now = 50.05
        await thread.go_on()
        ((samples, place, age_s),) = ear.blocks
        assert (len(samples), place) == (3 * PACKET, 0)
        assert age_s == pytest.approx(0.05), "the first came 50 ms ago; the third would say so, too"

    run(scene())


def test_a_thread_that_stands_still_holds_two_seconds_and_what_is_left_out_is_lost() -> None:
    async def scene() -> None:
        clock, ear, thread = ManualClock(50.0), Ear(), HeldThread()
        line = MicrophoneLine(ear, ear.fail, thread, clock)
        packets = opus(tone(6.0))
        for index in range(50):
            clock.now = 50.0 + index * 0.02
            line.packet(index, index * PACKET, packets[index])
        await thread.go_on()
        for index in range(50, 300):
            clock.now = 50.0 + index * 0.02
            line.packet(index, index * PACKET, packets[index])
            line.passes()
        await thread.go_on()
        assert line.stats.packets == 50 + MAX_WAITING and line.stats.lost == 150
        assert ear.count == 300 * PACKET, "the voice lies where it was spoken"
        assert level_of(ear.blocks[-1][0][-PACKET:]) == pytest.approx(0.5, abs=0.05)

    run(scene())


def test_a_microphone_that_sends_nothing_is_silent_as_time_goes_by() -> None:
    async def scene() -> None:
        clock, ear, thread = ManualClock(50.0), Ear(), HeldThread()
        line = MicrophoneLine(ear, ear.fail, thread, clock)
        for _ in range(10):
            line.passes()
        assert thread.asked == 0, "nothing came yet"
        line.packet(0, 0, opus(tone(0.02))[0])
        for step in range(1, 51):
            clock.now = 50.0 + step * 0.04
            line.passes()
            await thread.go_on()
        assert ear.count == pytest.approx(2 * 48_000, abs=2 * PACKET)
        assert sum(len(samples) for samples, _, _ in ear.blocks) == PACKET
        assert thread.asked == pytest.approx(51, abs=1)

    run(scene())


@pytest.mark.parametrize("milliseconds", [10, 20, 40, 60])
@pytest.mark.parametrize("layout", ["mono", "stereo"])
def test_the_length_of_a_packet_is_read_off_its_first_byte(milliseconds: int, layout: str) -> None:
    samples = tone(0.5) if layout == "mono" else np.stack([tone(0.5)] * 2, axis=1)
    for payload in opus(samples, layout, samples_per_packet=48 * milliseconds):
        assert packet_samples(payload) == 48 * milliseconds


@pytest.mark.parametrize(
    ("payload", "samples"),
    [(b"", 0), (b"\x00", 480), (b"\x01", 960), (b"\xe0", 120), (b"\xfb", 0), (b"\xfb\x03", 2880)],
)
def test_lengths_of_codes_that_browsers_do_not_send(payload: bytes, samples: int) -> None:
    assert packet_samples(payload) == samples


def test_nothing_is_handed_over_after_the_end_and_the_thread_ends_with_the_last_line() -> None:
    async def scene() -> None:
        clock, thread = ManualClock(50.0), VoiceThread()
        ears = [Ear(), Ear()]
        lines = [MicrophoneLine(ear, ear.fail, thread, clock) for ear in ears]
        packets = opus(tone(0.2))
        assert not thread.running, "nothing came yet"
        for line, ear in zip(lines, ears, strict=True):
            line.packet(0, 0, packets[0])
            await ear.until(PACKET)
        lines[0].close()
        lines[0].close()
        for index in range(1, 10):
            clock.now += 0.02
            for line in lines:
                line.packet(index, index * PACKET, packets[index])
        await ears[1].until(8 * PACKET)
        assert ears[0].count == PACKET and thread.running
        worker = next(one for one in threading.enumerate() if one.name == "live-voices" and one is thread._thread)
        lines[1].close()
        await asyncio.to_thread(worker.join)
        assert not thread.running
        late = MicrophoneLine(ears[0], ears[0].fail, thread, clock)
        late.packet(0, 0, packets[0])
        assert thread.running, "a later session begins anew"
        late.close()

    run(scene())


def test_what_breaks_ends_that_microphone_alone() -> None:
    async def scene() -> None:
        clock, thread, broken, well = ManualClock(50.0), VoiceThread(), Ear(), Ear()
        bad = MicrophoneLine(broken, broken.fail, thread, clock)
        good = MicrophoneLine(well, well.fail, thread, clock)

        def fall(sequence: int, timestamp: int, payload: bytes) -> None:
            raise ValueError("a decoder that fell over")

        bad._receiver.packet = fall  # type: ignore[method-assign]  # no packet is known that does it
        for index, payload in enumerate(opus(tone(0.2))):
            clock.now += 0.02
            bad.packet(index, index * PACKET, payload)
            good.packet(index, index * PACKET, payload)
        await well.until(8 * PACKET)
        await broken.until(1)
        assert [str(error) for error in broken.failures] == ["a decoder that fell over"]
        assert not broken.blocks and not well.failures
        good.close()

    run(scene())
