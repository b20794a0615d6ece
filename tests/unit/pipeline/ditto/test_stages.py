"""From samples to NV12 rectangles over Ditto's stages, with formulas in place of the large networks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import cv2
import numpy as np
import pytest
import torch

from benchmarks.ditto.formula import FILL, SALT, filled
from engines.ditto.config import DittoConfig
from engines.motion_layout import MOTION_DIM
from engines.weights.file import WeightsFileError
from kernels.arrays import F32
from kernels.errors import InvalidInputError, ShapeError
from kernels.nv12.from_rgb import rgb_to_nv12
from pipeline.avatars.stale import StaleAvatarError
from pipeline.avatars.store import AvatarStore
from pipeline.config import FileMotion, RifeSettings, SessionSettings, SilenceSettings
from pipeline.ditto.audio_features import DittoAudioFeatures, silence_rows
from pipeline.ditto.avatar_tensors import unpack
from pipeline.ditto.clip_motion import ClipMode, DittoClipMotion
from pipeline.ditto.feature_windows import keep_frames
from pipeline.ditto.load import clip_settings
from pipeline.ditto.motion_fields import from_vector
from pipeline.ditto.motion_modes import DittoMotionModes
from pipeline.ditto.motion_stitch import MotionStitch, StitchOptions, frame_control
from pipeline.ditto.renderer import DittoEngines, DittoRenderer
from pipeline.ditto.speaker import STILL_DIMS
from pipeline.ditto.stages import DittoStages
from pipeline.ditto.tail import DittoTail
from pipeline.mini.motion_diffusion import initial_carry
from pipeline.rife.local import LocalRife
from pipeline.session.behaviour import behaviour_of
from pipeline.session.clip_session import run_session
from pipeline.session.frames import clip_batches
from pipeline.session.speech_motion import SpeechMotion
from pipeline.stage_meter import StageMeter
from pipeline.stages import CarryError, RenderRequest
from pipeline.types import AudioChunk, Avatar, FeatureRows, MotionChunk, Nv12RectBatch
from tests.golden.support import motion_info
from tests.support.ditto_avatar import still_avatar, video_avatar
from tests.support.ditto_motion import FormulaModel, settings, stage
from tests.support.put_back import put_back
from tests.support.reference_features import online_windows

KERNEL = FILL.normal("stages/kernel", (1024,), SALT, 1.0)


def encode_all(windows: Sequence[F32]) -> list[F32]:
    """Rows (20, 1024): the mean of 400 samples times a fixed vector."""
    out = []
    for window in windows:
        assert window.shape == (6480,)
        means = np.array([window[320 * j : 320 * j + 400].mean() for j in range(20)], np.float32)
        out.append(means[:, None] * KERNEL)
    return out


class FormulaSynthesis:
    """Crops whose shade follows the driven keypoints; counts its calls."""

    name, device = "formula", torch.device("cpu")

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []

    def run(self, *inputs: torch.Tensor) -> torch.Tensor:
        volume, source, driven = inputs
        self.calls.append((len(volume), len(driven)))
        assert volume.shape[0] in (1, len(driven)) and source.shape == driven.shape
        ramp = torch.linspace(0, 60, 512)[None, :, None, None] + torch.linspace(0, 60, 512)[None, None, :, None]
        shade = 60 + 400 * (driven - source).mean(dim=(1, 2)) + 20 * volume.float().mean(dim=(1, 2, 3, 4))
        return (ramp + shade[:, None, None, None]).clamp(0, 255).to(torch.uint8).expand(-1, 512, 512, 3).contiguous()


def renderer(
    avatars: Sequence[Avatar], batch: int = 1, version: str = "0123456789abcdef", **config: Any
) -> DittoRenderer:
    found = {avatar.avatar_id: avatar for avatar in avatars}
    engines = DittoEngines(FormulaSynthesis(), filled("stitch_network"), DittoConfig(**config), version, batch)
    return DittoRenderer(found.__getitem__, engines)


def stages(*avatars: Avatar, **changes: Any) -> DittoStages:
    hop = changes.get("hop_frames", 5)
    found = {avatar.avatar_id: avatar for avatar in avatars}
    rife = LocalRife(lambda network: DittoTail(found.__getitem__, network), RifeSettings(), "cpu")
    motion = DittoMotionModes(stage(**changes), clip_mode)
    return DittoStages(DittoAudioFeatures(encode_all, hop), motion, renderer(avatars), rife)


def test_the_first_file_finds_its_mode_made_and_a_folder_for_live_sessions_alone_still_starts() -> None:
    made: list[ClipMode] = []

    def make(mode: ClipMode) -> DittoClipMotion:
        made.append(mode)
        return clip_mode(mode)

    modes = DittoMotionModes(stage(), make)
    assert not made
    modes.probe()
    modes.probe()
    assert made == ["offline"], "once, before anybody waits"

    def missing(mode: ClipMode) -> DittoClipMotion:
        raise WeightsFileError("v0.4_hubert_cfg_pytorch.pkl", "", "no such file")

    DittoMotionModes(stage(), missing).probe()


def clip_mode(mode: ClipMode) -> DittoClipMotion:
    online = {"overlap_v2": 70, "fix_kp_cond": 1, "fix_kp_cond_dim": (0, 202)} if mode == "compat" else {}
    config = DittoConfig(sampling_timesteps=3, **online)
    return DittoClipMotion(mode, FormulaModel(), clip_settings(mode, config, "v1"), silence_rows(encode_all))


def tone(samples: int) -> F32:
    return (0.3 * np.sin(np.arange(samples) * 0.05)).astype(np.float32)


def rendered(avatar: Avatar, pcm: F32, config: SessionSettings, seed: int = 3, hop: int = 5) -> np.ndarray:
    async def run() -> list[Nv12RectBatch]:
        made = stages(avatar, hop_frames=hop)
        try:
            return [batch async for batch in clip_batches(pcm, avatar, made, config, seed)]
        finally:
            made.close()

    return np.concatenate([batch.y_planes for batch in asyncio.run(run())])


def request(avatar: Avatar, motion: F32, first: int = 0, fps: int = 25) -> RenderRequest:
    return RenderRequest(avatar.avatar_id, MotionChunk(motion, first), None, fps, "bt709")


def offsets(frames: int, scale: float = 0.05) -> F32:
    made = FILL.normal("stages/offsets", (frames, MOTION_DIM), SALT, scale)
    made[:, 0] = 0.0
    return made


def test_rows_of_a_session_are_the_reference_s_rows() -> None:
    pcm = tone(640 * 12)
    expected = np.concatenate([keep_frames(encode_all([window])[0]) for window in online_windows(pcm)])[:12]
    audio = DittoAudioFeatures(encode_all)
    assert audio.window_samples == 6480
    padded = np.concatenate([np.zeros(1920, np.float32), pcm, np.zeros(8000, np.float32)])
    for hop in (0, 1):
        rows = audio.window(padded[3200 * hop : 3200 * hop + 6480], 10 * hop)
        assert rows.rows.shape == (10, 1024) and rows.rate_hz == 50
        np.testing.assert_allclose(rows.rows.reshape(5, 2, -1).mean(axis=1), expected[5 * hop : 5 * hop + 5], atol=1e-6)
    longer = DittoAudioFeatures(encode_all, 10)
    both = longer.window(padded[: longer.window_samples], 0).rows
    np.testing.assert_array_equal(both[:10], audio.window(padded[:6480], 0).rows)
    with pytest.raises(ShapeError, match="6480"):
        audio.window(pcm[:100], 0)


MODES: tuple[FileMotion, ...] = ("offline", "low_latency", "compat")
LIVE = SessionSettings(file_motion="low_latency")


@pytest.mark.parametrize("motion", MODES)
@pytest.mark.parametrize("samples", [1, 640, 3200, 3201, 9000])
def test_a_clip_has_as_many_frames_as_its_audio(samples: int, motion: FileMotion) -> None:
    avatar = still_avatar()
    assert len(rendered(avatar, tone(samples), SessionSettings(file_motion=motion))) == -(-samples // 640)


@pytest.mark.parametrize("samples", [4559, 4560])
def test_the_first_frame_needs_285_ms(samples: int) -> None:
    avatar, made = still_avatar(), stages(still_avatar())
    meter, fed = StageMeter(made), asyncio.Event()

    async def source() -> AsyncIterator[AudioChunk]:
        yield AudioChunk(tone(samples), 0)
        fed.set()
        await asyncio.sleep(3600)

    async def run() -> bool:
        hops = SpeechMotion(meter, SilenceSettings(), 3, behaviour=behaviour_of(avatar)).run(source())
        async with aclosing(hops):
            first = asyncio.ensure_future(anext(hops))
            waiting = asyncio.ensure_future(fed.wait())
            done, _ = await asyncio.wait((first, waiting), return_when=asyncio.FIRST_COMPLETED)
            came = first in done
            for task in (first, waiting):
                task.cancel()
            await asyncio.gather(first, waiting, return_exceptions=True)
        return came

    assert asyncio.run(run()) == (samples == 4560)
    assert meter.calls["motion_diffusion"] == 1 + (samples == 4560)
    made.close()


@pytest.mark.parametrize("motion", ["offline", "low_latency"])
def test_chunks_change_no_pixel_and_seeds_do(motion: FileMotion) -> None:
    avatar, pcm = still_avatar(), tone(640 * 27)
    whole = rendered(avatar, pcm, SessionSettings(chunk_frames=25, file_motion=motion))
    for chunk in (4, 8, 16):
        config = SessionSettings.model_validate({"chunk_frames": chunk, "file_motion": motion})
        np.testing.assert_array_equal(rendered(avatar, pcm, config), whole)
    assert (rendered(avatar, pcm, SessionSettings(chunk_frames=25, file_motion=motion), seed=4) != whole).any()


def test_silence_costs_no_neural_speech_work_and_shows_a_living_face() -> None:
    avatar = still_avatar()

    made = stages(avatar)
    meter = StageMeter(made)

    async def run() -> list[Nv12RectBatch]:
        batches = clip_batches(np.zeros(640 * 20, np.float32), avatar, meter, LIVE, 3)
        return [batch async for batch in batches]

    batches = asyncio.run(run())
    assert meter.calls["audio_features"] == 0 and meter.calls["motion_diffusion"] == 1
    assert sum(map(len, batches)) == 20
    made.close()


@pytest.mark.parametrize("motion", MODES)
def test_two_sessions_at_once_equal_two_alone_bit_for_bit(motion: FileMotion) -> None:
    settings = SessionSettings(chunk_frames=4, file_motion=motion)
    first, second = still_avatar(), video_avatar(3)
    clips = [(first, tone(640 * 14), 5), (second, tone(640 * 11)[::-1].copy(), 9)]

    async def drive(made: DittoStages, avatar: Avatar, pcm: F32, seed: int) -> np.ndarray:
        batches = clip_batches(pcm, avatar, made, settings, seed)
        return np.concatenate([batch.y_planes async for batch in batches])

    async def together() -> list[np.ndarray]:
        made = stages(first, second)
        try:
            return list(await asyncio.gather(*(drive(made, *clip) for clip in clips)))
        finally:
            made.close()

    for (avatar, pcm, seed), shared in zip(clips, asyncio.run(together()), strict=True):
        np.testing.assert_array_equal(rendered(avatar, pcm, settings, seed), shared)


def test_speech_pause_speech_is_continuous() -> None:
    avatar = still_avatar()
    pcm = np.concatenate([tone(640 * 20), np.zeros(640 * 60, np.float32), tone(640 * 20)])

    async def run() -> F32:
        made = stages(avatar)
        source = _source(pcm)
        hops = SpeechMotion(made, SilenceSettings(hold_frames=2), 3, behaviour=behaviour_of(avatar)).run(source)
        motion = np.concatenate([hop.motion async for hop in hops])
        made.close()
        return motion

    motion = asyncio.run(run())
    assert len(motion) == 100
    steps = np.linalg.norm(np.diff(motion, axis=0), axis=1)
    spoken = np.r_[steps[:18], steps[-18:]]
    assert steps.max() <= 1.2 * spoken.max()
    assert steps[60:74].max() < 0.2 * spoken.max()


async def _source(pcm: F32) -> AsyncIterator[AudioChunk]:
    yield AudioChunk(pcm, 0)


def test_offsets_give_the_keypoints_of_the_reference_s_relative_driving() -> None:
    avatar = still_avatar()
    drawn = renderer([avatar], overall_ctrl_info={"delta_pitch": 2})
    face = drawn.prepare(avatar.avatar_id, "bt709")
    driving = [{k: v for k, v in motion_info(f"drive/{i}").items() if k != "kp"} for i in range(4)]
    moved = np.stack([_vector(d) - _vector(driving[0]) for d in driving])
    moved[:, STILL_DIMS] = 0.0
    source, driven = drawn.keypoints(face, moved * unpack(avatar).speaker.drive, 0)
    stitch = filled("stitch_network")

    def run(a: F32, b: F32) -> F32:
        with torch.inference_mode():
            return stitch(torch.from_numpy(a), torch.from_numpy(b)).numpy()

    options = StitchOptions(overall=frame_control({"delta_pitch": 2}))
    reference = MotionStitch(unpack(avatar).source_motion(), options, run)
    for i, one in enumerate(driving):
        expected = reference.step(one)
        np.testing.assert_allclose(source[i], expected[0][0], atol=1e-6)
        np.testing.assert_allclose(driven[i], expected[1][0], atol=2e-5)


def _vector(fields: dict[str, F32]) -> F32:
    order = ("pitch", "yaw", "roll", "t", "exp")
    return np.concatenate([fields["scale"][0] - 1.0, *(fields[name][0] for name in order)]).astype(np.float32)


def test_the_tail_is_the_reference_s_put_back() -> None:
    avatar = still_avatar()
    drawn = renderer([avatar])
    motion = offsets(2)
    batch = drawn.render(request(avatar, motion))
    matrix = np.vstack([avatar.crop_to_canvas, [0, 0, 1]]).astype(np.float32)
    rect = avatar.rect
    for i, crop in enumerate(drawn.crops(request(avatar, motion)).crops):
        whole = put_back(avatar.canvas_rgb, crop.astype(np.float32), matrix)
        y_plane, _ = rgb_to_nv12(whole)
        expected = y_plane[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w].astype(int)
        error = np.abs(expected - batch.y_planes[i])
        assert error.max() <= 4 and error.mean() < 0.6, (error.max(), error.mean())


class Mirror(FormulaSynthesis):
    """Draws the picture that was registered: what comes out must be what went in."""

    def __init__(self, crop: np.ndarray) -> None:
        super().__init__()
        self._crop = torch.from_numpy(crop)

    def run(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self._crop[None].expand(len(inputs[2]), -1, -1, -1).contiguous()


def test_a_face_drawn_as_it_was_lands_where_it_was() -> None:
    avatar = still_avatar()
    to_crop = np.linalg.inv(np.vstack([avatar.crop_to_canvas, [0, 0, 1]]))[:2]
    crop = cv2.warpAffine(avatar.canvas_rgb, to_crop, (512, 512), flags=cv2.INTER_LINEAR)
    engines = DittoEngines(Mirror(crop), filled("stitch_network"), DittoConfig(), "0123456789abcdef")
    batch = DittoRenderer(lambda _: avatar, engines).render(request(avatar, offsets(1)))
    rect = avatar.rect
    y_plane, _ = rgb_to_nv12(avatar.canvas_rgb)
    before = y_plane[rect.y : rect.y + rect.h, rect.x : rect.x + rect.w].astype(int)
    error = np.abs(batch.y_planes[0] - before)
    moved = np.abs(np.roll(before, 1, axis=1) - before)
    assert error.mean() < 1.0 and error.mean() < 0.6 * moved.mean(), (error.mean(), moved.mean())


def test_a_template_video_moves_behind_the_face() -> None:
    avatar = video_avatar(3)
    drawn = renderer([avatar])
    batch = drawn.render(request(avatar, np.zeros((7, MOTION_DIM), np.float32), first=1))
    tensors = unpack(avatar)
    assert tensors.frames is not None and batch.y_planes.shape == (7, 640, 360)
    for i, index in enumerate([1, 2, 2, 1, 0, 0, 1]):
        expected, _ = rgb_to_nv12(tensors.frames[index])
        np.testing.assert_array_equal(batch.y_planes[i][-40:], expected[-40:])
    assert (batch.y_planes[0] != rgb_to_nv12(tensors.frames[1])[0]).any()
    np.testing.assert_array_equal(batch.y_planes[0], batch.y_planes[3])


@pytest.mark.parametrize("make", [still_avatar, video_avatar])
def test_mini_batches_change_no_pixel(make: Any) -> None:
    avatar = make()
    one, three = renderer([avatar]), renderer([avatar], batch=3)
    motion = offsets(7)
    np.testing.assert_array_equal(
        one.render(request(avatar, motion)).y_planes, three.render(request(avatar, motion)).y_planes
    )
    empty = one.render(request(avatar, motion[:0]))
    assert len(empty) == 0 and empty.y_planes.shape[1:] == (avatar.rect.h, avatar.rect.w)


def test_features_that_do_not_fit_go_up_frame_by_frame_with_the_same_pixels() -> None:
    avatar = video_avatar(3)
    tight = DittoRenderer(
        lambda _: avatar,
        DittoEngines(FormulaSynthesis(), filled("stitch_network"), DittoConfig(), "0123456789abcdef"),
        1,
    )
    assert tight.prepare(avatar.avatar_id, "bt709").resident is None
    motion = offsets(4)
    np.testing.assert_array_equal(
        tight.render(request(avatar, motion)).y_planes, renderer([avatar]).render(request(avatar, motion)).y_planes
    )


def test_a_stored_avatar_draws_like_the_fresh_one(tmp_path: Any) -> None:
    avatar = still_avatar()
    stored = AvatarStore(tmp_path).put(avatar)
    motion = offsets(2)
    np.testing.assert_array_equal(
        renderer([stored]).render(request(stored, motion)).y_planes,
        renderer([avatar]).render(request(avatar, motion)).y_planes,
    )


def test_what_cannot_be_drawn_is_refused() -> None:
    avatar = still_avatar()
    drawn = renderer([avatar])
    with pytest.raises(InvalidInputError, match="fps"):
        drawn.render(request(avatar, offsets(2), fps=50))
    with pytest.raises(ShapeError, match="motion"):
        drawn.render(request(avatar, np.zeros((2, 10), np.float32)))
    with pytest.raises(StaleAvatarError, match="register it again"):
        renderer([avatar], version="other").render(request(avatar, offsets(1)))
    mini = replace(avatar, family="mini")
    with pytest.raises(InvalidInputError, match="family mini"):
        renderer([mini]).render(request(mini, offsets(1)))
    with pytest.raises(InvalidInputError, match="delta_smile"):
        frame_control({"delta_smile": 1})
    control = frame_control({"delta_pitch": 2, "alpha_exp": 0.5, "vad_alpha": 0.9, "delta_exp": np.ones(63)})
    assert control.delta == {"pitch": 2.0} and control.alpha == {"exp": 0.5} and control.vad_alpha == 0.9


def test_another_family_s_carry_is_refused() -> None:
    made = stages(still_avatar())
    carry = initial_carry(0, np.zeros((1, MOTION_DIM), np.float32))
    with pytest.raises(CarryError):
        asyncio.run(made.motion_diffusion(FeatureRows(np.zeros((0, 1024), np.float32), 50, 0), carry))
    made.close()


def test_leaving_a_session_early_cancels_its_pictures() -> None:
    avatar, goes_on = still_avatar(), threading.Event()

    class Slow(FormulaSynthesis):
        """Stops after the first chunk until the session has been left."""

        def run(self, *inputs: torch.Tensor) -> torch.Tensor:
            if len(self.calls) >= 8:
                assert goes_on.wait(120)
            return super().run(*inputs)

    synthesis = Slow()

    async def run() -> StageMeter:
        found = {avatar.avatar_id: avatar}
        engines = DittoEngines(synthesis, filled("stitch_network"), DittoConfig(), "0123456789abcdef")
        rife = LocalRife(lambda network: DittoTail(found.__getitem__, network), RifeSettings(), "cpu")
        motion = DittoMotionModes(stage(), clip_mode)
        made = DittoStages(DittoAudioFeatures(encode_all), motion, DittoRenderer(found.__getitem__, engines), rife)
        meter = StageMeter(made)
        batches = run_session(
            _source(tone(640 * 40)), meter, avatar.avatar_id, SessionSettings(), 0, behaviour_of(avatar)
        )
        async with aclosing(batches):
            assert len(await anext(batches)) == 8
        goes_on.set()
        made.close()
        return meter

    meter = asyncio.run(run())
    assert meter.calls["renderer"] == 3, "credits"
    drawn = sum(frames for _, frames in synthesis.calls)
    assert drawn in (8, 16), "a chunk in work is finished, the one behind it never begins"
    assert meter.calls["motion_diffusion"] < 40 // 5, "nor does the rest of the speech"


def test_a_cadence_that_fills_in_motion_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="cadence.*ditto"):
        rendered(still_avatar(), tone(640), SessionSettings(cadence=2))


def test_silence_has_the_same_rows_every_five_frames() -> None:
    rows = silence_rows(encode_all)
    assert rows.shape == (5, 1024)
    windows = list(online_windows(np.zeros(640 * 10, np.float32)))
    assert len(windows) >= 2
    for window in encode_all(windows):
        np.testing.assert_array_equal(keep_frames(window), rows)
    assert settings().hop_frames == 5 and from_vector(np.zeros(265, np.float32))["scale"][0, 0] == 1
