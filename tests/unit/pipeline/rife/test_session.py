"""Whole sessions whose pictures are interpolated: flags, carry, exact lengths, refusals, moving canvases."""

from __future__ import annotations

import asyncio
import wave
from collections.abc import AsyncIterator
from fractions import Fraction
from functools import cache
from pathlib import Path

import av
import numpy as np
import pytest
import torch

from engines.motion_layout import MOTION_DIM
from kernels.arrays import F32
from kernels.errors import InvalidInputError
from pipeline.config import EncoderSettings, RifeSettings, SessionSettings
from pipeline.ditto.avatar_tensors import unpack
from pipeline.ditto.motion_fields import mirror_index
from pipeline.ditto.tail import DittoTail
from pipeline.media.audio_in import decode_audio
from pipeline.mini.behaviour import MINI_BEHAVIOUR
from pipeline.mini.registration import make_avatar
from pipeline.mini.stages import LocalStages
from pipeline.presenter.draw import draw_presenter
from pipeline.rife.local import LocalRife, MakeTail
from pipeline.rife.stage import Rife
from pipeline.session.clip_session import run_session
from pipeline.session.drawing import ChunkDrawer
from pipeline.session.frames import clip_batches
from pipeline.session.generate import generate_file
from pipeline.session.moving_canvas import Body, body_at
from pipeline.session.tail import Placed
from pipeline.stages import RifeRequest, StageInfo
from pipeline.types import AudioChunk, Avatar, MotionChunk, Nv12RectBatch
from tests.support.ditto_avatar import video_avatar
from tests.support.fake_stages import HOP, FakeCrops, FakeStages
from tests.support.rife import MeanInterpolator

PICTURES_ONLY = StageInfo("fake", HOP, 640, 1920, 25, False)


def settings(**changes: object) -> SessionSettings:
    return SessionSettings.model_validate({"fps": 50} | changes)


def tone(samples: int, amplitude: float = 0.3) -> F32:
    return (amplitude * np.sin(np.arange(samples) * 0.2)).astype(np.float32)


async def source(pcm: F32) -> AsyncIterator[AudioChunk]:
    yield AudioChunk(pcm, 0)


def session(pcm: F32, config: SessionSettings, info: StageInfo = PICTURES_ONLY) -> tuple[list[float], FakeStages]:
    stages = FakeStages(info=info)

    async def run() -> list[Nv12RectBatch]:
        return [batch async for batch in run_session(source(pcm), stages, "a", config, 0, MINI_BEHAVIOUR)]

    luma = np.concatenate([batch.y_planes for batch in asyncio.run(run())])
    return [float(plane[0, 0]) / 10 for plane in luma], stages


@pytest.mark.parametrize("chunk", [4, 8, 16, 25])
def test_every_picture_comes_once_and_the_last_one_is_held(chunk: int) -> None:
    shown, stages = session(tone(640 * 19), settings(chunk_frames=chunk))
    # hold at the first frame, then everything is speech
    assert shown == [i / 2 for i in range(37)] + [18.0]
    assert all(request.following is None and request.fps == 50 for request in stages.requests)


def test_the_edges_of_silence_are_held() -> None:
    quiet = np.zeros(640 * HOP * 3, np.float32)
    # speech of one hop; the gate opens one hop early (look-ahead) and closes a while later
    shown, _ = session(np.concatenate([quiet[: 640 * 16], tone(640 * 8)]), settings())
    halves = [i for i, position in enumerate(shown[:-1]) if i % 2 and position == int(position)]
    assert len(halves) == 1, "one edge, from silence to speech"
    edge = (halves[0] + 1) // 2
    assert edge % HOP == 0 and shown[halves[0]] == edge - 1


def test_a_family_that_doubles_itself_calls_rife_only_when_told() -> None:
    own = FakeStages().info
    shown, stages = session(tone(16_000), settings(), own)
    assert not stages.drawn and len(shown) == 56 - 6
    _, told = session(tone(16_000), settings(interpolate="rife"), own)
    assert told.drawn
    _, native = session(tone(16_000), settings(fps=25), PICTURES_ONLY)
    assert not native.drawn


def test_cancelling_lets_go_of_crops() -> None:
    async def run() -> list[FakeCrops]:
        stages = FakeStages(info=PICTURES_ONLY, render_gate=asyncio.Event())

        async def consume() -> None:
            async for _ in run_session(source(tone(16_000 * 4)), stages, "a", settings(), 0, MINI_BEHAVIOUR):
                pass

        task = asyncio.create_task(consume())
        await stages.announced.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return stages.drawn

    drawn = asyncio.run(run())
    assert drawn and all(one.cancelled for one in drawn)


def test_after_an_interruption_nothing_is_blended() -> None:
    async def run() -> list[float]:
        stages = FakeStages(info=PICTURES_ONLY)
        drawer = ChunkDrawer(stages, "a", settings())
        motion = np.zeros((2, MOTION_DIM), np.float32)
        first = await drawer.draw(MotionChunk(motion, 0), None)
        drawer.interrupt(1)
        second = await drawer.draw(MotionChunk(motion, 2), None)
        return [float(p[0, 0]) / 10 for b in (first, second) for p in b.y_planes]

    assert asyncio.run(run()) == [0, 0.5, 1, 1, 2, 2.5, 3]


def mean_stage(config: RifeSettings, make_tail: MakeTail, device: str) -> Rife:
    network = MeanInterpolator()
    return Rife(network, make_tail(network), device)


@cache
def presenter() -> Avatar:
    """Without an outline: through `rife` the picture around the face stands still, also where the renderer would move it."""
    drawing = draw_presenter(360, 640)
    return make_avatar(drawing.rgb, drawing.landmarks)


def mini(**changes: object) -> LocalStages:
    stages = LocalStages(lambda _: presenter(), rife=RifeSettings.model_validate({"allow_cpu": True} | changes))
    stages._rife._load = mean_stage  # the mean instead of a network
    return stages


def spoken(config: SessionSettings, pcm: F32) -> np.ndarray:
    async def run() -> list[Nv12RectBatch]:
        stages = mini()
        try:
            return [batch async for batch in clip_batches(pcm, presenter(), stages, config, 5)]
        finally:
            stages.close()

    return np.concatenate([batch.y_planes for batch in asyncio.run(run())])


def syllables(samples: int) -> F32:
    t = np.arange(samples) / 16_000
    voice = sum(np.sin(2 * np.pi * 120 * k * t) / k for k in range(1, 12))
    return (0.15 * voice * np.clip(np.sin(2 * np.pi * 3 * t), 0, 1)).astype(np.float32)


@pytest.fixture(scope="module")
def reference() -> np.ndarray:
    return spoken(settings(interpolate="rife", chunk_frames=8), syllables(16_001))


@pytest.mark.parametrize("chunk", [4, 25])
def test_real_faces_are_the_same_however_they_are_cut(reference: np.ndarray, chunk: int) -> None:
    again = spoken(settings(interpolate="rife", chunk_frames=chunk), syllables(16_001))
    np.testing.assert_array_equal(again, reference)


def test_real_faces_pass_through_and_lie_midway(reference: np.ndarray) -> None:
    native = spoken(settings(fps=25), syllables(16_001))
    assert len(reference) == 51 and len(native) == 26
    wrong = (
        reference[0::2].astype(float) - native[:26]
    )  # without Rife the face is drawn in the canvas's pixels, not as a crop
    assert 10 * np.log10(255**2 / (wrong**2).mean(axis=(1, 2))).min() > 36
    mean = (reference[0:-2:2].astype(float) + reference[2::2]) / 2
    assert np.abs(reference[1:51:2] - mean).max() <= 3.0  # blended in RGB, rounded twice
    assert np.abs(np.diff(native.astype(int), axis=0)).max() > 40


@pytest.mark.parametrize(("fps", "rate"), [(50, Fraction(50)), (59.94, Fraction(60_000, 1001))])
def test_files_are_exactly_as_long_as_the_voice(tmp_path: Path, fps: float, rate: Fraction) -> None:
    pcm = syllables(16_123)
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes((pcm * 32767).astype("<i2").tobytes())
    decoded = decode_audio(tmp_path / "a.wav")
    config = settings(fps=fps, interpolate="rife")
    stages = mini()
    out = tmp_path / "a.mp4"
    result = asyncio.run(generate_file(decoded, out, presenter(), stages, config, EncoderSettings()))
    stages.close()
    count = -(-16_123 * rate.numerator // (16_000 * rate.denominator))
    assert result.frames == count
    with av.open(str(out)) as container:
        video, sound = container.streams.video[0], container.streams.audio[0]
        assert video.average_rate == rate and video.frames == count
        assert video.duration * video.time_base == count / rate
        assert sound.duration * sound.time_base == Fraction(16_123, 16_000)
        assert [f.pts * f.time_base for f in container.decode(video=0)] == [i / rate for i in range(count)]


def test_a_cpu_refuses_with_a_way_out_and_may_be_told_to() -> None:
    with pytest.raises(InvalidInputError, match=r"50 frames/s.*mini.*rife.allow_cpu") as refused:
        mini(allow_cpu=False).check_rate(50)
    assert (refused.value.field, refused.value.got, refused.value.allowed) == ("fps", "50", "25")
    mini().check_rate(59.94)
    LocalRife(lambda _: None, RifeSettings(), "cuda").check(50)  # type: ignore[arg-type,return-value]


def test_crops_of_other_stages_are_refused() -> None:
    async def run() -> None:
        rife = LocalRife(lambda _: None, RifeSettings(allow_cpu=True), "cpu")  # type: ignore[arg-type,return-value]
        await rife.run(RifeRequest(50, "bt709"), FakeCrops(None), None)  # type: ignore[arg-type]

    with pytest.raises(InvalidInputError, match="crops"):
        asyncio.run(run())


def test_bodies_go_back_and_forth_and_stand_still_where_they_turn() -> None:
    half = Fraction(1, 2)
    assert body_at(Fraction(1, 2), 3, mirror_index) == Body(0, 1, half)
    assert body_at(Fraction(5, 2), 3, mirror_index) == Body(2, 2, Fraction(0)), "the end frame is shown twice"
    assert body_at(Fraction(7, 2), 3, mirror_index) == Body(1, 2, half), "the way back shows the same pictures"
    assert body_at(Fraction(13, 4), 3, mirror_index) == Body(1, 2, Fraction(3, 4))
    assert body_at(Fraction(1001, 2400), 3, mirror_index).share == Fraction(7, 16)
    assert body_at(Fraction(2), 3, mirror_index) == Body(2, 2, Fraction(0))
    assert body_at(Fraction(3, 2), 1, mirror_index) == Body(0, 0, Fraction(0))


def test_the_body_of_a_template_video_moves_with_the_face() -> None:
    avatar = video_avatar(3)  # every frame is the one before, moved by 2 and 1 pixels
    network = MeanInterpolator()
    tail = DittoTail(lambda _: avatar, network)
    grey = torch.full((1, 512, 512, 3), 90, dtype=torch.uint8)
    positions = [Fraction(0), Fraction(1, 2), Fraction(1), Fraction(9, 2)]
    batch = tail.compose(avatar.avatar_id, "bt709", grey, [Placed(0, position) for position in positions])
    matrices = unpack(avatar).crop_to_frame

    def centre(plane: np.ndarray) -> np.ndarray:
        rows, columns = np.nonzero(np.abs(plane.astype(int) - int(plane[tuple(where)])) <= 1)
        return np.array([columns.mean(), rows.mean()])

    where = np.round((matrices[0] @ [255.5, 255.5, 1])[::-1]).astype(int)
    first, between, second = (centre(plane) for plane in batch.y_planes[:3])
    np.testing.assert_allclose(between, (first + second) / 2, atol=0.3)
    assert np.linalg.norm(second - first) > 1.5
    np.testing.assert_array_equal(batch.y_planes[1], batch.y_planes[3])
    assert network.calls == [[0.5]], "a background is made once"


@pytest.mark.parametrize("chunk", [4, 16])
def test_ditto_s_template_video_at_fifty_holds_the_twenty_five(chunk: int) -> None:
    from tests.unit.pipeline.ditto.test_stages import stages as ditto_stages

    avatar = video_avatar(3)

    def drawn(config: SessionSettings) -> np.ndarray:
        async def run() -> list[Nv12RectBatch]:
            made = ditto_stages(avatar)
            tail = lambda network: DittoTail(lambda _: avatar, network)  # noqa: E731
            made._rife = LocalRife(tail, RifeSettings(allow_cpu=True), "cpu", mean_stage)
            try:
                return [batch async for batch in clip_batches(tone(6401), avatar, made, config, 3)]
            finally:
                made.close()

        return np.concatenate([batch.y_planes for batch in asyncio.run(run())])

    fast, native = drawn(settings(chunk_frames=chunk)), drawn(settings(fps=25))
    assert len(native) == 11 and len(fast) == 21, "0.4 s and one sample"
    np.testing.assert_array_equal(fast[0::2], native)
    assert np.abs(fast[1:-1:2].astype(int) - native[:-1]).max() > 3, "the body moves in between"
