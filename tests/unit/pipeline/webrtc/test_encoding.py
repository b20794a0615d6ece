"""Live encoding: rate, key frames, level and colour; dropping what is late; the voice."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable
from fractions import Fraction

import av
import numpy as np
import pytest

from kernels.errors import LiveAnchorError
from pipeline.config import EncoderSettings
from pipeline.live.contracts import VideoTick, VoiceTick
from pipeline.media.encoder import EncoderError, VideoFormat
from pipeline.media.encoder_select import EncoderSelector
from pipeline.types import Nv12Canvas, Nv12Rect
from pipeline.webrtc.encoder_thread import EncoderThread
from pipeline.webrtc.live_video import LiveVideo
from pipeline.webrtc.packets import EncodedUnit, MediaKind
from pipeline.webrtc.voice_encoder import VoiceEncoder
from pipeline.webrtc.warm_up import warm_up
from tests.support.manual_clock import ManualClock
from tests.support.rtc import ENCODER, grey_canvas


def live_video(
    width: int = 128, height: int = 128, fps: Fraction | int = 25, clock: ManualClock | None = None
) -> LiveVideo:
    video_format = VideoFormat(width, height, fps)
    return LiveVideo(video_format, ENCODER, 6000, EncoderSelector(), clock or ManualClock(10.0))


def noisy(side: int, index: int) -> Nv12Canvas:
    """Pictures that always need more than the rate allows."""
    luma = np.random.default_rng(index).integers(16, 236, (side, side), dtype=np.uint8)
    return Nv12Canvas(luma, np.full((side // 2, side), 128, np.uint8))


def annex_b(unit: EncodedUnit) -> bytes:
    """Undo RFC 6184's packets."""
    from aiortc.codecs.h264 import h264_depayload

    return b"".join(h264_depayload(payload) for payload in unit.payloads)


def nal_types(unit: EncodedUnit) -> list[int]:
    return [match.group(1)[0] & 31 for match in re.finditer(rb"\x00\x00\x01(.)", annex_b(unit), re.S)]


def kbps_of(video: LiveVideo, pictures: list[Nv12Canvas], first: int, count: int, kbps: int) -> float:
    size = 0
    for index in range(first, first + count):
        size += sum(unit.size for unit in video.encode(pictures[index % len(pictures)], index, kbps))
    return size * 8 / 1000 * 25 / count


def test_a_key_frame_carries_its_headers_and_the_right_level_and_profile() -> None:
    for size, fps, level in (((1080, 1920), 25, 40), ((1080, 1920), 50, 42), ((512, 512), 25, 30)):
        video = live_video(*size, fps=fps)
        canvas = Nv12Canvas(np.full((size[1], size[0]), 90, np.uint8), np.full((size[1] // 2, size[0]), 128, np.uint8))
        (unit,) = video.encode(canvas, 0, 2500)
        assert unit.key and {7, 8, 5} <= set(nal_types(unit))
        stream = annex_b(unit)
        sps = stream[stream.index(b"\x00\x00\x01\x67") + 4 :]
        assert sps[0] == 66 and sps[1] & 0x40, "Constrained Baseline"
        assert sps[2] == level
        assert all(len(payload) <= 1300 for payload in unit.payloads)
        video.close()


def test_the_stream_says_its_colour() -> None:
    video = live_video()
    (unit,) = video.encode(grey_canvas(), 0, 2500)
    decoder = av.CodecContext.create("h264", "r")
    frame = decoder.decode(av.Packet(annex_b(unit)))[0] if decoder.decode(av.Packet(annex_b(unit))) else None
    frame = frame or decoder.decode(None)[0]
    assert (int(frame.colorspace), int(frame.color_primaries), int(frame.color_trc), int(frame.color_range)) == (
        1,
        1,
        1,
        1,
    )


@pytest.mark.parametrize(("fps", "step"), [(25, 3600), (50, 1800)])
def test_timestamps_are_exact(fps: int, step: int) -> None:
    video = live_video(fps=fps)
    units = [unit for index in (0, 1, 2, 7) for unit in video.encode(grey_canvas(), index, 2500)]
    assert [unit.timestamp for unit in units] == [0, step, 2 * step, 7 * step]


def test_timestamps_at_60000_1001() -> None:
    video = live_video(fps=Fraction(60_000, 1001))
    units = [unit for index in range(5) for unit in video.encode(grey_canvas(), index, 2500)]
    assert [unit.timestamp for unit in units] == [round(index * 1501.5) for index in range(5)]


def test_a_requested_key_comes_with_the_next_picture_but_not_twice_in_250_ms() -> None:
    clock = ManualClock(10.0)
    video = live_video(clock=clock)
    keys = []
    for index in range(40):
        clock.now = 10.0 + index * 0.04
        if index in (10, 11, 12, 13, 30):
            video.request_key()
            video.request_key()
        keys += [index for unit in video.encode(grey_canvas(), index, 2500) if unit.key]
    assert keys == [0, 10, 17, 30]


def test_a_key_frame_that_comes_anyway_answers_the_request() -> None:
    clock = ManualClock(10.0)
    video = live_video(clock=clock)
    keys = []
    for index in range(64):
        clock.now = 10.0 + index * 0.04
        if index in (46, 48):
            video.request_key()  # 46 is answered; 48 comes too soon after it, and the GOP of 2 s ends at 50 or 96
        keys += [index for unit in video.encode(grey_canvas(), index, 2500) if unit.key]
    assert keys[:2] == [0, 46] and len(keys) <= 3 and not video.key_due


def test_a_bit_rate_changes_without_a_key_frame_and_a_large_change_with_one() -> None:
    side = 256
    pictures = [noisy(side, index) for index in range(12)]
    video = live_video(side, side)
    first = kbps_of(video, pictures, 0, 40, 3000)
    kbps_of(video, pictures, 40, 9, 1600)
    assert video.key_frames == 1, "the first GOP lasts 2 s, until 50"
    slower = kbps_of(video, pictures, 49, 31, 1600)
    assert video.reopened == 0 and slower < 0.7 * first
    faster = kbps_of(video, pictures, 80, 40, 5000)
    assert video.reopened == 0 and faster > 1.5 * slower
    slowest = kbps_of(video, pictures, 120, 40, 700)
    assert video.reopened == 1 and slowest < 0.7 * slower
    assert video.kbps == 700


class Published:
    def __init__(self) -> None:
        self.units: list[tuple[MediaKind, EncodedUnit]] = []
        self.changed = threading.Condition()
        self.errors: list[LiveAnchorError] = []
        self.ended = threading.Event()

    def __call__(self, kind: MediaKind, units: list[EncodedUnit]) -> None:
        with self.changed:
            self.units += [(kind, unit) for unit in units]
            self.changed.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, 60)


class Gate:
    """A rate that the thread asks for before each picture: holds it there until released."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> int:
        self.reached.set()
        assert self.open.wait(60)
        return 2500


def encoder_thread(published: Published, rate: Callable[[], int], canvas: Nv12Canvas) -> EncoderThread:
    thread = EncoderThread(
        "test-encoder",
        canvas,
        live_video(),
        VoiceEncoder,
        rate,
        published,
        published.errors.append,
        published.ended.set,
        ManualClock(10.0),
    )
    thread.encode_pictures = True
    return thread


def rect(value: int, x: int = 0) -> Nv12Rect:
    return Nv12Rect(x, 0, 32, 32, np.full((32, 32), value, np.uint8), np.full((16, 32), 128, np.uint8))


def test_late_pictures_are_dropped_repeats_first_and_nothing_stays_unpainted() -> None:
    published, gate, canvas = Published(), Gate(), grey_canvas()
    thread = encoder_thread(published, gate, canvas)
    thread.show(VideoTick(0, 0.0, rect(50)))
    assert gate.reached.wait(60)
    thread.show(VideoTick(1, 0.04, rect(60)))
    thread.show(VideoTick(2, 0.08, None))
    thread.show(VideoTick(3, 0.12, rect(70)))  # pushes out the repeat
    assert thread.pending == 2 and thread.counts.dropped == 1
    thread.show(VideoTick(4, 0.16, rect(80, x=64)))  # pushes out 1
    thread.show(VideoTick(5, 0.20, rect(90, x=64)))  # pushes out 3: its place is covered by nobody
    assert thread.pending == 2 and thread.counts.dropped == 3 and thread.counts.repeated == 1
    gate.open.set()
    published.wait(lambda: len(published.units) == 3)
    assert [unit.timestamp // 3600 for _, unit in published.units] == [0, 4, 5]
    thread.stop()
    assert published.ended.wait(60)
    assert canvas.y_plane[0, 0] == 70 and canvas.y_plane[0, 64] == 90 and not published.errors


def test_of_a_still_picture_one_repeat_in_100_ms_is_encoded_and_a_key_frame_at_once() -> None:
    published = Published()
    video, clock = live_video(), ManualClock(10.0)
    thread = EncoderThread(
        "t", grey_canvas(), video, None, lambda: 2500, published, published.errors.append, published.ended.set, clock
    )
    thread.encode_pictures = True
    for index in range(30):
        if index == 19:
            video._key_at = -10.0
            video.request_key()
        thread.show(VideoTick(index, index / 25, rect(50) if index in (0, 4) else None))
        deadline = time.monotonic() + 60
        while thread.counts.encoded + thread.counts.left_out <= index:
            assert time.monotonic() < deadline
            time.sleep(0.001)
    thread.stop()
    assert published.ended.wait(60)
    assert [unit.timestamp // 3600 for _, unit in published.units] == [*range(15), 17, 19, 22, 25, 28]
    assert thread.counts.left_out == 10 and thread.counts.repeated == 28


def test_nobody_watching_means_painting_without_encoding() -> None:
    published, canvas = Published(), grey_canvas()
    thread = encoder_thread(published, lambda: 2500, canvas)
    thread.encode_pictures = False
    for index in range(2):
        thread.show(VideoTick(index, index / 25, rect(100 + index)))
    thread.say(VoiceTick(np.zeros(640, np.float32), 0, False))
    published.wait(lambda: any(kind == "audio" for kind, _ in published.units))
    thread.stop()
    assert published.ended.wait(60)
    assert thread.counts.encoded == 0 and all(kind == "audio" for kind, _ in published.units)


def test_an_error_ends_the_thread_and_is_told() -> None:
    published = Published()
    thread = encoder_thread(published, lambda: 2500, grey_canvas())
    thread.show(VideoTick(0, 0.0, rect(1, x=112)))
    assert published.ended.wait(60)
    assert len(published.errors) == 1 and "rect" in str(published.errors[0])


def test_a_broken_tick_ends_the_thread_and_is_told() -> None:
    published = Published()
    thread = encoder_thread(published, lambda: 2500, grey_canvas())
    wrong = Nv12Rect(0, 0, 32, 32, np.zeros((8, 8), np.uint8), np.zeros((4, 8), np.uint8))
    thread.show(VideoTick(0, 0.0, wrong))
    assert published.ended.wait(60)
    assert len(published.errors) == 1 and isinstance(published.errors[0], EncoderError)


def test_an_encoder_that_cannot_open_is_told() -> None:
    published = Published()
    settings = EncoderSettings(prefer="nvenc")
    video = LiveVideo(
        VideoFormat(128, 128, 25), settings, 6000, EncoderSelector(probe=lambda: "none here"), ManualClock(10.0)
    )
    thread = EncoderThread(
        "t",
        grey_canvas(),
        video,
        None,
        lambda: 1000,
        published,
        published.errors.append,
        published.ended.set,
        ManualClock(10.0),
    )
    thread.encode_pictures = True
    thread.show(VideoTick(0, 0.0, None))
    assert published.ended.wait(60)
    assert isinstance(published.errors[0], EncoderError)


def test_stopping_before_the_first_tick_starts_no_thread() -> None:
    thread = encoder_thread(Published(), lambda: 2500, grey_canvas())
    thread.stop()
    thread.show(VideoTick(0, 0.0, None))
    assert not thread.started


def decoded(units: list[EncodedUnit]) -> np.ndarray:
    context = av.CodecContext.create("libopus", "r")
    context.layout, context.sample_rate, context.format = "mono", 48_000, "s16"
    blocks = [frame.to_ndarray()[0] for unit in units for frame in context.decode(av.Packet(unit.payloads[0]))]
    return np.concatenate(blocks) / 32768


@pytest.mark.parametrize("block", [7, 320, 533, 640, 16_000])
def test_the_voice_is_cut_into_20_ms_however_it_comes(block: int) -> None:
    encoder = VoiceEncoder()
    pcm = (0.3 * np.sin(np.arange(16_000) / 5)).astype(np.float32)
    units = []
    for start in range(0, 16_000, block):
        units += encoder.encode(pcm[start : start + block], start)
    assert len(units) == 50
    assert {after.timestamp - before.timestamp for before, after in zip(units, units[1:], strict=False)} == {960}
    assert all(unit.key for unit in units)


def test_a_click_is_heard_at_its_own_time() -> None:
    encoder = VoiceEncoder()
    pcm = np.zeros(32_000, np.float32)
    pcm[8_000:8_010] = 0.8
    units = encoder.encode(pcm, 0)
    sound = decoded(units)
    at = int(np.argmax(np.abs(sound))) + units[0].timestamp
    assert at == pytest.approx(8_004 * 3, abs=48), "within a millisecond"


def test_holes_become_silence_and_repeats_are_left_out() -> None:
    encoder = VoiceEncoder()
    units = encoder.encode(np.zeros(640, np.float32), 1600)
    units += encoder.encode(np.zeros(640, np.float32), 1600 + 320)  # overlaps by half
    units += encoder.encode(np.zeros(320, np.float32), 1600 + 1600)  # a hole of 640
    steps = [after.timestamp - before.timestamp for before, after in zip(units, units[1:], strict=False)]
    assert len(units) == 6 and set(steps) == {960}
    units = encoder.encode(np.zeros(320, np.float32), 1_000_000)
    assert units[0].timestamp == pytest.approx(1_000_000 * 3, abs=400)


def test_a_voice_of_rubbish_is_clipped_not_refused() -> None:
    encoder = VoiceEncoder()
    pcm = np.full(640, np.nan, np.float32)
    pcm[::2] = 9.0
    pcm[1::4] = -np.inf
    assert len(encoder.encode(pcm, 0)) == 2


def test_warming_up_names_the_encoder_and_tells_when_there_is_none() -> None:
    assert asyncio.run(warm_up(ENCODER)) == "libx264"
    with pytest.raises(EncoderError):
        asyncio.run(warm_up(EncoderSettings(prefer="nvenc"), EncoderSelector(probe=lambda: "none here")))
