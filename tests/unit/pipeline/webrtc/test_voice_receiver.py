"""What comes of a client's packets: order, holes, levels, phase; all on a clock of our own."""

from __future__ import annotations

import random
from fractions import Fraction

import av
import numpy as np
import pytest

from pipeline.webrtc.jitter_buffer import VoiceJitterBuffer, VoicePacket
from pipeline.webrtc.voice_receiver import VoiceReceiver
from tests.support.manual_clock import ManualClock

PACKET = 960


class Heard:
    """Lays samples where they belong, with silence between them, at 48 kHz."""

    def __init__(self) -> None:
        self.blocks: list[np.ndarray] = []
        self.count = 0

    def __call__(self, samples: np.ndarray, place: int) -> None:
        assert samples.dtype == np.float32 and samples.ndim == 1
        assert place >= self.count, "places never go back"
        assert len(samples) or place > self.count, "nothing is told that says nothing"
        self.blocks += [np.zeros(place - self.count, np.float32), samples]
        self.count = place + len(samples)

    @property
    def pcm(self) -> np.ndarray:
        return np.concatenate(self.blocks)


def opus(samples: np.ndarray, layout: str = "mono", samples_per_packet: int = PACKET) -> list[bytes]:
    """float (n,) or (n, 2) at 48 kHz as Opus packets."""
    context = av.CodecContext.create("libopus", "w")
    context.sample_rate, context.layout, context.format = 48_000, layout, "s16"
    context.bit_rate, context.time_base = 128_000, Fraction(1, 48_000)
    context.options = {"application": "audio", "frame_duration": str(samples_per_packet * 1000 // 48_000)}
    packets = []
    for start in range(0, len(samples) - samples_per_packet + 1, samples_per_packet):
        block = np.rint(samples[start : start + samples_per_packet] * 32767).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(block.reshape(1, -1), format="s16", layout=layout)
        frame.sample_rate, frame.pts, frame.time_base = 48_000, start, Fraction(1, 48_000)
        packets += [bytes(packet) for packet in context.encode(frame)]
    return packets


def tone(seconds: float, level: float = 0.5, hz: float = 440.0) -> np.ndarray:
    return level * np.sin(2 * np.pi * hz * np.arange(round(seconds * 48_000)) / 48_000)


def level_of(pcm: np.ndarray) -> float:
    """Amplitude of a steady tone."""
    return float(np.sqrt(2 * np.mean(np.square(pcm.astype(np.float64)))))


def play(
    packets: list[bytes], lost: frozenset[int] = frozenset(), first: tuple[int, int] = (65_530, 2**32 - 5_000)
) -> tuple[np.ndarray, VoiceReceiver]:
    """Packets every 20 ms; numbers and timestamps wrap on the way."""
    clock, heard = ManualClock(50.0), Heard()
    receiver = VoiceReceiver(heard, clock)
    for index, payload in enumerate(packets):
        clock.now = 50.0 + index * 0.02
        if index not in lost:
            receiver.packet((first[0] + index) & 0xFFFF, (first[1] + index * PACKET) & 0xFFFFFFFF, payload)
        receiver.passes()
    return heard.pcm, receiver


def test_packets_in_order_pass_at_once() -> None:
    buffer = VoiceJitterBuffer()
    for index in range(5):
        assert [one.sequence for one in buffer.add(VoicePacket(index, 0, b""))] == [index]


def test_swapped_packets_are_put_in_order_and_a_hole_is_skipped_after_three() -> None:
    buffer = VoiceJitterBuffer()
    got = [[one.sequence for one in buffer.add(VoicePacket(index, 0, b""))] for index in (0, 2, 1, 3, 5, 6, 7, 8)]
    assert got == [[0], [], [1, 2], [3], [], [], [5, 6, 7], [8]]
    assert buffer.lost == 1
    assert buffer.add(VoicePacket(4, 0, b"")) == [] and buffer.late == 1


def test_numbers_wrap_and_a_new_beginning_is_accepted() -> None:
    buffer = VoiceJitterBuffer()
    for index in (65_534, 65_535, 0, 1):
        assert len(buffer.add(VoicePacket(index, 0, b""))) == 1
    assert len(buffer.add(VoicePacket(30_000, 0, b""))) == 1
    assert buffer.lost == 0


def test_a_packet_that_comes_twice_counts_once() -> None:
    buffer = VoiceJitterBuffer()
    buffer.add(VoicePacket(0, 0, b""))
    buffer.add(VoicePacket(2, 0, b""))
    assert buffer.add(VoicePacket(2, 0, b"")) == [] and buffer.add(VoicePacket(0, 0, b"")) == []
    assert buffer.late == 2


@pytest.mark.parametrize(
    ("layout", "left", "right", "wanted"),
    [("mono", 0.5, 0.5, 0.5), ("stereo", 0.5, 0.5, 0.5), ("stereo", 0.5, 0.0, 0.25), ("stereo", 0.0, 0.5, 0.25)],
)
def test_levels_are_the_mean_of_the_channels(layout: str, left: float, right: float, wanted: float) -> None:
    wave = tone(1.0, 1.0)
    samples = left * wave if layout == "mono" else np.stack([left * wave, right * wave], axis=1)
    pcm, _ = play(opus(samples, layout))
    assert level_of(pcm[9600:38_400]) == pytest.approx(wanted, abs=0.01)


def test_count_and_phase_are_exact() -> None:
    wave = tone(2.0)
    pcm, receiver = play(opus(wave))
    assert len(pcm) == 96_000
    # Opus plays 6.5 ms late; the rest must lie within a tenth of a sample.
    places = np.arange(24_000, 72_000)
    phase = np.angle(np.sum(pcm[24_000:72_000] * np.exp(-2j * np.pi * 440 * places / 48_000))) + np.pi / 2
    late_ms = -phase / (2 * np.pi * 440) * 1000 % (1000 / 440)
    assert late_ms == pytest.approx(6.5 % (1000 / 440), abs=0.05)
    assert receiver.stats.silence_s == 0 and receiver.stats.delivered_s == 2.0


def test_three_percent_loss_keeps_the_clock() -> None:
    wave = tone(10.0)
    packets = opus(wave)
    draw = random.Random(3)
    lost = frozenset(index for index in range(20, len(packets) - 20) if draw.random() < 0.03)
    pcm, receiver = play(packets, lost)
    whole, _ = play(packets)
    assert lost and len(pcm) == len(whole)
    assert receiver.stats.lost == len(lost)
    assert receiver.stats.silence_s == pytest.approx(len(lost) * 0.02)
    # What was not lost lies where it would lie without loss.
    quiet = np.zeros(len(pcm), bool)
    for index in lost:
        quiet[max(index * PACKET - 120, 0) : (index + 2) * PACKET] = True
    assert float(np.max(np.abs(pcm - whole)[~quiet])) < 0.1
    assert level_of(pcm[~quiet][9600:]) == pytest.approx(0.5, abs=0.02)


def test_a_mute_that_leaves_packets_out_becomes_silence_as_time_goes_by() -> None:
    packets = opus(tone(3.0))
    pcm, receiver = play(packets, frozenset(range(50, 100)))
    assert len(pcm) == 3 * 48_000
    assert not pcm[50 * PACKET + 1200 : 100 * PACKET - 1200].any()
    assert receiver.stats.silence_s == pytest.approx(1.0, abs=0.05)
    assert level_of(pcm[102 * PACKET :]) == pytest.approx(0.5, abs=0.02)


def test_silence_is_delivered_while_nothing_comes() -> None:
    clock, heard = ManualClock(50.0), Heard()
    receiver = VoiceReceiver(heard, clock)
    receiver.packet(0, 0, opus(tone(0.02))[0])
    for _ in range(50):
        clock.now += 0.02
        receiver.passes()
    assert heard.count == pytest.approx(48_000, abs=1200)


def test_before_the_first_packet_nothing_is_delivered() -> None:
    clock, heard = ManualClock(50.0), Heard()
    receiver = VoiceReceiver(heard, clock)
    for _ in range(50):
        clock.now += 0.04
        receiver.passes()
    assert heard.count == 0


def test_a_stalled_network_leaves_no_backlog() -> None:
    packets = opus(tone(6.0))
    clock, heard = ManualClock(50.0), Heard()
    receiver = VoiceReceiver(heard, clock)
    waiting: list[tuple[int, bytes]] = []
    for index, payload in enumerate(packets):
        clock.now = 50.0 + index * 0.02
        waiting.append((index, payload))
        if not 100 <= index < 200:  # for two seconds nothing comes, then everything at once
            for number, one in waiting:
                receiver.packet(number, number * PACKET, one)
            waiting.clear()
        receiver.passes()
        ahead = heard.count / 48_000 - (index + 1) * 0.02
        assert -0.25 <= ahead <= 0.05, f"packet {index}"
    assert receiver.stats.late >= 80


def test_our_own_standstill_loses_nothing() -> None:
    packets = opus(tone(4.0))
    clock, heard = ManualClock(50.0), Heard()
    receiver = VoiceReceiver(heard, clock)
    waiting: list[tuple[int, bytes]] = []
    for index, payload in enumerate(packets):
        clock.now = 50.0 + index * 0.02
        waiting.append((index, payload))
        if 100 <= index < 130:
            continue  # the event loop stood still: neither packets nor time are looked at
        receiver.passes()
        for number, one in waiting:
            receiver.packet(number, number * PACKET, one)
        waiting.clear()
    assert receiver.stats.late == 0 and receiver.stats.silence_s == 0


def test_timestamps_that_stood_still_are_taken_up_again() -> None:
    packets = opus(tone(6.0))
    clock, heard = ManualClock(50.0), Heard()
    receiver = VoiceReceiver(heard, clock)
    for index, payload in enumerate(packets):
        clock.now = 50.0 + index * 0.02 + (3.0 if index >= 100 else 0.0)
        if index == 100:
            for step in range(150):
                clock.now = 52.0 + step * 0.02
                receiver.passes()
            clock.now = 55.0
        receiver.packet(index, index * PACKET, payload)
        receiver.passes()
    assert level_of(heard.pcm[-48_000:]) == pytest.approx(0.5, abs=0.02)
    assert heard.count / 48_000 == pytest.approx(9.0, abs=0.2)


def test_a_clock_that_is_set_anew_makes_no_hole() -> None:
    packets = opus(tone(4.0))
    clock, heard = ManualClock(50.0), Heard()
    receiver = VoiceReceiver(heard, clock)
    for index, payload in enumerate(packets):
        clock.now = 50.0 + index * 0.02
        receiver.packet(index, (index * PACKET + (1_000_000_000 if index >= 100 else 0)) & 0xFFFFFFFF, payload)
    assert heard.count / 48_000 == pytest.approx(4.0, abs=0.05)
    assert receiver.stats.silence_s < 0.05


@pytest.mark.parametrize("payload", [b"", b"\xff\xff\xff\xff", b"\x00" * 3, bytes(range(256)) * 5])
def test_rubbish_is_counted_or_decoded_but_never_raises(payload: bytes) -> None:
    clock, heard = ManualClock(50.0), Heard()
    receiver = VoiceReceiver(heard, clock)
    for index in range(10):
        clock.now += 0.02
        receiver.packet(index, index * PACKET, payload)
        receiver.passes()
    assert receiver.stats.packets == 10


@pytest.mark.parametrize("milliseconds", [10, 40, 60])
def test_packets_of_other_lengths(milliseconds: int) -> None:
    length = milliseconds * 48
    packets = opus(tone(3.0), samples_per_packet=length)
    clock, heard = ManualClock(50.0), Heard()
    receiver = VoiceReceiver(heard, clock)
    for index, payload in enumerate(packets):
        clock.now = 50.0 + index * milliseconds / 1000
        receiver.packet(index, index * length, payload)
        receiver.passes()
    assert heard.count == len(packets) * length
    assert receiver.stats.silence_s == 0


def test_who_sends_faster_than_anybody_speaks_loses_the_surplus_and_is_heard_again() -> None:
    clock, heard = ManualClock(50.0), Heard()
    receiver = VoiceReceiver(heard, clock)
    payloads = opus(tone(1.0))
    for index in range(1000):  # 20 s of sound and 400 s of timestamps in one second
        clock.now = 50.0 + index * 0.001
        receiver.packet(index & 0xFFFF, index * 19_200, payloads[index % 50])
    stats = receiver.stats
    assert stats.delivered_s < 2.2 and stats.early > 700
    for index in range(1000, 1150):
        clock.now += 0.02
        receiver.packet(index & 0xFFFF, 1000 * 19_200 + (index - 1000) * PACKET, payloads[index % 50])
        receiver.passes()
    assert receiver.stats.delivered_s - stats.delivered_s > 1.5, "once time has caught up"
    assert level_of(heard.pcm[-24_000:]) == pytest.approx(0.5, abs=0.05)
